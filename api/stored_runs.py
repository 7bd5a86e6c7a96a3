"""The replay runs of a lake as a program lists them: what their plans and summaries say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ingest.errors import EvidenceError, LakeError
from pipeline.policies.verdict import STAGE
from pipeline.runs import RunKind, RunStore, RunSummary, StoredRun
from pipeline.stages.validating.plan import AS_RECORDED

from .beside_runs import label_of
from .errors import NotFoundError

_SUBJECTS_SHOWN = 2
# What the files of a run may hold that nobody wrote as a whole: not JSON, or JSON of another shape.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_DAMAGED: Mapping[str, Any] = {
    "kubernetes_version": "",
    "since": None,
    "until": None,
    "policies": (),
    "stage": "damaged",
    "versions": {},
    "took_what_was_bound": False,
    "requests": 0,
    "subjects": (),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One replay run in the lake. `finished` is False if it was interrupted or is still running; then it has no summary.

    `kind` is one of pipeline.runs.RunKind, and `asked_ts` is when it was last requested as that kind. A run of an earlier
    version of Hindcast has kept neither, and counts as a replay if policies were given. `versions` are digests of each given policy
    with its bindings and, if it takes params, the given objects; equal digests are one version. `stage` is that of the manifests,
    or `damaged` if the plan cannot be read. `subjects` are the given manifests of a stage that judges all of them as one thing, as
    `Kind name`. `name` and `is_kept` are what a person says of the run.
    """

    run_id: str
    stage: str
    finished: bool
    kind: str
    planned_ts: datetime
    asked_ts: datetime
    kubernetes_version: str
    since: datetime | None
    until: datetime | None
    policies: tuple[str, ...]
    versions: Mapping[str, str]
    requests: int
    summary: RunSummary | None
    subjects: tuple[str, ...] = ()
    name: str = ""
    is_kept: bool = False

    def title_of(self, policy: str) -> str:
        """How lists name a judged thing. What is judged as one thing is called after the experiment or its manifests."""
        if not self.subjects:
            return policy
        more = len(self.subjects) - _SUBJECTS_SHOWN
        return self.name or ", ".join(self.subjects[:_SUBJECTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def runs(lake: Path) -> list[Run]:
    """All runs of the lake, the latest planned first."""
    found = [run for run in map(_read_run, RunStore(lake).every()) if run is not None]
    return sorted(found, key=lambda run: (run.planned_ts, run.run_id), reverse=True)


def run(lake: Path, run_id: str) -> Run:
    """One run. Raises NotFoundError."""
    found = _read_run(stored(lake, run_id))
    if found is None:
        raise _no_such_run(run_id)
    return found


def run_plan(lake: Path, run_id: str) -> dict[str, Any]:
    """The plan of a run as its plan.json holds it, with the policies in full. Raises NotFoundError, and LakeError for a damaged
    plan."""
    found = stored(lake, run_id)
    try:
        plan: dict[str, Any] = json.loads(found.plan_text)
        _head_of(plan)
    except FileNotFoundError:
        raise _no_such_run(run_id) from None
    except _DAMAGE:
        raise LakeError(f"{found.folder}: the plan of this run cannot be read", f"`hindcast runs rm {run_id}` removes it") from None
    return plan


def stored(lake: Path, run_id: str) -> StoredRun:
    """The folder of a run, which need not exist.

    Raises NotFoundError for an invalid run id, so that a caller's text never becomes a path.
    """
    try:
        return RunStore(lake).run(run_id)
    except ValueError:
        raise _no_such_run(run_id) from None


def _no_such_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"the lake has no run {ascii(run_id)[:60]}", "`hindcast runs list` and the page `/runs` list them")


def verdicts_of(lake: Path, run_id: str) -> Path:
    """The verdicts of a finished run. Raises NotFoundError, EvidenceError."""
    found = run(lake, run_id)
    if not found.finished:
        raise EvidenceError(f"run {run_id} is not finished", "follow its replay, or start it again: it goes on where it stopped")
    return stored(lake, run_id).verdicts


def _read_run(stored: StoredRun) -> Run | None:
    """A run, or None without a plan (yet)."""
    planned_ns = stored.planned_ns
    if planned_ns is None:
        return None
    head = dict(_plan_head(stored.folder, planned_ns))
    took_what_was_bound = head.pop("took_what_was_bound")
    asked = stored.asked_ns() or {RunKind.CALIBRATION if took_what_was_bound else RunKind.REPLAY: planned_ns}
    kind, ns = next(iter(asked.items()))
    try:
        summary = stored.summary
    except _DAMAGE:  # a replay makes the run again
        summary = None
    label = label_of(stored)
    return Run(
        summary=summary,
        finished=summary is not None,
        kind=str(kind),
        asked_ts=_time(ns),
        name=label.name,
        is_kept=label.is_kept,
        **head,
    )


@lru_cache(maxsize=512)
def _plan_head(folder: Path, planned_ns: int) -> dict[str, Any]:
    """The few fields of a plan that a list shows; the plan of a large lake has megabytes, and never changes."""
    known = {"run_id": folder.name, "planned_ts": _time(planned_ns)}
    try:
        return {**known, **_head_of(json.loads(StoredRun(folder).plan_text))}
    except _DAMAGE:
        return {**known, **_DAMAGED}


def _head_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kubernetes_version": document["kubernetes_version"],
        "since": _moment(document["window"]["since"]),
        "until": _moment(document["window"]["until"]),
        "policies": tuple(sorted({entry["policy"] for entry in document["bindings"]})),
        "stage": _stage_of(document),
        "versions": _versions(document.get("policies", "")) or _whole_version(document),
        "took_what_was_bound": document.get("policies") == AS_RECORDED,
        "requests": document["requests"],
        "subjects": _subjects(document),
    }


def _stage_of(document: Mapping[str, Any]) -> str:
    """The stage of a plan. Plans from before there were several stages replay policies."""
    stage: str = document.get("stage", STAGE)
    return stage


def _versions(given: Mapping[str, Any] | str) -> dict[str, str]:
    """The version of each policy of a plan; empty if the plan used the policies bound at the time."""
    if isinstance(given, str):
        return {}
    found = {}
    for policy in given["policies"]:
        bindings = [item for item in given["bindings"] if item["policy_name"] == policy["name"]]
        params = given["objects"] if policy["param_kind"] else []
        text = json.dumps([policy, bindings, params], sort_keys=True)
        found[policy["name"]] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _subjects(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The manifests of a plan whose one judged thing has the name of its stage; empty for other plans."""
    given = document.get("manifests")
    if not isinstance(given, list) or {entry["policy"] for entry in document["bindings"]} != {document.get("stage")}:
        return ()
    return tuple(sorted(f"{each.get('kind', '')} {each.get('name', '')}".strip() for each in given if isinstance(each, dict)))


def _whole_version(document: Mapping[str, Any]) -> dict[str, str]:
    """The version of each judged thing of a plan of another stage: that of all its manifests."""
    text = json.dumps(document.get("manifests"), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {entry["policy"]: digest for entry in document["bindings"]} if "manifests" in document else {}


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
