"""The cheapest choice of sets that together hold all things: exact for small problems, and without needless sets.

A thing is given by the sets that hold it, so things with the same holders are one thing. Sets of things are bit masks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# The exact search stops after this many steps. It does not start if the greedy choice has more sets than this.
_STEPS_MAX = 20_000
_EXACT_SETS_MAX = 40


def cheapest_cover(costs: Sequence[int], things: Collection[frozenset[int]]) -> tuple[int, ...]:
    """The indices, in order, of sets that together hold all things at the least sum of costs. Every set is needed.

    A thing is the indices of the sets that hold it. Costs are positive. Raises ValueError when no set holds a thing.
    """
    if frozenset() in things:
        raise ValueError("no choice of the sets holds all that is wanted")
    useful = _undominated(costs, _masks(things))
    holders = dict.fromkeys(who & useful for who in things)
    # A thing that only one set holds forces that set into the choice.
    chosen = {next(iter(who)) for who in holders if len(who) == 1}
    # The thing with the fewest holders is decided first, so it is the lowest bit.
    open_things = sorted((who for who in holders if not who & chosen), key=lambda who: (len(who), sorted(who)))
    greedy = _greedy(costs, open_things)
    search = _Search(costs, open_things, _without_waste(costs, greedy, open_things))
    if len(greedy) <= _EXACT_SETS_MAX:
        search.walk((), 0, (1 << len(open_things)) - 1)
    return tuple(sorted(_without_waste(costs, [*chosen, *search.best], holders)))


def _masks(things: Iterable[Iterable[int]]) -> Mapping[int, int]:
    """For each set the things that it holds."""
    masks: defaultdict[int, int] = defaultdict(int)
    for number, who in enumerate(things):
        for index in who:
            masks[index] |= 1 << number
    return masks


def _things(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _undominated(costs: Sequence[int], masks: Mapping[int, int]) -> frozenset[int]:
    """The sets without those that hold no more than another set that costs no more."""
    kept: list[int] = []
    holding: dict[int, list[int]] = {}  # kept sets by each thing they hold: only these can hold as much
    for index in sorted(masks, key=lambda index: (costs[index], -masks[index].bit_count(), index)):
        mask = masks[index]
        if not any(mask & ~masks[other] == 0 for other in holding.get(mask.bit_length() - 1, ())):
            kept.append(index)
            for thing in _things(mask):
                holding.setdefault(thing, []).append(index)
    return frozenset(kept)


def _greedy(costs: Sequence[int], things: Sequence[frozenset[int]]) -> list[int]:
    """A cover made by repeatedly taking the set that costs least per thing it adds."""
    held: dict[int, set[int]] = {}
    for number, who in enumerate(things):
        for index in who:
            held.setdefault(index, set()).add(number)
    chosen: list[int] = []
    missing = set(range(len(things)))
    while missing:
        best = min((index for index in held if held[index]), key=lambda index: (costs[index] / len(held[index]), index))
        chosen.append(best)
        for number in list(held[best]):
            missing.remove(number)
            for index in things[number]:
                held[index].discard(number)
    return chosen


def _without_waste(costs: Sequence[int], chosen: Iterable[int], things: Iterable[frozenset[int]]) -> list[int]:
    """The chosen sets without those that the others make needless; the dearest are dropped first."""
    kept = set(chosen)
    held: dict[int, list[set[int]]] = {index: [] for index in kept}
    for who in things:
        holders = set(who & kept)
        for index in holders:
            held[index].append(holders)
    for index in sorted(kept, key=lambda index: (-costs[index], -index)):
        if all(len(holders) > 1 for holders in held[index]):
            kept.remove(index)
            for holders in held[index]:
                holders.remove(index)
    return sorted(kept)


class _Search:
    """Branch and bound over things in the order in which they are decided; `missing` is a mask of them."""

    def __init__(self, costs: Sequence[int], things: Sequence[frozenset[int]], start: Sequence[int]) -> None:
        self.best = list(start)
        self._costs = costs
        self._least = sum(costs[index] for index in start)
        self._steps = 0
        self._holders = [sorted(who, key=lambda index: (costs[index], index)) for who in things]
        self._others = {index: ~mask for index, mask in _masks(things).items()}

    def walk(self, chosen: tuple[int, ...], cost: int, missing: int) -> None:
        """Try every set that holds the first of the missing things."""
        if not missing:
            if cost < self._least:
                self.best, self._least = list(chosen), cost
            return
        self._steps += 1
        for index in self._holders[(missing & -missing).bit_length() - 1]:
            if self._steps < _STEPS_MAX and cost + self._costs[index] < self._least:
                self.walk((*chosen, index), cost + self._costs[index], missing & self._others[index])
