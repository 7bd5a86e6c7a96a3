"""Replays and reports in one call each, with their answers as frames: for notebooks and scripts.

found = replay("lake", [Path("my-policies")])
found["validating"].polars()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import InputError
from queries import open_lake

from .readiness.judging import Given, Place, judge, rules_of
from .readiness.report import Report
from .readiness.rolling import Proved, knows_waves, plan_rollouts
from .readiness.rules import ReadinessRules
from .runs import RunKind, RunStore, RunSummary
from .runs.plan import RunPlan
from .stages.registry import stage_of
from .stages.stage import Asked, Stage

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Replay:
    """A finished replay of one stage. `rules` are what it judged by, as the stage reads them."""

    lake: Path
    stage: str
    rules: Any
    plan: RunPlan
    summary: RunSummary

    @property
    def path(self) -> Path:
        """The Parquet file with every verdict."""
        return RunStore(self.lake).run(self.summary.run_id).verdicts

    def arrow(self) -> pa.Table:
        """Every verdict: one row per request, judged thing, binding, param and expression."""
        table: pa.Table = pq.read_table(self.path)
        return table

    def polars(self) -> polars.DataFrame:
        """The same as a polars frame."""
        import polars

        return polars.read_parquet(self.path)


def replay(
    lake: str | Path, manifests: Given | None = None, *, asked: Asked | None = None, workers: int = 1, **rules: Any
) -> dict[str, Replay]:
    """Replay manifests, as files and folders or as one text, over the recorded requests; the answers by the name of the stage.

    `asked` names the window and other options. In place of manifests, `rules` are those of stages by their names, such as
    `webhooks=configurations_as_of(...).rules`. Raises InputError for manifests that cannot be read, and LakeError.
    """
    given = {**(rules_of(manifests) if manifests is not None else {}), **rules}
    if not given:
        raise InputError("no stage judges by the given manifests", "give policies, roles or other manifests of an API server")
    place, found = Place(Path(lake), workers), {}
    for name, own in given.items():
        stage: Stage[Any, Any] = stage_of(name)
        with closing(open_lake(lake)) as reader:
            plan = stage.plan(reader, own, asked or Asked())
        found[name] = Replay(Path(lake), name, own, plan, place.walk(stage, plan, RunKind.REPLAY))
    return found


def readiness(lake: str | Path, manifests: Given, **options: Any) -> Report:
    """Whether manifests may be enforced, with the figures behind the answer. The options are those of `judge`."""
    return judge(lake, manifests, **options).report


def rollout(
    lake: str | Path, manifests: Given, *, asked: Asked | None = None, rules: ReadinessRules | None = None, workers: int = 1
) -> list[Proved]:
    """Where manifests can be enforced today, in waves of namespaces, and the proof of the first wave.

    Raises InputError for manifests without waves.
    """
    judged = [(stage_of(name), own) for name, own in rules_of(manifests).items() if knows_waves(stage_of(name))]
    if not judged:
        raise InputError("these manifests cannot be enforced namespace by namespace", "give policies, or Namespaces with labels")
    return plan_rollouts(Path(lake), judged, asked or Asked(), rules or ReadinessRules(), Place(Path(lake), workers).walk)


def frames(report: Report) -> dict[str, polars.DataFrame]:
    """Every list of a report as a polars frame, by its name."""
    import polars

    from .report.tables import report_tables

    return {name: polars.DataFrame(table) for name, table in report_tables(report).items()}


def rows(found: Iterable[Any]) -> polars.DataFrame:
    """Answers of this module as a polars frame: a row for each, a column for each of its fields."""
    import polars

    given = [_row(each) for each in found]
    return polars.DataFrame(given, infer_schema_length=None)


def _row(found: Any) -> Mapping[str, Any]:
    """The fields of a dataclass or of a named tuple."""
    names = [field.name for field in fields(found)] if is_dataclass(found) else found._fields
    return {name: getattr(found, name) for name in names}
