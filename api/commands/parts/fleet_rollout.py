"""The part of `hindcast fleet` about rollouts: where manifests can begin, cluster by cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.given import Given
    from api.printing.output import Table
    from pipeline.fleet import Question
    from pipeline.fleet.rollout import ClusterRollout
    from pipeline.readiness.run import StageWalk


def roll_out(
    own: Context,
    question: Question,
    given: Given,
    clusters: Sequence[str] | None,
    workers: int,
    output: str,
    limit: int | None,
    write: Path | None,
) -> int:
    """Plan the waves in each cluster, and print them, the cluster with the fewest changes first. Raises InputError."""
    from api.beside_runs import keep_cluster
    from api.given import walk
    from api.printing.output import Format, render
    from pipeline.fleet.fleet import clusters_of
    from pipeline.fleet.rollout import rollout_fleet
    from pipeline.runs import RunKind, RunSummary
    from pipeline.runs.plan import RunPlan
    from pipeline.runs.processes import start_processes
    from pipeline.stages.stage import Stage

    from .waves import check_folder, in_waves

    if output not in list(Format):
        raise InputError(f"a rollout has no format {output!r}", f"use one of {', '.join(Format)}")
    judged = in_waves(own, given)
    if write is not None:
        check_folder(write)
    walked = walk(own, question.texts, workers)

    def walk_in(cluster: str) -> StageWalk:
        def walk_there(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
            summary = walked(stage, plan, kind)
            if kind is not RunKind.TRIAL:
                keep_cluster(own.lake, summary.run_id, cluster)
            return summary

        own.say(f"cluster {cluster}")
        return walk_there

    start_processes(own.lake, workers)
    names = clusters_of(own.lake) if clusters is None else clusters
    found = rollout_fleet(own.lake, question, judged, names, walk_in, own.note_defects)
    apart = _apart(found)
    render([_table(found), *([apart] if apart.rows else [])], Format(output), limit=limit)
    if write is not None:
        _write(own, found, write)
    return 0


def _write(own: Context, found: Sequence[ClusterRollout], write: Path) -> None:
    """The files of each cluster, in a folder of a number and of the letters of its name that any system takes."""
    from .waves import write_waves

    for number, each in enumerate((each for each in found if each.found), start=1):
        plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in each.cluster)
        write_waves([proved.rollout for proved in each.found], write / f"{number:02}-{plain[:60]}", own, each.last_ts)


def _table(found: Sequence[ClusterRollout]) -> Table:
    from api.printing.output import Column, Table
    from pipeline.readiness.words import percent

    columns = [
        Column("policy", may_shorten=True), Column("order", "STEP", number=True), Column("cluster", may_shorten=True),
        Column("first", "BEGIN TODAY", prose=True), Column("later_denied", "WAVE 1 DENIES", number=True),
        Column("upper", "AT MOST", number=True, may_go=2), Column("requests", number=True, may_go=3),
        Column("to_change", "TO CHANGE", number=True), Column("waves", number=True, may_go=1),
    ]  # fmt: skip
    rows: list[list[object]] = []
    steps: dict[str, int] = {}
    for cluster in found:
        for each in cluster.found:
            rollout, first = each.rollout, each.rollout.first
            steps[rollout.name] = steps.get(rollout.name, 0) + 1
            rows.append([
                rollout.name, steps[rollout.name], cluster.cluster, ", ".join(first.namespaces) if first else "nothing",
                each.later_denied, percent(rollout.tried.upper), sum(wave.requests for wave in rollout.waves),
                sum(len(wave.needed) for wave in rollout.waves), len(rollout.waves),
            ])  # fmt: skip
    rows.sort(key=lambda row: (str(row[0]), row[1]))
    notes = (
        "step: the clusters in which the fewest workloads have to change go first",
        "wave 1 denies: requests of the later half of the window, by a replay of the manifests of wave 1 in this cluster",
        "`hindcast rollout` over a lake of one cluster, and -o json here, name the workloads",
    )
    return Table("rollouts", columns, rows, "Where to begin in each cluster", notes if rows else ("no cluster has a wave",))


def _apart(found: Sequence[ClusterRollout]) -> Table:
    from api.printing.output import Column, Table

    rows = [[each.cluster, each.apart] for each in found if each.apart]
    return Table("apart", [Column("cluster"), Column("reason", "WHY", prose=True)], rows, "Clusters that cannot be judged")
