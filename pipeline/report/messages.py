"""Messages to the people who can change what would be denied: one for each, as text that is ready to send.

A message goes to the team of a workload, or else to whoever last wrote it, or to a person who sent the requests, or to those who
look after its namespace.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ingest.counted import counted
from pipeline.readiness.counting.writers import Writer
from pipeline.readiness.model import Identity, PolicyReadiness
from pipeline.readiness.report import Report

from .cells import visible
from .of_stage import words_of
from .workloads import MACHINES, Denied, denied_workloads

Writers = Mapping[tuple[str, str], Writer]
_WIDTH = 78
_RULE = "=" * _WIDTH
_WORKLOADS_MAX = 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `to` says who gets it, and `why` how that is known."""

    to: str
    why: str
    subject: str
    body: str


def denied_places(report: Report) -> list[tuple[str, str]]:
    """The workloads that a report lists as denied, as (namespace, unit): last_writers says who wrote them."""
    return [(found.namespace, found.unit) for entry in report.policies for found in denied_workloads(entry.owners)]


def messages(report: Report, writers: Writers, by: date | None) -> list[Message]:
    """The messages of a report, in the order of who has most requests. `by` is the day by which a change is wanted."""
    parts: dict[str, list[tuple[PolicyReadiness, Denied]]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for entry in report.policies:
        for found in denied_workloads(entry.owners):
            to, why = _addressed(found, writers)
            parts.setdefault(to, []).append((entry, found))
            reasons.setdefault(to, {})[why] = None
    order = sorted(parts.items(), key=lambda part: (-sum(found.requests for _, found in part[1]), part[0]))
    return [Message(to, "; ".join(reasons[to]), _subject(found), _body(found, writers, by)) for to, found in order]


def to_messages(found: Sequence[Message]) -> str:
    """The messages as one text, with a rule between them."""
    if not found:
        return "No workload would have been denied: there is no message to send.\n"
    return f"\n{_RULE}\n\n".join(_text(each) for each in found)


def _text(message: Message) -> str:
    return f"To: {_line(message.to)}\nBecause: {_line(message.why)}\nSubject: {message.subject}\n\n{message.body}"


def _line(text: str) -> str:
    """A text as one line: names are a stranger's, and must not begin a line of their own."""
    return " ".join(visible(text).split())


def _addressed(found: Denied, writers: Writers) -> tuple[str, str]:
    """Who gets the message about a workload, and how that is known."""
    owner = found.example
    if owner.team:
        return f"team {owner.team}", f"the workloads or their namespaces have the label {owner.team_source.rpartition(': ')[2]}"
    writer = writers.get((found.namespace, found.unit))
    if writer is not None:
        return writer.user, "they wrote the workload last"
    person = next((client for client in found.clients if client.identity in (Identity.USER, Identity.GITOPS)), None)
    if person is not None:
        return person.user, "they sent the requests"
    place = f"namespace {found.namespace}" if found.namespace else "the cluster"
    return f"whoever looks after {place}", "the log names neither a team nor a person"


def _subject(parts: Sequence[tuple[PolicyReadiness, Denied]]) -> str:
    names = list(dict.fromkeys(entry.policy for entry, _ in parts))
    units = {(found.namespace, found.unit) for _, found in parts}
    shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    return _line(f"{counted(len(units), 'workload')} will be refused by {shown}")


def _body(parts: Sequence[tuple[PolicyReadiness, Denied]], writers: Writers, by: date | None) -> str:
    sections = [_opening(parts)]
    for name in dict.fromkeys((entry.policy, entry.binding) for entry, _ in parts):
        own = [found for entry, found in parts if (entry.policy, entry.binding) == name]
        entry = next(entry for entry, _ in parts if (entry.policy, entry.binding) == name)
        lines = [_line(f"{words_of(entry).thing} {entry.policy}:")]
        lines += [line for found in own[:_WORKLOADS_MAX] for line in _workload(found, writers)]
        if len(own) > _WORKLOADS_MAX:
            lines.append(f"- and {counted(len(own) - _WORKLOADS_MAX, 'more workload')}")
        sections.append("\n".join(lines))
    day = f" by {by.isoformat()}" if by is not None else ""
    closing = f"Please change this{day}. If that cannot be done, answer this message: an exemption may be possible."
    return "\n\n".join([*sections, _filled(closing)]) + "\n"


def _opening(parts: Sequence[tuple[PolicyReadiness, Denied]]) -> str:
    enforced = all("Deny" in entry.actions or not words_of(entry).goes_to_deny for entry, _ in parts)
    today = "" if enforced else " Today they are not refused."
    return _filled(f"The rules below will be enforced, and requests of these workloads break them.{today}")


def _workload(found: Denied, writers: Writers) -> Iterator[str]:
    place = f"in namespace {found.namespace}" if found.namespace else "outside namespaces"
    span = f"between {found.first_ts:%Y-%m-%d %H:%M} and {found.last_ts:%Y-%m-%d %H:%M} UTC"
    yield _item(f"{found.label} {place}: {counted(found.requests, 'request')} {span}, sent by {_senders(found)}", "- ")
    writer = writers.get((found.namespace, found.unit))
    if writer is not None:
        yield _item(f"last written by {writer.user}, {writer.ts:%Y-%m-%d %H:%M} UTC")
    if found.example.message:
        yield _item(f"why: {found.example.message}")
    if found.example.difference:
        yield _item(f"to pass: {found.example.difference}")
    yield _item(f"an example has the audit ID {found.example.audit_id}")


def _senders(found: Denied) -> str:
    """The people and pipelines that sent the requests; controllers of the cluster are counted."""
    people = [client.user for client in found.clients if client.identity not in MACHINES]
    machines = len(found.clients) - len(people)
    return ", ".join([*people, *([counted(machines, "controller")] if machines else ())])


def _item(text: str, lead: str = "  ") -> str:
    return textwrap.fill(
        _line(text), _WIDTH, initial_indent=lead, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH)
