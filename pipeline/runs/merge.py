"""The parts of a run, merged in the order in which the requests arrived, so that the division into parts does not matter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .verdict import INSUFFICIENT, VERDICT_VALUES, Flip
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

    def revise(self, whys: Mapping[Pass, str]) -> None:
        """Make the verdicts on some passes unknown, each for a reason."""
        if not whys:
            return
        asked = pa.array({place[1] for place in whys}, pa.string())
        rows: list[Any] = self.verdicts.to_pylist()
        sets: list[Any] = self.sets.to_pylist()
        number_of: dict[tuple[int, str], int] = {}
        verdict_of: dict[tuple[int, str], int] = {}

        def verdict(number: int, why: str) -> int:
            found = verdict_of.get((number, why))
            if found is None:
                found = verdict_of[number, why] = len(rows)
                rows.append(_unknown(rows[number], why))
            return found

        for at, part in enumerate(self._judged):
            numbers: list[Any] = part["set"].to_pylist()
            hit: list[Any] = pc.indices_nonzero(pc.is_in(part["audit_id"], value_set=asked)).to_pylist()
            for index, row in zip(hit, part.take(pa.array(hit, pa.int64())).to_pylist(), strict=True):
                why = whys.get((row["cluster"], row["audit_id"], row["ts"], row["pass"]))
                if why is not None:
                    key = (numbers[index], why)
                    if key not in number_of:
                        number_of[key] = len(sets)
                        sets.append([verdict(each, why) for each in sets[key[0]]])
                    numbers[index] = number_of[key]
            place = JUDGED.get_field_index("set")
            self._judged[at] = part.set_column(place, JUDGED.field("set"), pa.array(numbers, pa.int32()))
        self.verdicts = pa.Table.from_pylist(rows, schema=VERDICT_VALUES)
        self.sets = pa.array(sets, SETS.field(0).type)

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


def _unknown(row: dict[str, Any], why: str) -> dict[str, Any]:
    """A verdict that is not known after all, as a row of VERDICT_VALUES."""
    said = {"decision": "unknown", "effect": None, "message": None, "reason": None, "code": None, "why": why}
    flip = str(Flip.UNKNOWN) if row["flip"] is not None else None
    return row | said | {"evidence": INSUFFICIENT, "audit_annotations": [], "bypasses_actions": False, "flip": flip}


def _number(value: Any) -> int:
    number: int = value.as_py()
    return number
