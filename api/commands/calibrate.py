"""`hindcast calibrate`: how far the replay of what was bound agrees with what the cluster recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from pipeline.history.in_force import CHANGE_DELAY
from pipeline.readiness.model import Fidelity
from pipeline.replay import (
    Agreement,
    RunSummary,
    Window,
    compare_with_log,
    disagreements,
    plan_replay_from_log,
    run_replay,
    runs_folder,
)
from queries import LakeReader, open_lake

from . import options, replay

_DISAGREEMENTS_SHOWN = 20


@dataclass(frozen=True)
class Calibration:
    """A finished comparison: the run, the agreement of each (policy, binding), and the requests that disagree."""

    summary: RunSummary
    agreements: tuple[Agreement, ...]
    disagreements: tuple[dict[str, Any], ...]

    @property
    def fidelity(self) -> dict[str, Fidelity]:
        """Agreement by policy, over all bindings that it had; policies without a record are not in it."""
        found: dict[str, Fidelity] = {}
        for item in self.agreements:
            before = found.get(item.policy, Fidelity())
            found[item.policy] = Fidelity(before.compared + item.compared, before.agreed + item.agreed)
        return found


def command(
    context: typer.Context,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    workers: replay.Workers = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay the policies that were bound at the time, and compare with every recorded failure, denial and audit annotation."""
    own: Context = context.obj
    window = Window(*options.parse_window(since, until))
    found = calibrate(own, window, options.parse_version(kubernetes_version), workers)
    render([agreement_table(found.agreements), disagreement_table(found.disagreements)], output)
    return 0


def calibrate(
    own: Context, window: Window, version: tuple[int, int], workers: int | None, change_delay: timedelta = CHANGE_DELAY
) -> Calibration:
    """Replay what was in force and compare. Raises LakeError."""
    reader = open_lake(own.lake)
    try:
        plan = plan_replay_from_log(reader, window, version, change_delay)
        with own.progress("replaying what was bound") as step:
            summary = run_replay(plan, own.lake, replay.workers_or_default(workers), step)
        agreements = compare_with_log(reader, runs_folder(own.lake) / summary.run_id / "verdicts.parquet", version)
        return Calibration(summary, agreements, tuple(_rows(reader)))
    finally:
        reader.close()


def _rows(reader: LakeReader) -> Iterable[dict[str, Any]]:
    relation = disagreements(reader)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def agreement_table(agreements: Iterable[Agreement]) -> Table:
    """One row per (policy, binding), and the sum."""
    names = ("agreed", "disagreed", "unknown", "silent", "annotations_compared", "annotations_agreed")
    columns = [Column("policy"), Column("binding"), *(Column(name, number=True) for name in names)]
    rows = [[item.policy, item.binding, *(getattr(item, name) for name in names)] for item in agreements]
    agreed, compared = sum(item.agreed for item in agreements), sum(item.compared for item in agreements)
    record = (
        f"{agreed:,} of {compared:,} recorded outcomes are replayed alike" if compared else "nothing is recorded to compare with"
    )
    silent = "silent: the log could not have recorded an outcome; annotations are counted by policy, once for each of its bindings"
    return Table("agreement", columns, rows, "Replay of what was bound, against the record", (record, silent))


def disagreement_table(rows: Iterable[dict[str, Any]]) -> Table:
    """The requests that disagree, both sides."""
    shown = list(rows)
    names = ("ts", "policy", "binding", "about", "messages", "denied_message", "audit_id")
    columns = [Column(name, wide=name in ("messages", "denied_message")) for name in names]
    cells = [[row[name] for name in names] for row in shown[:_DISAGREEMENTS_SHOWN]]
    more = len(shown) - len(cells)
    return Table("disagreements", columns, cells, "Disagreements", (f"{more} more",) if more > 0 else ())
