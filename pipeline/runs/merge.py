"""The parts of a run, merged in the order in which the requests arrived, so that the division into parts does not matter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .revision import Revision
from .verdict import VERDICT_VALUES
from .verdicts import JUDGED, SETS, Judged, Pass, expanded, in_arrival_order

# Passes that are sorted at a time. More passes are cut into stretches of time with about this many each.
_ORDERED_MAX = 500_000
# Passes per row group of the table of verdicts: few enough that its dictionary of audit IDs stays one.
_WRITTEN_MAX = 16_000


class Merged:
    """The judgements of all parts, and the sets and verdicts that they refer to."""

    def __init__(self, parts: Sequence[Judged]) -> None:
        self.verdicts = pa.concat_tables([VERDICT_VALUES.empty_table(), *(part.verdicts for part in parts)])
        judged, sets = [], [pa.array([], SETS.field(0).type)]
        first_verdict = first_set = 0
        for part in parts:
            numbers = pc.add(part.judged["set"], pa.scalar(first_set, pa.int32()))
            judged.append(part.judged.set_column(JUDGED.get_field_index("set"), JUDGED.field("set"), numbers))
            members: Any = part.sets["members"].combine_chunks()
            values = pc.add(members.flatten(), pa.scalar(first_verdict, pa.int32()))
            sets.append(pa.ListArray.from_arrays(members.offsets, values, type=SETS.field(0).type))
            first_verdict += part.verdicts.num_rows
            first_set += part.sets.num_rows
        self._judged = judged
        self.sets: pa.Array[Any] = pa.concat_arrays(sets)

    def revise(self, found: Mapping[Pass, Revision]) -> None:
        """Give some passes other verdicts, or make those that they have unknown."""
        if not found:
            return
        asked = pa.array({place[1] for place in found}, pa.string())
        members: list[Any] = self.sets.to_pylist()
        revised = _Revised(self.verdicts.to_pylist(), members)

        for at, part in enumerate(self._judged):
            numbers: list[Any] = part["set"].to_pylist()
            hit: list[Any] = pc.indices_nonzero(pc.is_in(part["audit_id"], value_set=asked)).to_pylist()
            for index, row in zip(hit, part.take(pa.array(hit, pa.int64())).to_pylist(), strict=True):
                revision = found.get((row["cluster"], row["audit_id"], row["ts"], row["pass"]))
                if revision is not None:
                    numbers[index] = revised.set_of(numbers[index], revision)
            place = JUDGED.get_field_index("set")
            self._judged[at] = part.set_column(place, JUDGED.field("set"), pa.array(numbers, pa.int32()))
        self.verdicts = pa.Table.from_pylist(revised.rows, schema=VERDICT_VALUES)
        self.sets = pa.array(revised.sets, SETS.field(0).type)

    def passes_with(self, wanted: Callable[[Mapping[str, Any]], bool]) -> list[Pass]:
        """The passes with a verdict that is wanted: a row of VERDICT_VALUES."""
        numbers = {at for at, row in enumerate(self.verdicts.to_pylist()) if wanted(row)}
        members: list[Any] = self.sets.to_pylist() if numbers else []
        sets = [at for at, each in enumerate(members) if not numbers.isdisjoint(each)]
        chosen = pa.array(sets, pa.int32())
        found = [part.filter(pc.is_in(part["set"], value_set=chosen)) for part in self._judged if sets]
        rows = [row for part in found for row in part.select(["cluster", "audit_id", "ts", "pass"]).to_pylist()]
        return [(row["cluster"], row["audit_id"], row["ts"], row["pass"]) for row in rows]

    def passes(self) -> pa.Table:
        """How many passes got each set: columns set, passes."""
        found = [JUDGED.empty_table(), *self._judged]
        return pa.concat_tables(found).group_by("set").aggregate([([], "count_all")]).rename_columns(["set", "passes"])

    def members(self) -> pa.Table:
        """Which verdicts each set holds: columns set, verdict."""
        return pa.table({"set": pc.list_parent_indices(self.sets).cast(pa.int32()), "verdict": pc.list_flatten(self.sets)})

    def numbered_verdicts(self) -> pa.Table:
        """The columns of VERDICT_VALUES that the counts need, with the number of each verdict."""
        numbers = pa.array(range(self.verdicts.num_rows), pa.int32())
        return self.verdicts.select(["policy", "binding", "decision", "effect", "why"]).append_column("verdict", numbers)

    def tables(self, run_id: str) -> Iterator[pa.Table]:
        """All verdicts in the order of arrival, as tables with the columns ENCODED."""
        for judged in self._stretches():
            for first in range(0, judged.num_rows, _WRITTEN_MAX):
                yield expanded(run_id, judged.slice(first, _WRITTEN_MAX), self.sets, self.verdicts)

    def _stretches(self) -> Iterator[pa.Table]:
        """The judgements in the order of arrival, a stretch of time each."""
        moments = [part["ts"].cast(pa.int64()).combine_chunks() for part in self._judged]
        every = pc.array_sort_indices(whole := pa.chunked_array(moments, pa.int64()))
        ends = sorted({whole[every[index].as_py()].as_py() for index in range(_ORDERED_MAX, len(every), _ORDERED_MAX)})
        places = [0] * len(moments)
        for end in [*ends, None]:
            until = [len(each) if end is None else bisect_left(each, end, key=_number) for each in moments]
            stretch = [part.slice(first, last - first) for part, first, last in zip(self._judged, places, until, strict=True)]
            places = until
            yield in_arrival_order(pa.concat_tables([JUDGED.empty_table(), *stretch]).combine_chunks())


class _Revised:
    """The rows and sets of a run, with those that revisions add."""

    def __init__(self, rows: list[dict[str, Any]], sets: list[list[int]]) -> None:
        self.rows, self.sets = rows, sets
        self._sets: dict[tuple[int, Revision], int] = {}

    def set_of(self, number: int, revision: Revision) -> int:
        """The number of the set that takes the place of another one."""
        key = (number, revision)
        if key not in self._sets:
            first = len(self.rows)
            self.rows += revision.rows([self.rows[each] for each in self.sets[number]])
            self._sets[key] = len(self.sets)
            self.sets.append(list(range(first, len(self.rows))))
        return self._sets[key]


def _number(value: Any) -> int:
    number: int = value.as_py()
    return number
