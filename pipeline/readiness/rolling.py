"""Where manifests can be enforced today, of any stage that knows waves, and the proof of the first wave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..history.world import NAMESPACES
from ..request import Known
from ..requests.past import load_history
from ..runs import RunKind
from ..runs.window import Window
from ..stages.stage import Asked, Stage
from ..stages.waves import Needed, Rollout, Wave
from .assess import judge_units
from .build import About
from .counting.bounds import upper_bound
from .exempting.manifests import Manifests
from .rollout import spared_namespaces
from .rules import ReadinessRules
from .run import Note, StageRun, StageWalk, ignored, run_stage, trial
from .sql import dry_runs_kept
from .waves import changes_of, plan_waves

# Requests that are denied, and that the cluster did not refuse.
_DENIED = """
    SELECT count(DISTINCT (cluster, audit_id, ts)) FROM read_parquet($path) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE effect = 'deny' AND flip IS DISTINCT FROM 'still-denied'
"""


def knows_waves(stage: Stage[Any, Any]) -> bool:
    """Whether manifests of a stage can be enforced in waves of namespaces."""
    return stage.readiness.actions is not None or stage.readiness.plans_waves


def rollouts_of(reader: LakeReader, about: About, verdicts: Path, rules: ReadinessRules) -> list[Rollout]:
    """The waves of each judged thing of a finished run, which can still be enforced further. Leaves tables in the connection.

    The connection needs the table `dry_runs` (see sql.dry_runs_kept). The rules of the run must be known.
    """
    kind = about.stage.readiness
    judge_units(reader, str(verdicts), rules, kind.counted, is_change=kind.has_flips)
    if kind.plans_waves:
        found = kind.rollouts(reader, about.given, about.window, about.kubernetes_version, spared_namespaces(rules))
        needed = {(each.namespace, each.unit): each for changes in changes_of(reader.connection).values() for each in changes}
        return [_completed(each, needed, rules.confidence) for each in found]
    assert kind.actions is not None
    assert kind.exemptions is not None
    manifests = Manifests.of(kind.exemptions.written(about.given) or (), about.stage.kinds)
    labels = {**labels_of_namespaces(reader, about.window), **_given_labels(manifests)}
    return plan_waves(reader.connection, rules, manifests, kind.actions, labels)


@dataclass(frozen=True, slots=True)
class Proved:
    """A rollout, and how many requests of the later half wave 1 would newly deny (None: nothing can begin today)."""

    stage: str
    rollout: Rollout
    later_denied: int | None


def plan_rollouts(
    lake: Path,
    judged: Iterable[tuple[Stage[Any, Any], Any]],
    asked: Asked,
    rules: ReadinessRules,
    walk: StageWalk,
    note: Note = ignored,
    files: LakeFiles | None = None,
) -> list[Proved]:
    """Replay the rules of some stages that know waves over a lake, or over these files of it. Plan the waves, and prove the first.

    `note` gets what Hindcast failed to judge. Raises LakeError.
    """
    found: list[Proved] = []
    for stage, own in judged:
        run = run_stage(lake, stage, own, asked, walk, RunKind.REPLAY, files)
        with closing(open_lake(lake, files=run.plan.files)) as reader, dry_runs_kept(reader.connection):
            planned = rollouts_of(reader, run.about, run.verdicts(lake), rules)
            found += [Proved(stage.name, each, proved(lake, reader, run, each, walk, note)) for each in planned]
    return found


def _completed(found: Rollout, needed: Mapping[tuple[str, str], Needed], confidence: float) -> Rollout:
    """With the last users and requests of the workloads that have to change, and the bound of the trial."""
    tried = replace(found.tried, upper=upper_bound(found.tried.denied, found.tried.namespaces, confidence))

    def named(need: Needed) -> Needed:
        told = needed.get((need.namespace, need.unit))
        return replace(need, user=told.user, example=told.example) if told is not None else need

    waves = tuple(replace(wave, needed=tuple(map(named, wave.needed))) for wave in found.waves)
    return replace(found, waves=waves, tried=tried)


def proved(lake: Path, reader: LakeReader, run: StageRun, found: Rollout, walk: StageWalk, note: Note = ignored) -> int | None:
    """How many requests of the later half the manifests of wave 1 would newly deny, by a replay of exactly these.

    None without such a wave. The connection needs the table `dry_runs`. `note` gets what Hindcast failed to judge.
    """
    if found.first is None:
        return None
    rules = run.stage.read(Manifests.of(found.checked(found.first), run.stage.kinds).documents())
    asked = replace(run.asked, window=replace(run.asked.window, since=found.tried.since))
    with trial(lake, run.stage, run.stage.plan(reader, rules, asked), walk, note) as verdicts:
        ((requests,),) = reader.connection.execute(_DENIED, {"path": str(verdicts)}).fetchall()
    count: int = requests
    return count


def labels_of_namespaces(reader: LakeReader, window: Window) -> dict[str, dict[str, str] | None]:
    """The labels of each namespace that exists at the end of a window; None where they are not known, or differ by cluster."""
    history = load_history(reader, (), window)
    found: dict[str, dict[str, str] | None] = {}
    for cluster, last in reader.connection.execute("SELECT cluster, max(ts) FROM events GROUP BY cluster").fetchall():
        for key in history.keys(cluster, NAMESPACES):
            told = history.at(cluster, window.until or last).namespace(key.name)
            if isinstance(told, Known) and told.value is None:
                continue
            labels = dict(told.value["metadata"].get("labels") or {}) if isinstance(told, Known) and told.value else None
            found[key.name] = labels if found.get(key.name, labels) == labels else None
    return found


def _given_labels(manifests: Manifests) -> dict[str, dict[str, str]]:
    """The labels of Namespaces that were given with the manifests: they stand in for recorded ones."""
    spaces = [each for each in manifests.others if each.get("kind") == "Namespace" and each.get("apiVersion") == "v1"]
    return {each["metadata"]["name"]: dict(each["metadata"].get("labels") or {}) for each in spaces}


def next_wave(found: Rollout) -> Wave | None:
    """The wave after the first, or the first where none can begin; None where all is in one wave."""
    rest = found.waves if found.first is None else found.waves[1:]
    return rest[0] if rest else None
