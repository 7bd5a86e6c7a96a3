"""The replay of one stage's manifests, with its tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.given import Texts
    from api.printing.output import Table
    from pipeline.manifests.documents import Document
    from pipeline.runs.executors import Executor
    from pipeline.runs.plan import RunPlan
    from pipeline.stages.stage import Asked, Stage


@dataclass(frozen=True)
class Replayed:
    """A plan, and after its run the verdicts and the tables about them."""

    plan: RunPlan
    verdicts: Path
    tables: tuple[Table, ...] = ()


def replay_stage(
    own: Context,
    stage: Stage[Any, Any],
    rules: Any,
    asked: Asked,
    texts: Texts,
    old_rules: Any,
    workers: int,
    is_plan: bool,
    executor: Executor | None,
) -> Replayed:
    """Replay the rules of a stage over the recorded requests, and compare them with those of the version before, if any.

    `texts` are the given manifests, and `old_rules` those of the version before; None without one.
    """
    from api.given import say_mistakes, walk
    from ingest.counted import counted
    from pipeline.readiness.run import run_stage
    from pipeline.runs import RunKind, RunStore
    from pipeline.runs.difference import difference_table, request_difference
    from queries import open_lake

    say_mistakes(own, stage, rules, asked.replaces_all)
    if old_rules is not None:
        rules = stage.readiness.over(rules, old_rules)
    if is_plan:
        with closing(open_lake(own.lake)) as reader:
            plan = stage.plan(reader, rules, asked)
        return Replayed(plan, RunStore(own.lake).run(plan.run_id).verdicts)
    walked = walk(own, texts, workers, executor)
    found = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY)
    verdicts = found.verdicts(own.lake)
    with closing(open_lake(own.lake, files=found.plan.files)) as reader:
        summary = found.summary
        title = f"Run {summary.run_id}, stage {stage.name}: {counted(summary.evaluated, 'request')} replayed"
        tables = list(stage.readiness.run_tables(reader, found.plan, summary, title, verdicts))
    if old_rules is not None and not stage.readiness.flips_against_base:
        base = run_stage(own.lake, stage, old_rules, asked, walked, RunKind.BASE, found.plan.files)
        with closing(open_lake(own.lake, files=found.plan.files)) as reader:
            changed = stage.readiness.change_tables(reader, rules, old_rules, asked)
        both = base.verdicts(own.lake), verdicts
        flips = difference_table(request_difference(*both), stage.readiness.unpaired(rules, old_rules))
        tables = [*changed, flips, *stage.readiness.changes(*both), *tables]
    return Replayed(found.plan, verdicts, tuple(tables))


def replay_chain(
    own: Context, asked: Asked, texts: Texts, is_compared: bool, workers: int, is_plan: bool, executor: Executor | None
) -> Replayed:
    """Replay a folder through all stages of admission in their order. Raises InputError for options that it does not have."""
    from api.given import chain_of

    if is_compared:
        raise InputError("--chain compares with the record", "leave out --against, --against-log and --from-log")
    if asked.replaces_all:
        raise InputError("--chain judges all policies of the folder, and found --only", "leave out --only")
    return replay_stage(own, *chain_of(texts, asked.kubernetes_version), asked, texts, None, workers, is_plan, executor)


def rules_as_of(own: Context, stage: Stage[Any, Any], rules: Any, moment: str, cluster: str | None, replaces_all: bool) -> Any:
    """The rules that the log shows at a time, as a version before given ones. Raises InputError if the stage has no such."""
    from queries import open_lake

    from .texts import moment_of

    with closing(open_lake(own.lake)) as reader:
        name, at = moment_of(reader, moment, cluster)
        found = stage.readiness.as_of(reader, name, at, rules, replaces_all)
    if found is None:
        raise InputError(
            f"--against-log: the stage {stage.name} has no {stage.readiness.words.things} from the log",
            "give the version before as files with --against",
        )
    return found


def write_export(own: Context, replays: Sequence[Replayed], manifests: Sequence[Document], file: Path, only: bool) -> None:
    """Write the verdicts of all stages to a Parquet file. `manifests` are the given ones."""
    from pipeline.runs.export import export
    from queries import open_lake

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
