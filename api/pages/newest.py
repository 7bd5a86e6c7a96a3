"""Chooses the replay that the overview shows for a policy: its newest version, over the whole log where that was replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.runs import RunKind

from ..stored_runs import Run

_SHOWN = (RunKind.REPLAY, RunKind.BASE)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The replay shown for a policy. `others` are the further finished replays of this policy, of any version and window, the
    newest first."""

    policy: str
    run: Run
    others: tuple[Run, ...]


def newest(runs: Iterable[Run]) -> list[Chosen]:
    """For each policy, or judged thing of another stage, the replay to show, by name.

    Older versions, calibrations and trials are not shown.
    The newest version is that of the replay that was asked for last. Among its replays the newest over the whole log is shown, or
    else the newest over a part.
    """
    by_policy: dict[tuple[str, str, tuple[str, ...]], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.asked_ts, run.planned_ts, run.run_id), reverse=True):
        if run.finished and run.kind == RunKind.REPLAY:
            for policy in run.policies:
                by_policy.setdefault((policy, run.stage, run.subjects), []).append(run)
    return [_chosen(policy, found) for (policy, *_), found in sorted(by_policy.items())]


def _chosen(policy: str, found: Sequence[Run]) -> Chosen:
    speaker = _speaker(policy, found)
    return Chosen(policy, speaker, tuple(run for run in found if run is not speaker))


def _speaker(policy: str, found: Sequence[Run]) -> Run:
    same = [run for run in found if run.versions.get(policy) == found[0].versions.get(policy)]
    return next((run for run in same if run.since is None and run.until is None), same[0])


def unspoken(runs: Iterable[Run], chosen: Iterable[Chosen]) -> list[str]:
    """Policies that only runs of other kinds, or unfinished ones, have tried: the overview lists them in a line."""
    shown = {(entry.policy, entry.run.stage) for entry in chosen}
    kinds = {(policy, run.stage) for run in runs if run.kind in _SHOWN for policy in run.policies}
    return sorted({policy for policy, _ in kinds - shown})
