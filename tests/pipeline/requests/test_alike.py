"""Rows that are equal in every column are found alike, for any columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.requests.alike import Alike, alike_rows, alike_together

ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.booleans(),
        st.sampled_from([None, 0, -1, 2**31 - 1]),
        st.sampled_from([None, [], ["a"]]),
    )
)


@given(ROWS)
def test_groups_are_those_of_equal_tuples(rows: list[tuple[Any, ...]]) -> None:
    types = [pa.string(), pa.bool_(), pa.int32(), pa.list_(pa.string())]
    columns = [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]
    found = alike_rows([columns[0].dictionary_encode(), *columns[1:]])
    plain = [(*row[:3], None if row[3] is None else tuple(row[3])) for row in rows]
    distinct = list(dict.fromkeys(plain))
    assert found.numbers.to_pylist() == [distinct.index(row) for row in plain]
    assert found.first.to_pylist() == [plain.index(row) for row in distinct]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_every_row_keeps_its_values_of_all_parts(rows: list[tuple[int, int]]) -> None:
    judged = ["admit", "deny", "unknown"], ["admit", "admit", "error", "no match"]
    verdicts: list[list[tuple[str, ...]]] = [[(value,) for value in values] for values in judged]
    parts = [Alike(pa.array([row[part] for row in rows], pa.int32()), verdicts[part]) for part in (0, 1)]
    found = alike_together(parts)
    assert [found.values[number] for number in found.numbers.to_pylist()] == [
        [verdicts[part][row[part]] for part in (0, 1)] for row in rows
    ]
    assert len(found.values) == len({(judged[0][first], judged[1][second]) for first, second in rows})
