"""A cache of verdicts: requests that are equal in every field that decides share them; see lanes.py of pipeline/requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..authorization import RecordedRbac
from ..cel.projection import decode
from ..history.event import decode_json
from ..history.fit import is_fit
from ..history.fitness import UNFIT
from ..request import Object
from ..runs.verdict import Verdict
from .alike import Alike, alike_rows, alike_together
from .collector import Collector
from .judge import RecordJudge
from .kept.inputs import NAME
from .kept_inputs import InputKeeper, query_alone
from .lanes import Key, Lane, Parted
from .past import rows_of
from .worlds import Worlds

# Distinct requests whose verdicts are kept. Above it the cache is cleared, and verdicts are found again.
REMEMBERED_MAX = 50_000

# The columns of a request of a lane that are read in addition to its object.
_COLUMNS = [
    "class", "audit_id", "ts", "stage_ts", "code", "namespace", "name", "request_uri",
    "user_name", "user_uid", "user_groups", "user_extra", "impersonated_user", "annotations",
]  # fmt: skip

# Nobody reads these columns where they are left out, so they decide nothing.
_NOT_READ: Mapping[str, Any] = {
    "name": None, "request_uri": None, "annotations": (), "user_uid": None, "user_groups": (), "user_extra": None,
}  # fmt: skip

_encode = msgspec.json.Encoder().encode
Verdicts = Sequence[Verdict]


class _Plain(NamedTuple):
    """A request that needs only its own record, with the fields that are read of its object."""

    row: int
    lane: Lane
    value: Object
    parted: Parted
    kept: Parted  # as it is kept: not narrowed


class Remembered:
    """The verdicts of the distinct requests that one worker has met."""

    def __init__(
        self, lanes: Sequence[Lane | None], judge: RecordJudge[Any], worlds: Worlds, rbac: RecordedRbac, judges: bool = True
    ) -> None:
        """`lanes` are those of the classes of requests by number. Without `judges`, requests are only kept."""
        self._judge = judge
        self._apart = judge.apart()
        self.lanes = lanes
        self._judges = judges
        self._worlds = worlds
        self._rbac = rbac
        self._verdicts: dict[Key, Verdicts | None] = {}  # None: the general path must find them

    def take(self, batch: pa.RecordBatch, builder: Collector, first: int, keeper: InputKeeper | None = None) -> list[int]:
        """Add the verdicts of all requests that need only their own record; returns the rows of the batch that are left.

        `batch` has the columns of `planned.sql`, and `first` is the number of its first row in the builder. The keeper collects
        what the judge reads of the requests.
        """
        if not any(self.lanes):
            return list(range(batch.num_rows))
        if len(self._verdicts) > REMEMBERED_MAX:
            self._verdicts.clear()
        left, plain = self._plain(batch)
        if keeper is not None:
            keeper.add(batch, [(each.row, each.kept) for each in plain], left)
        if not self._judges:
            return left
        keys, new = self._keys(batch, plain)
        rows = rows_of(batch.select(_COLUMNS).take(pa.array([index for index, _ in new.values()], pa.int64())))
        for (key, (_, value)), row in zip(new.items(), rows, strict=True):
            self._verdicts[key] = self._find(value, row)
        for index, key in keys:
            verdicts = self._verdicts[key]
            if verdicts is None:
                left.append(index)
            else:
                builder.add(first + index, verdicts)
        return sorted(left)

    def _plain(self, batch: pa.RecordBatch) -> tuple[list[int], list[_Plain]]:
        """The requests that need only their own record; and the rows of the others."""
        left: list[int] = []
        found: list[_Plain] = []
        read = [batch.column(name).to_pylist() for name in ("class", "is_plain", "response_object")]
        for row, (number, is_plain, response) in enumerate(zip(*read, strict=True)):
            lane = self.lanes[number] if is_plain else None
            value = lane.value(response) if lane is not None else None
            if lane is None or value is None:
                left.append(row)
                continue
            try:
                parted = kept = lane.parted(value)
                if lane.narrows:
                    value = lane.narrowed(value)
                    parted = lane.parted(value)
                found.append(_Plain(row, lane, value, parted, kept))
            except (RecursionError, *UNFIT):
                left.append(row)
        return left, found

    def _keys(self, batch: pa.RecordBatch, plain: Sequence[_Plain]) -> tuple[list[tuple[int, Key]], dict[Key, tuple[int, Object]]]:
        """The keys of these requests; and for each new key its first row with the fields read of it."""
        keys: list[tuple[int, Key]] = []
        new: dict[Key, tuple[int, Object]] = {}
        names = {name for lane in self.lanes if lane for name in lane.columns}
        own = {name: list(map(_hashable, _compared(name, batch.column(name)).to_pylist())) for name in names}
        codes, namespaces = (batch.column(name).to_pylist() for name in ("code", "namespace"))
        epochs = self._worlds.epochs(batch.column("cluster"), batch.column("ts"))
        for row, lane, value, parted, _ in plain:
            columns = tuple([own[name][row] for name in lane.columns])
            epoch = epochs[row] if lane.reads_world else 0
            key = lane.key(parted, codes[row] == 201, namespaces[row], epoch, columns)
            keys.append((row, key))
            if key not in self._verdicts and key not in new:
                new[key] = (row, value)
        return keys, new

    def columns_of(self, number: int) -> Sequence[str]:
        """The columns of kept inputs that are read of a class; none for a class without a lane."""
        lane = self.lanes[number]
        if lane is None:
            return ()
        return (*lane.columns, NAME) if lane.reads_name else lane.columns

    def take_kept(self, number: int, inputs: pa.Table, builder: Collector) -> bool:
        """Add the verdicts of kept inputs of a lane, whose rows are numbered from 0; false if the general path must find some.

        `inputs` has columns of INPUTS: those that the lane reads among them. Each part of the judge judges the requests that
        differ in what it reads itself: all parts together read more, and fewer requests are alike in all of it.
        """
        lane = self.lanes[number]
        assert lane is not None
        columns: dict[str, Any] = {name: inputs.column(name).combine_chunks() for name in inputs.column_names}
        epochs = self._worlds.epochs_in(lane.name.cluster, columns["ts"])
        found: list[Alike[Verdicts]] = []
        for judge in self._apart:
            own = lane if judge is self._judge else judge.lane(lane.name)
            if own is None:
                continue  # none of its rules is for these requests
            judged = self._judged(judge, own, columns, epochs)
            if judged is None:
                return False
            found.append(judged)
        has_errors = any(map(self._judge.has_failed, chain.from_iterable(each.values for each in found)))
        if has_errors and not self._are_fit(lane, columns["object"]):
            return False
        if len(found) == 1:
            builder.add_alike(*found[0])  # unchanged: rows that carry costs are not plain lists
        else:
            together = alike_together(found)
            builder.add_alike(together.numbers, [list(chain.from_iterable(each)) for each in together.values])
        return True

    def _judged(
        self, judge: RecordJudge[Any], lane: Lane, columns: Mapping[str, Any], epochs: pa.Array[Any]
    ) -> Alike[Verdicts] | None:
        """The verdicts of a judge on kept inputs; it reads what its lane reads. None as for `take_kept`."""
        try:
            values, places = self._read_parts(lane, columns["object"].dictionary.to_pylist())
        except UNFIT:
            return None
        objects: pa.Array[Any] = pa.array(places, pa.int32()).take(columns["object"].indices)
        if NAME in columns and lane.narrows:
            are_named = pa.array([lane.names(decode(value)) for value in values], pa.bool_()).take(objects)
            columns = {**columns, NAME: pc.if_else(are_named, columns[NAME], pa.scalar(None, pa.string()))}
        names = [name for name in ("is_created", "namespace", *lane.columns, NAME) if name in columns]
        read = [columns[name] for name in names if name != NAME or lane.reads_name]
        alike = alike_rows([objects, *read, *([epochs] if lane.reads_world else ())])
        first = {name: column.take(alike.first) for name, column in columns.items() if name != "object"}
        at_first: list[Any] = objects.take(alike.first).to_pylist()
        found: list[Verdicts] = []
        for at, record in zip(at_first, rows_of(pa.RecordBatch.from_pydict(first)), strict=True):
            its_row = {**_NOT_READ, **record, "code": 201 if record["is_created"] else 200}
            if "annotations" in record:
                its_row["annotations"] = decode_json(record["annotations"]) if record["annotations"] else ()
            value = Parted(values[at], record.get(NAME) if lane.reads_name else None).joined()
            verdicts = self._verdicts_of(judge, lane, value, its_row)
            if verdicts is None:
                return None
            found.append(verdicts)
        return Alike(alike.numbers, found)

    def _are_fit(self, lane: Lane, objects: Any) -> bool:
        """Whether all that is read of some objects has the types that Kubernetes requires."""
        values, _ = self._read_parts(lane, objects.dictionary.to_pylist())
        return all(is_fit(decode(value)) for value in values)

    def _read_parts(self, lane: Lane, texts: Iterable[str]) -> tuple[list[bytes], list[int]]:
        """The distinct values, as JSON, of the fields that a lane reads, and the place of each text among them.

        Others may have kept the texts, which then hold more fields.
        """
        found: dict[bytes, int] = {}
        places = [found.setdefault(_encode(lane.cut(text)), len(found)) for text in texts]
        return list(found), places

    def _find(self, value: Object, row: Mapping[str, Any]) -> Verdicts | None:
        """The verdicts of a request in its lane; None if the general path may know more."""
        lane = self.lanes[row["class"]]
        assert lane is not None
        verdicts = self._verdicts_of(self._judge, lane, value, row)
        return None if verdicts is None or (self._judge.has_failed(verdicts) and not is_fit(value)) else verdicts

    def _verdicts_of(self, judge: RecordJudge[Any], lane: Lane, value: Object, row: Mapping[str, Any]) -> Verdicts | None:
        request = lane.request(value, row)
        world = self._worlds.at(request.cluster, request.ts)
        authorize = partial(self._rbac.authorize, request.cluster, request.ts)
        try:
            verdicts: Verdicts | None = judge.answer_alike(request, world, authorize, row)
        except RecursionError:
            return None
        if verdicts is None or not lane.may_know_more(request):
            return verdicts
        return None if judge.is_open(verdicts) else verdicts


def _compared(name: str, column: pa.Array[Any]) -> pa.Array[Any]:
    """What tells requests apart of a column of the record: of a URI, the query alone is read."""
    return query_alone(column) if name == "request_uri" else column


def _hashable(value: Any) -> Any:
    return tuple(value) if value.__class__ is list else value
