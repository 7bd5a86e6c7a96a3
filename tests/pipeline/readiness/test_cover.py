"""Covers: as cheap as trying everything finds where that is feasible, complete and without waste everywhere."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readiness.exempting.cover import cheapest_cover

SETS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2**7 - 1)), max_size=9)


def holders(masks: list[int], wanted: int) -> list[frozenset[int]]:
    """For each wanted thing the sets that hold it."""
    things = [thing for thing in range(wanted.bit_length()) if wanted >> thing & 1]
    return [frozenset(index for index, mask in enumerate(masks) if mask >> thing & 1) for thing in things]


def held(masks: list[int], chosen: tuple[int, ...]) -> int:
    found = 0
    for index in chosen:
        found |= masks[index]
    return found


@given(SETS)
def test_nothing_is_cheaper(sets: list[tuple[int, int]]) -> None:
    costs, masks = [cost for cost, _ in sets], [mask for _, mask in sets]
    wanted = held(masks, tuple(range(len(masks))))
    chosen = cheapest_cover(costs, holders(masks, wanted))
    every = [few for size in range(len(sets) + 1) for few in combinations(range(len(sets)), size)]
    cheapest = min(sum(costs[index] for index in few) for few in every if held(masks, few) & wanted == wanted)
    assert held(masks, chosen) & wanted == wanted
    assert sum(costs[index] for index in chosen) == cheapest


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 2**90 - 1)), min_size=1, max_size=70))
def test_large_ones_are_complete_and_without_waste(sets: list[tuple[int, int]]) -> None:
    costs, masks = [cost for cost, _ in sets], [mask for _, mask in sets]
    wanted = held(masks, tuple(range(len(masks))))
    chosen = cheapest_cover(costs, holders(masks, wanted))
    assert held(masks, chosen) == wanted
    assert all(held(masks, tuple(set(chosen) - {index})) != wanted for index in chosen)


def test_a_long_list_needs_no_deep_search() -> None:
    masks = [1 << index for index in range(2_000)] + [3 << index for index in range(0, 2_000, 2)]
    assert cheapest_cover([2] * 2_000 + [3] * 1_000, holders(masks, 2**2_000 - 1)) == tuple(range(2_000, 3_000))


def test_what_nothing_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="no choice of the sets"):
        cheapest_cover([1], [frozenset([0]), frozenset()])
