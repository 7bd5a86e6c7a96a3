"""A cache of verdicts: requests that are equal in every field that decides share them; see `lanes.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from ..admission.policies.verdict import Decision, PolicyVerdict
from ..authorization import RecordedRbac
from ..derived.inputs import NAME
from ..history.fitness import is_fit
from ..request import Object
from .alike import alike_rows
from .collector import Collector
from .kept_inputs import InputKeeper
from .lanes import Key, Lane, Parted
from .past import rows_of
from .policies import Policies
from .worlds import Worlds

# Distinct requests whose verdicts are kept. Above it the cache is cleared, and verdicts are found again.
REMEMBERED_MAX = 50_000

# The columns of a request of a lane that are read in addition to its object.
_COLUMNS = [
    "class", "audit_id", "ts", "stage_ts", "code", "namespace", "name", "request_uri",
    "user_name", "user_uid", "user_groups", "user_extra", "impersonated_user",
]  # fmt: skip

# No policy reads these columns where they are left out, so they decide nothing.
_NOT_READ: Mapping[str, Any] = {"name": None, "request_uri": None, "user_uid": None, "user_groups": (), "user_extra": None}

Verdicts = Sequence[PolicyVerdict]


class _Plain(NamedTuple):
    """A request that needs only its own record, with the fields that policies read of its object."""

    row: int
    lane: Lane
    value: Object
    parted: Parted


class Remembered:
    """The verdicts of the distinct requests that one worker has met."""

    def __init__(
        self, lanes: Sequence[Lane | None], policies: Policies, worlds: Worlds, rbac: RecordedRbac, judges: bool = True
    ) -> None:
        """`lanes` are those of the classes of requests by number. Without `judges`, requests are only kept."""
        self._policies = policies
        self.lanes = lanes
        self._judges = judges
        self._worlds = worlds
        self._rbac = rbac
        self._verdicts: dict[Key, Verdicts | None] = {}  # None: the general path must find them

    def take(self, batch: pa.RecordBatch, builder: Collector, first: int, keeper: InputKeeper | None = None) -> list[int]:
        """Add the verdicts of all requests that need only their own record; returns the rows of the batch that are left.

        `batch` has the columns of `planned.sql`, and `first` is the number of its first row in the builder. The keeper collects
        what policies read of the requests.
        """
        if not any(self.lanes):
            return list(range(batch.num_rows))
        if len(self._verdicts) > REMEMBERED_MAX:
            self._verdicts.clear()
        left, plain = self._plain(batch)
        if keeper is not None:
            keeper.add(batch, [(each.row, each.parted) for each in plain], left)
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
                found.append(_Plain(row, lane, value, lane.parted(value)))
            except RecursionError:
                left.append(row)
        return left, found

    def _keys(self, batch: pa.RecordBatch, plain: Sequence[_Plain]) -> tuple[list[tuple[int, Key]], dict[Key, tuple[int, Object]]]:
        """The keys of these requests; and for each new key its first row with the fields read of it."""
        keys: list[tuple[int, Key]] = []
        new: dict[Key, tuple[int, Object]] = {}
        names = {name for lane in self.lanes if lane for name in lane.columns}
        own = {name: list(map(_hashable, batch.column(name).to_pylist())) for name in names}
        codes, namespaces = (batch.column(name).to_pylist() for name in ("code", "namespace"))
        epochs = self._worlds.epochs(batch.column("cluster"), batch.column("ts"))
        for row, lane, value, parted in plain:
            columns = tuple([own[name][row] for name in lane.columns])
            key = lane.key(parted, codes[row] == 201, namespaces[row], epochs[row], columns)
            keys.append((row, key))
            if key not in self._verdicts and key not in new:
                new[key] = (row, value)
        return keys, new

    def columns_of(self, number: int) -> Sequence[str]:
        """The columns of kept inputs that the policies for a class read; none for a class without a lane."""
        lane = self.lanes[number]
        if lane is None:
            return ()
        return (*lane.columns, NAME) if lane.reads_name else lane.columns

    def take_kept(self, number: int, inputs: pa.Table, builder: Collector) -> bool:
        """Add the verdicts of kept inputs of a lane, whose rows are numbered from 0; false if the general path must find some.

        `inputs` has columns of INPUTS: those that the lane reads among them.
        """
        lane = self.lanes[number]
        assert lane is not None
        columns: dict[str, Any] = {name: inputs.column(name).combine_chunks() for name in inputs.column_names}
        values, places = self._read_parts(lane, columns["object"].dictionary.to_pylist())
        objects: pa.Array[Any] = pa.array(places, pa.int32()).take(columns["object"].indices)
        epochs = self._worlds.epochs_in(lane.name.cluster, columns["ts"])
        read = [columns[name] for name in ("is_created", "namespace", *self.columns_of(number))]
        alike = alike_rows([objects, *read, epochs])
        found: list[Verdicts] = []
        chosen = inputs.drop_columns(["object"]).take(alike.first)
        at_first: list[Any] = objects.take(alike.first).to_pylist()
        for at, record in zip(at_first, rows_of(chosen), strict=True):
            its_row = {**_NOT_READ, **record, "class": number, "code": 201 if record["is_created"] else 200}
            verdicts = self._find(Parted(values[at], record.get(NAME)).joined(), its_row)
            if verdicts is None:
                return False
            found.append(verdicts)
        builder.add_alike(alike.numbers, found)
        return True

    def _read_parts(self, lane: Lane, texts: Iterable[str]) -> tuple[list[bytes], list[int]]:
        """The distinct values, as JSON, of the fields that a lane reads, and the place of each text among them.

        Other policies may have kept the texts, which then hold more fields.
        """
        found: dict[bytes, int] = {}
        places = [found.setdefault(lane.cut(text), len(found)) for text in texts]
        return list(found), places

    def _find(self, value: Object, row: Mapping[str, Any]) -> Verdicts | None:
        """The verdicts of a request in its lane; None if the general path may know more."""
        lane = self.lanes[row["class"]]
        assert lane is not None
        request = lane.request(value, row)
        world = self._worlds.at(request.cluster, request.ts)
        authorize = partial(self._rbac.authorize, request.cluster, request.ts)
        try:
            verdicts = self._policies.evaluate_alike(request, world, authorize)
        except RecursionError:
            return None
        if verdicts is None:
            return None
        decisions = {verdict.decision for verdict in verdicts}
        if (Decision.ERROR in decisions or any(verdict.is_defect for verdict in verdicts)) and not is_fit(value):
            return None
        return None if Decision.UNKNOWN in decisions and lane.may_know_more(request) else verdicts


def _hashable(value: Any) -> Any:
    return tuple(value) if value.__class__ is list else value
