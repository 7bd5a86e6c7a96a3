"""The form to try a policy over history: its values, and the progress of the replay that it started."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request

from api.stages.pages import is_of_policies
from ingest.counted import counted
from ingest.errors import EvidenceError, InputError
from pipeline.cel.minors import DEFAULT, EVERY, words_of

from .. import stored_runs
from ..ask.kept import plan_of
from ..ask.reads import Source
from ..asked_values import parse_time, parse_version
from ..beside_runs import kept_manifests
from ..errors import NotFoundError, TooLargeError
from ..posted import BYTES_MAX
from ..work.jobs import Job, Order, State
from .manifest import binding_manifest, manifests_text, policy_manifest
from .tables import Asked, Column, Table, table

# A form holds only short fields next to the manifests.
_FORM_BYTES_MAX = 3 * BYTES_MAX
_SHORT_FORM_BYTES_MAX = 8 * 1024
_PARTS_MAX = 100
_HEAD_BYTES_MAX = 8 * 1024
_BOUNDARY = re.compile(r';\s*boundary="?([^";,\s]{1,200})')
_NAME = re.compile(rb'^content-disposition:[^\r\n"]*;[ \t]*name="([^"\r\n]*)"', re.IGNORECASE | re.MULTILINE)
KUBERNETES_VERSIONS = tuple((version, version) for version in map(words_of, reversed(EVERY)))
# The meaning of each state of a job for the waiting user.
_WORDS: Mapping[str, str] = {
    "waiting": "waits for another replay to end",
    "planning": "reads the manifests and counts the requests",
    "running": "replays the recorded requests",
    "calibrating": "replays the manifests in force at the time, to compare with the record",
    "reporting": "computes the verdicts",
    "exempting": "looks for exemptions, and replays with them",
    "costing": "counts the CEL costs of the recorded requests",
    "finished": "is finished",
    "failed": "failed",
    "cancelled": "was cancelled",
}


@dataclass(frozen=True, slots=True)
class TrialForm:
    """The values that a user filled in, unchanged."""

    policies: str = ""
    since: str = ""
    until: str = ""
    kubernetes_version: str = words_of(DEFAULT)
    calibrate: str = "on"
    exemptions: str = "on"
    only: str = ""

    def order(self, now: datetime) -> Order:
        """The requested replay. Raises InputError naming the field."""
        if not self.policies.strip():
            raise InputError(
                "policies: nothing was given", "paste manifests, such as a policy and its bindings or roles, or choose a file"
            )
        window = parse_time("since", self.since or None, now), parse_time("until", self.until or None, now)
        if window[0] is not None and window[1] is not None and window[0] >= window[1]:
            raise InputError(f"since: {self.since} is not before {self.until}", "give an earlier one")
        version = parse_version(self.kubernetes_version or words_of(DEFAULT))
        return Order(
            self.policies,
            *window,
            kubernetes_version=version,
            calibrate=bool(self.calibrate),
            exemptions=bool(self.exemptions),
            only=bool(self.only),
        )


def form_of_run(source: Source, run_id: str, policy: str, form: TrialForm) -> TrialForm:
    """A form with a policy as a replay used it, with its bindings and params, over the same requests unless the form names others.

    Raises NotFoundError if the replay did not try it, and EvidenceError if it used the policies in force at the time.
    """
    run, plan = stored_runs.run(source.lake, run_id), plan_of(source, run_id)
    since = form.since or (run.since.isoformat() if run.since else "")
    until = form.until or (run.until.isoformat() if run.until else "")
    form = replace(form, since=since, until=until, kubernetes_version=run.kubernetes_version)
    if not is_of_policies(run):
        return _form_of_stage(source, run, plan, form)
    given = plan.get("policies", "")
    if isinstance(given, str):
        raise EvidenceError(
            f"replay {run_id} took the policies in force at the time of each request, so there is no text to edit",
            "open a replay of a policy that was given",
        )
    found = next((item for item in given["policies"] if item["name"] == policy), None)
    if found is None:
        raise NotFoundError(f"replay {run_id} did not try the policy {policy!r}", "the overview lists the policies of each replay")
    bindings = [binding_manifest(item) for item in given["bindings"] if item["policy_name"] == policy]
    kind = (found["param_kind"] or {}).get("kind")
    params = [item for item in given["objects"] if kind and item.get("kind") == kind]
    return replace(form, policies=manifests_text([policy_manifest(found), *bindings, *params]))


def _form_of_stage(source: Source, run: stored_runs.Run, plan: Mapping[str, Any], form: TrialForm) -> TrialForm:
    """A form with the manifests of a run of another stage, as they were given."""
    text = kept_manifests(source.lake, run.run_id)
    if text is None:
        raise EvidenceError(f"the manifests of replay {run.run_id} are not kept", "paste them into the form")
    return replace(form, policies=text, only="on" if plan.get("replaces_all") else "")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the form: its field, the line of the manifests if known, and the next step."""

    field: str
    message: str
    hint: str
    line: int | None = None
    context: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a replay: `state` is done, now or later."""

    words: str
    state: str


@dataclass(frozen=True, slots=True)
class JobView:
    """How far a started replay is. `share` is the finished part of the current step; None if the step has no count."""

    job: Job
    words: str
    share: float | None
    counts: str
    steps: tuple[Step, ...]
    problem: Problem | None
    is_over: bool


def problem_of(form: TrialForm, message: str, hint: str) -> Problem:
    """A mistake with its place: messages begin with the field, or with `policies:LINE:` for a place in the manifests."""
    name, _, rest = message.partition(":")
    number = rest.partition(":")[0]
    if name == "policies" and number.isdigit():
        line = int(number)
        lines = form.policies.splitlines()
        near = tuple((at, lines[at - 1][:400]) for at in range(max(1, line - 2), min(len(lines), line + 2) + 1))
        return Problem("policies", rest.partition(":")[2].strip(), hint, line, near)
    return Problem(name if name in ("since", "until") else "policies", message, hint)


def job_view(job: Job) -> JobView:
    """A job in words."""
    problem = None
    if job.error is not None:
        problem = problem_of(TrialForm(), job.error["message"], job.error.get("hint", ""))
    # All requests are judged a moment before the step ends: until then the bar only shows that the step is running.
    is_counted = job.state in (State.RUNNING, State.COSTING) and job.done < job.planned
    counts = f"{job.done:,} of {counted(job.planned, 'request')}" if is_counted else ""
    return JobView(
        job,
        job.waits_for or _WORDS.get(job.state, str(job.state)),
        job.done / job.planned if is_counted else None,
        counts,
        _steps(job),
        problem,
        job.is_over,
    )


_JOBS_SHOWN = 10


def jobs_table(jobs: Sequence[Job], asked: Asked) -> Table[Job]:
    """The replays that were started here, in the order in which they are given."""
    columns: tuple[Column[Job], ...] = (
        Column("started", "Started", lambda job: job.created_ts, "time"),
        Column("by", "By", lambda job: job.reader, "name"),
        Column("state", "State", lambda job: job.waits_for or str(job.state)),
        Column("requests", "Requests", lambda job: job.planned, "n"),
        Column("job_id", "", lambda job: job.job_id),
        Column("run_id", "", lambda job: job.run_id),
    )
    return table(asked, "jobs", "Replays that were started on this page, newest first", columns, jobs, _JOBS_SHOWN)


def _steps(job: Job) -> tuple[Step, ...]:
    """The steps that this replay takes, in order."""
    if job.order.costs_of:
        return _named_steps(job, [State.PLANNING, State.COSTING])
    states = [State.PLANNING, State.RUNNING, *([State.CALIBRATING] if job.order.calibrate else []), State.REPORTING]
    states += [State.EXEMPTING] if job.order.exemptions else []
    return _named_steps(job, states)


def _named_steps(job: Job, states: Sequence[State]) -> tuple[Step, ...]:
    at = states.index(job.state) if job.state in states else -1
    named = ("done" if number < at else "now" if number == at else "later" for number in range(len(states)))
    return tuple(Step(_WORDS[state], name) for state, name in zip(states, named, strict=True))


async def read_form(request: Request) -> TrialForm:
    """The form in a browser's request, as `application/x-www-form-urlencoded` or, with a file, as `multipart/form-data`.

    Raises TooLargeError, and InputError for a body that is not such a form. A chosen file is used if the text field is empty.
    """
    body = await _body(request, _FORM_BYTES_MAX, f"give at most {BYTES_MAX:,} bytes of manifests")
    return await asyncio.to_thread(_form_of, request.headers.get("content-type", ""), body)


async def read_fields(request: Request) -> dict[str, str]:
    """The fields of a short form without files. Raises TooLargeError, and InputError for a body that is not such a form."""
    try:
        return _of_pairs(await _body(request, _SHORT_FORM_BYTES_MAX, "give a shorter name"))
    except (UnicodeDecodeError, ValueError):
        raise InputError("the form is not UTF-8 text", "send it as application/x-www-form-urlencoded") from None


async def _body(request: Request, bytes_max: int, hint: str) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise TooLargeError("the form is too large", hint)
    return bytes(body)


def _form_of(kind: str, body: bytes) -> TrialForm:
    """The values in a body, worked out away from the event loop: other readers must not wait for a large form."""
    try:
        fields = _of_parts(kind, body) if kind.startswith("multipart/form-data") else _of_pairs(body)
    except (UnicodeDecodeError, ValueError):
        raise InputError("policies: the form is not UTF-8 text", "give YAML or JSON") from None
    names = TrialForm.__dataclass_fields__
    form = TrialForm(**dict.fromkeys(names, "") | {name: text for name, text in fields.items() if name in names})
    if not form.policies.strip() and fields.get("file"):
        form = replace(form, policies=fields["file"])
    form = replace(form, policies=form.policies.replace("\r\n", "\n"))
    if len(form.policies.encode()) > BYTES_MAX:
        raise TooLargeError("policies: the manifests are too large", f"give at most {BYTES_MAX:,} bytes, without other objects")
    return form


def _of_pairs(body: bytes) -> dict[str, str]:
    pairs = parse_qs(body.decode("ascii"), keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=50)
    return {name: values[0] for name, values in pairs.items()}


def _of_parts(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a multipart form as browsers send it (html.spec.whatwg.org, "Multipart form data"): each part begins with its
    name in quotes. One pass, so that its cost grows as the body does. Raises ValueError for a body without parts."""
    boundary = _BOUNDARY.search(kind)
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("latin-1"), _PARTS_MAX + 1) if boundary else []
    if len(parts) < 3 or not parts[-1].startswith(b"--"):
        raise ValueError("no multipart form")
    fields: dict[str, str] = {}
    for part in parts[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        named = _NAME.search(head[:_HEAD_BYTES_MAX])
        if named is not None:
            name, text = named[1].decode("utf-8"), content.decode("utf-8")
            fields[name] = f"{fields[name]}\n---\n{text}" if name in fields else text
    return fields
