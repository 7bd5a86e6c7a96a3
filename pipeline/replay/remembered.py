"""A cache of verdicts: requests that are equal in every field that decides share them; see `lanes.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ..admission.policies.verdict import Decision, PolicyVerdict
from ..authorization import RecordedRbac
from ..cel.projection import decode
from ..history.fitness import is_fit
from ..request import Object
from .collector import Collector
from .kept_inputs import InputKeeper
from .lanes import Key, LaneName, lane_of
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

Verdicts = Sequence[PolicyVerdict]


class Remembered:
    """The verdicts of the distinct requests that one worker has met."""

    def __init__(self, names: Iterable[LaneName], policies: Policies, worlds: Worlds, rbac: RecordedRbac) -> None:
        """`names` are the classes of requests by number."""
        self._policies = policies
        self.lanes = [lane_of(name, policies.considered) for name in names]
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
        left, keys, new = self._keys(batch)
        if keeper is not None:
            keeper.add(batch, [(index, key[-1]) for index, key in keys], left)
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

    def _keys(self, batch: pa.RecordBatch) -> tuple[list[int], list[tuple[int, Key]], dict[Key, tuple[int, Object]]]:
        """The rows without a key, the keys of the others, and for each new key its first row with the fields read of it."""
        left: list[int] = []
        keys: list[tuple[int, Key]] = []
        new: dict[Key, tuple[int, Object]] = {}
        names = {name for lane in self.lanes if lane for name in lane.columns}
        own = {name: list(map(_hashable, batch.column(name).to_pylist())) for name in names}
        read = [batch.column(name).to_pylist() for name in ("class", "is_plain", "code", "namespace", "response_object")]
        epochs = self._worlds.epochs(batch.column("cluster"), batch.column("ts"))
        for index, (number, is_plain, code, namespace, response, epoch) in enumerate(zip(*read, epochs, strict=True)):
            lane = self.lanes[number] if is_plain else None
            value = lane.value(response) if lane is not None else None
            if lane is None or value is None:
                left.append(index)
                continue
            try:
                key = lane.key(value, code == 201, namespace, epoch, tuple([own[name][index] for name in lane.columns]))
            except RecursionError:
                left.append(index)
                continue
            keys.append((index, key))
            if key not in self._verdicts and key not in new:
                new[key] = (index, value)
        return left, keys, new

    def take_kept(self, number: int, inputs: pa.Table) -> list[Verdicts] | None:
        """The verdicts of kept inputs of a lane, row by row; None if the general path must find some of them.

        `inputs` has the columns INPUTS, in one chunk each.
        """
        lane = self.lanes[number]
        assert lane is not None
        if not inputs.num_rows:
            return []
        columns: dict[str, Any] = {name: inputs.column(name).combine_chunks() for name in inputs.column_names}
        texts: list[Any] = columns["object"].dictionary.to_pylist()
        objects: list[int] = columns["object"].indices.to_pylist()
        read = [columns[name].to_pylist() for name in ("is_created", "namespace")]
        read += [list(map(_hashable, columns[name].to_pylist())) for name in lane.columns]
        epochs = self._worlds.epochs(columns["cluster"], columns["ts"])
        known: dict[tuple[object, ...], int] = {}
        keys = [known.setdefault(key, len(known)) for key in zip(objects, *read, epochs, strict=True)]
        first: dict[int, int] = {}
        for row, key in enumerate(keys):
            first.setdefault(key, row)
        chosen = inputs.drop_columns(["object"]).take(pa.array(first.values(), pa.int64()))
        found: list[Verdicts] = []
        for at, record in zip(first.values(), rows_of(chosen), strict=True):
            its_row = {**record, "class": number, "code": 201 if record["is_created"] else 200}
            verdicts = self._find(decode(texts[objects[at]]), its_row)
            if verdicts is None:
                return None
            found.append(verdicts)
        return [found[key] for key in keys]

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
