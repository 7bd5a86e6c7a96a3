"""The replay of one stage's manifests, with its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.context import Context
from api.output import Table
from pipeline.manifests.documents import Document
from pipeline.replay import request_difference
from pipeline.runs import RunKind, RunStore, RunSummary
from pipeline.runs.export import export
from pipeline.runs.flips import flips
from pipeline.stages.assign import Assigned
from pipeline.stages.authorization.overlay import Proposal
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked, Stage, StagePlan
from pipeline.stages.webhooks.interception import interception, reasons
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from .replay_tables import flips_tables, request_difference_table
from .role_lint import say_mistakes
from .webhook_tables import interception_tables


@dataclass(frozen=True)
class Replayed:
    """A plan, and after its run the verdicts and the tables about them."""

    plan: StagePlan
    verdicts: Path
    tables: tuple[Table, ...] = ()


def replay_stage(
    own: Context, stage: Stage[Any, Any], rules: Any, asked: Asked, before: Assigned | None, workers: int, is_plan: bool
) -> Replayed:
    """Replay the rules of a stage over the recorded requests, and compare them with those of the version before, if any."""
    if isinstance(rules, Proposal):
        say_mistakes(own, rules, asked.replaces_all)
    plan = _planned(own, stage, rules, asked)
    verdicts = RunStore(own.lake).run(plan.run_id).verdicts
    if is_plan:
        return Replayed(plan, verdicts)
    summary = _run(own, stage, plan, workers, RunKind.REPLAY)
    reader = open_lake(own.lake, files=plan.files)
    try:
        tables = _tables(stage, summary, reader, verdicts)
    finally:
        reader.close()
    old_rules = next((old for other, old in before.rules if other is stage), None) if before else None
    if old_rules is not None:
        base = _planned(own, stage, old_rules, asked, plan.files)
        _run(own, stage, base, workers, RunKind.BASE)
        found = request_difference(RunStore(own.lake).run(base.run_id).verdicts, verdicts)
        tables = [request_difference_table(found), *tables]
    return Replayed(plan, verdicts, tuple(tables))


def _tables(stage: Stage[Any, Any], summary: RunSummary, reader: LakeReader, verdicts: Path) -> list[Table]:
    """What a stage's own run says: webhooks are called or not, other stages change the outcome of requests or not."""
    if stage is WEBHOOKS:
        return interception_tables(summary, interception(reader, verdicts), reasons(reader, verdicts))
    return flips_tables(stage.name, summary, flips(reader, verdicts))


def write_export(own: Context, replays: Sequence[Replayed], manifests: Sequence[Document], file: Path, only: bool) -> None:
    """Write the verdicts of all stages to a Parquet file. `manifests` are the given ones."""
    reader = open_lake(own.lake, files=replays[0].plan.files)
    try:
        sources = {f"{each.value['kind']}/{_name(each)}": each.source for each in manifests}
        rows = export(reader, [each.verdicts for each in replays], file, only=only, sources=sources)
    finally:
        reader.close()
    own.say(f"{rows:,} verdicts written to {file}")


def _name(manifest: Document) -> str:
    metadata = manifest.value.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""


def _planned(own: Context, stage: Stage[Any, Any], rules: Any, asked: Asked, files: LakeFiles | None = None) -> StagePlan:
    reader = open_lake(own.lake, files=files)
    try:
        plan: StagePlan = stage.plan(reader, rules, asked)
    finally:
        reader.close()
    return plan


def _run(own: Context, stage: Stage[Any, Any], plan: StagePlan, workers: int, kind: RunKind) -> RunSummary:
    with own.progress(f"replaying {stage.name}") as step:
        return stage.run(plan, own.lake, workers, step, kind)
