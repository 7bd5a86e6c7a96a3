"""The report as Markdown for a pull request: it shows verdicts and reasons, and folds the detail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ingest.counted import counted
from pipeline.explaining.missing import SHOWN_MAX
from pipeline.readiness.change import Fate
from pipeline.readiness.counting.figures import FIGURES, figures_by_group
from pipeline.readiness.model import Counterexample, PolicyReadiness
from pipeline.readiness.report import Report
from pipeline.readiness.words import day
from pipeline.stages.over_time import OverTime, span_words

from .cells import visible
from .data import plain
from .outcomes import OUTCOMES, next_step
from .over_time import MOMENT, sparkline
from .texts import yaml_text
from .words import answer, exemptions_title, fate_count, policy_name, step, workload
from .workloads import denied_workloads

# A comment on GitHub holds 65,536 characters.
_COMMENT_MAX = 60_000
_VERDICTS_MAX = 100


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that stand or go together; those of a lower `rank` are kept first, those of rank 0 always."""

    rank: int
    lines: Sequence[str]

    @property
    def size(self) -> int:
        return sum(len(visible(line)) + 1 for line in self.lines)


def to_markdown(report: Report) -> str:
    """The report: one line per policy, then the reasons and next steps of each, with tables that fold.

    It fits into a comment. What does not fit is left out, details first, and its end says so. Policies that are the same in both
    versions have a line in the table alone.
    """
    blocks = _fitting(list(_blocks(report)))
    return visible("\n".join(line for block in blocks for line in block.lines)) + "\n"


def _blocks(report: Report) -> Iterator[_Block]:
    yield _Block(0, _summary(report))
    yield from (_Block(2, ["", *_folded(found.chart, _over_time(found))]) for found in report.over_time)
    for entry in report.policies:
        if entry.change is None or not entry.change.is_same:
            yield _Block(1, ["", *_policy(entry)])
            yield from (_Block(2, ["", *_folded(title, body)]) for title, body in _details(entry))
    yield _Block(1, ["", "## What weakens these figures", "", *(f"- {_text(caveat)}" for caveat in report.caveats)])
    yield _Block(3, ["", *_folded("How to recompute a figure", _queries(report))])


def _fitting(blocks: Sequence[_Block]) -> Sequence[_Block]:
    left, kept = _COMMENT_MAX, set[int]()
    for number in sorted(range(len(blocks)), key=lambda number: blocks[number].rank):
        if blocks[number].rank == 0 or blocks[number].size <= left:
            left -= blocks[number].size
            kept.add(number)
    if len(kept) == len(blocks):
        return blocks
    missing = counted(len(blocks) - len(kept), "part")
    note = f"{missing} of this report did not fit into a comment. The HTML and the JSON report have all of it."
    return [*(blocks[number] for number in sorted(kept)), _Block(0, ["", f"**{note}**"])]


def _summary(report: Report) -> list[str]:
    left_out = len(report.policies) - _VERDICTS_MAX
    return [
        f"# {_text(report.title)}",
        "",
        f"**{answer(report)}**",
        "",
        f"{counted(report.events, 'audit event')}, {counted(report.requests, 'request')} of "
        f"{_text(', '.join(report.clusters)) or 'no cluster'}, "
        f"{day(report.first_ts)} to {day(report.last_ts)}; run `{report.run_id}`, Kubernetes {report.kubernetes_version}.",
        "",
        *_table(
            ("policy", "binding", "verdict", "matched", "would deny", "unknown", "agreement"),
            (_verdict(entry) for entry in report.policies[:_VERDICTS_MAX]),
            right=3,
        ),
        *([f"\n{left_out:,} more."] if left_out > 0 else []),
        *_changes(report),
    ]


def _changes(report: Report) -> list[str]:
    """New, kept and gone denials side by side; empty without a version before."""
    columns = ("policy", "binding", "new denials", "kept", "gone", "perhaps new", "unknown", "not enforced")
    changes = [*(entry.change for entry in report.policies if entry.change is not None), *report.removed]
    if not changes:
        return []
    order = (Fate.NEW, Fate.KEPT, Fate.GONE, Fate.UNSURE, Fate.UNKNOWN, Fate.UNENFORCED)
    rows = [(each.policy, each.binding or "", *(fate_count(each.count(fate)) for fate in order)) for each in changes]
    removed = "; pairs of policy and binding that only the base has are listed too" if report.removed else ""
    intro = f"Denials against the version before, as requests / workloads{removed}:"
    return ["", intro, "", *_table(columns, rows[:_VERDICTS_MAX], right=2)]


def _verdict(entry: PolicyReadiness) -> tuple[str, ...]:
    shown = {figure.label: figure.show(entry) for figure in FIGURES}
    return (
        entry.policy,
        entry.binding or "",
        f"{OUTCOMES[entry.status].sign} {entry.status}",
        shown["requests matched"],
        shown["requests that would be denied"],
        shown["requests unknown"],
        shown["agreement with the record"],
    )


def _over_time(found: OverTime) -> list[str]:
    step = span_words(found.slot_seconds)
    columns = ("", "over time", "busiest (UTC)", found.unit, f"most per {step}")
    rows = [
        (row.what, sparkline(found, row), f"{row.busiest:{MOMENT}}" if row.busiest else "", f"{row.total:,}", f"{row.peak:,}")
        for row in found.bars
    ]
    span = f"From {found.first:{MOMENT}} to {found.last:{MOMENT}} UTC."
    return [f"{_text(found.note)} {span}", "", *_table(columns, rows, right=3)]


def _policy(entry: PolicyReadiness) -> Iterator[str]:
    outcome = OUTCOMES[entry.status]
    yield f"## {outcome.sign} {_text(policy_name(entry))}: {entry.status}"
    yield ""
    yield from (f"- {_text(reason)}" for reason in entry.reasons)
    yield from ("", f"**Next:** {next_step(entry)}")
    yield from (f"{number}. {_text(step(found))}" for number, found in enumerate(entry.rollout, start=1))


def _details(entry: PolicyReadiness) -> Iterator[tuple[str, Sequence[str]]]:
    """The parts of one policy that fold, each with its title; those without rows are left out."""
    yield "Figures", [line for group, rows in figures_by_group(entry) for line in (*_table((group, ""), rows), "")]
    for part in (_critical, _changed if entry.change else _owners, _exemptions, _latent, _hidden, _unknowns, _fidelity):
        found = part(entry)
        if found.rows:
            shown = found.rows[: found.rows_max]
            more = [f"\n{len(found.rows) - len(shown):,} more."] if len(found.rows) > len(shown) else []
            yield found.title, [*_table(found.columns, shown), *more]
    if entry.counterexamples:
        yield "Counterexamples", [line for found in entry.counterexamples for line in _counterexample(found)]
    patches = [(row.target, row.patch) for row in entry.exemptions if row.patch]
    if patches:
        yield "Patches of the exemptions", [line for target, patch in patches for line in _code(target, plain(patch))]


@dataclass(frozen=True, slots=True)
class _Part:
    """A table that folds and shows at most `rows_max` rows."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    rows_max: int = 10  # a pull request's comment holds 65,536 characters; the other formats list more


def _critical(entry: PolicyReadiness) -> _Part:
    rows = [(row.kind, row.subject, f"{row.requests:,}", f"{row.denied:,}", f"{row.unknown:,}") for row in entry.critical]
    return _Part("Critical subjects", ("kind", "subject", "matched", "would deny", "unknown"), rows)


def _owners(entry: PolicyReadiness) -> _Part:
    rows = [
        (
            *(row.namespace, row.label, row.example.team, row.users, f"{row.requests:,}", day(row.last_ts)),
            *(row.example.message, row.example.difference),
        )
        for row in denied_workloads(entry.owners)
    ]
    title = f"Who would have been denied ({max(entry.denials.units, len(rows)):,})"
    columns = ("namespace", "workload", "team", "users", "requests", "last seen", "message", "passes with")
    return _Part(title, columns, rows, rows_max=15)


def _changed(entry: PolicyReadiness) -> _Part:
    units = entry.change.units if entry.change else ()
    rows = [(row.fate, row.namespace, workload(row), row.user, f"{row.requests:,}", day(row.last_ts), row.message) for row in units]
    columns = ("denials", "namespace", "workload", "user", "requests", "last seen", "message")
    return _Part("Whom the change hits", columns, rows, rows_max=15)


def _exemptions(entry: PolicyReadiness) -> _Part:
    rows = [
        (row.subject, row.who, f"{row.denied_requests:,}", f"{row.hides_requests:,}", str(row.review_by or "no day"), row.reason)
        for row in entry.exemptions
    ]
    return _Part(exemptions_title(entry), ("exempts", "who can use it", "denials", "exempt requests", "review by", "why"), rows)


def _latent(entry: PolicyReadiness) -> _Part:
    found = entry.latent
    templates = [(row.namespace, row.owner, f"{row.outcome} at the next rollout", row.message) for row in found.projections]
    objects = [(row.namespace, f"{row.resource}/{row.name}", row.outcome, row.message) for row in found.violations]
    return _Part("What exists and was not tried", ("namespace", "object", "next write", "message"), [*templates, *objects])


def _hidden(entry: PolicyReadiness) -> _Part:
    rows = [(row.name or row.denier, f"{row.requests:,}", f"{row.units:,}", row.message) for row in entry.hidden]
    return _Part("What the recorded denials hid", ("denied by", "requests", "workloads", "what the client was told"), rows)


def _unknowns(entry: PolicyReadiness) -> _Part:
    # The most frequent ones are among the reasons of the verdict.
    rows = [(why, f"{count:,}") for why, count in entry.unknown_reasons[SHOWN_MAX:]]
    return _Part("More that could not be judged", ("missing evidence", "requests"), rows)


def _fidelity(entry: PolicyReadiness) -> _Part:
    rows = [
        (row.resource, row.policy, f"{row.compared:,}", f"{row.agreed:,}", f"{row.unknown:,}") for row in entry.fidelity.by_resource
    ]
    columns = ("resource", "policy that was bound", "recorded outcomes", "replayed alike", "unknown")
    return _Part("How far the replay can be trusted here", columns, rows)


def _counterexample(found: Counterexample) -> Iterator[str]:
    what = f"{found.verb} {found.resource} {found.namespace}/{found.name}"
    yield f"{day(found.ts)}, {_text(found.user)}: {_text(what)} ({_text(found.audit_id)})"
    yield from ("", _text(found.message), "")
    yield from _indented(plain(found.object))


def _code(target: str, patch: object) -> Iterator[str]:
    yield f"`{_text(target)}`"
    yield ""
    yield from _indented(patch)


def _indented(value: object) -> Iterator[str]:
    # Indented, not fenced, so that the value cannot end the block.
    yield from (f"    {line}" for line in yaml_text([value]).splitlines())
    yield ""


def _queries(report: Report) -> list[str]:
    intro = [
        "Over the lake's views and the table `outcomes`, which `hindcast readiness --export` writes and",
        "`pipeline.readiness.outcomes_of` makes; files are those of `pipeline/readiness/sql/`, and in the JSON report.",
        "",
    ]
    rows = [(query.label, f"`{query.file}.sql`" if query.file else f"`{query.sql}`", query.note) for query in report.queries]
    return [*intro, *_table(("figure or list", "query", "note"), rows, code=1)]


def _folded(title: str, body: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{_text(title)}</summary>"
    yield ""
    yield from body
    yield ""
    yield "</details>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: int | None = None, code: int | None = None) -> list[str]:
    """The lines of a table. Columns from `right` on are numbers; column `code` is our own text and is not escaped."""
    marks = ["---:" if right is not None and number >= right else "---" for number in range(len(columns))]
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(marks) + " |"]
    for row in rows:
        cells = (cell.replace("|", "\\|") if number == code else _text(cell) for number, cell in enumerate(row))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


_ESCAPED = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_[]|~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def _text(words: str) -> str:
    """Words from the log as plain text on one line: no markup, no end of a table's cell."""
    return words.translate(_ESCAPED)
