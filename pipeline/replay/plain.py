"""The plain requests of a stage that meets records: a judge answers them by their own record, and once for all that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from queries import LakeReader

from ..authorization import RecordedRbac
from ..derived.kept import Keeping, Unit
from ..requests.classes import Requests
from ..requests.judge import RecordJudge, V
from ..requests.lanes import lane_name
from ..runs.window import Window
from .past import BATCH_ROWS, rows_of
from .planning import register_classes
from .remembered import Remembered
from .sql import statement
from .worlds import Worlds

# A request: its cluster, audit ID, and the times of its arrival and its answer.
Place: TypeAlias = tuple[str, str, datetime, datetime]
_IDENTITY = ("cluster", "audit_id", "ts", "stage_ts")
_READ = (*_IDENTITY, "class", "is_plain", "response_object", "code", "namespace", "name", "request_uri", "annotations")
_USER = ("user_name", "user_uid", "user_groups", "user_extra", "impersonated_user")


def plain(
    requests: Requests, reader: LakeReader, judge: RecordJudge[V], worlds: Worlds, rbac: RecordedRbac, share: Window | None = None
) -> Iterator[tuple[Place, Sequence[V]]]:
    """The plain requests in the table `met` with the verdicts on each; alike ones have the same sequence.

    At the end, the table holds the others: see `choose` and `met`. Dry runs are among these.
    """
    classes = [item for item in requests.classes if judge.lane(lane_name(item)) is not None]
    if not classes:
        return
    units = frozenset(Unit(*lane_name(item), False) for item in classes)
    lanes = [judge.lane(name) for name in register_classes(reader, classes, Keeping(covers=units))]
    remembered = Remembered(lanes, judge, worlds, rbac)
    parameters = {**(share or requests.window).parameters, "partitions": 1}
    taken: list[pa.RecordBatch] = []
    for batch in reader.sql(_relation(), parameters).to_arrow_reader(BATCH_ROWS):
        found = _Found()
        remembered.take(batch, found, 0)
        rows = pa.array([row for row, _ in found.verdicts], pa.int64())
        chosen = batch.select(list(_IDENTITY)).take(rows)
        taken.append(chosen)
        for place, (_, verdicts) in zip(rows_of(chosen), found.verdicts, strict=True):
            yield (place["cluster"], place["audit_id"], place["ts"], place["stage_ts"]), verdicts
    if taken:
        _take_out(reader, pa.Table.from_batches(taken))


def _relation() -> str:
    columns = ", ".join((*_READ, *_USER))
    return (
        f"SELECT {columns} FROM ({statement('planned')}) SEMI JOIN met USING ({', '.join(_IDENTITY)})"
        " WHERE is_plain AND NOT coalesce(contains(request_uri, 'dryRun='), false)"
    )


def _take_out(reader: LakeReader, taken: pa.Table) -> None:
    reader.put_table("taken", taken)
    same = " AND ".join(f"met.{name} = taken.{name}" for name in _IDENTITY)
    reader.connection.execute(f"DELETE FROM met USING taken WHERE {same}")


class _Found:
    """See Collector: the verdicts of one batch."""

    def __init__(self) -> None:
        self.verdicts: list[tuple[int, Sequence[Any]]] = []

    def add(self, row: int, verdicts: Sequence[Any], pass_index: int = 0) -> None:
        """See Collector."""
        self.verdicts.append((row, verdicts))

    def add_alike(self, groups: pa.Array[Any], verdicts: Sequence[Sequence[Any]]) -> None:
        """See Collector: this walk takes no kept inputs."""
        raise NotImplementedError
