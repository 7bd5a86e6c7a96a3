"""The cheapest choice of sets that together hold all wanted things: exact for small problems, and without needless sets.

Sets are bit masks over the wanted things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# The exact search stops after this many steps. It does not start if the greedy choice has more sets than this.
_STEPS_MAX = 20_000
_EXACT_SETS_MAX = 40


def cheapest_cover(costs: Sequence[int], masks: Sequence[int], wanted: int) -> tuple[int, ...]:
    """The indices, in order, of sets that together hold all of `wanted` at the least sum of costs. Every set is needed.

    Costs are positive. Raises ValueError when all sets together do not hold `wanted`.
    """
    held = _holders(_undominated(costs, masks, wanted), masks, wanted)
    if frozenset() in held:
        raise ValueError("no choice of the sets holds all that is wanted")
    holders = dict.fromkeys(held)
    # A thing that only one set holds forces that set into the choice. Things with the same holders count as one thing.
    chosen = {next(iter(who)) for who in holders if len(who) == 1}
    open_things = [who for who in holders if not who & chosen]
    greedy = _greedy(costs, open_things)
    search = _Search(costs, open_things, _without_waste(costs, greedy, open_things))
    if len(greedy) <= _EXACT_SETS_MAX:
        search.walk((), 0, open_things)
    return tuple(sorted(_without_waste(costs, [*chosen, *search.best], holders)))


def _holders(useful: Iterable[int], masks: Sequence[int], wanted: int) -> list[frozenset[int]]:
    """For each wanted thing the sets that hold it."""
    found: dict[int, list[int]] = {thing: [] for thing in _things(wanted)}
    for index in useful:
        for thing in _things(masks[index] & wanted):
            found[thing].append(index)
    return [frozenset(who) for who in found.values()]


def _things(mask: int) -> Iterator[int]:
    while mask:
        thing = mask.bit_length() - 1
        yield thing
        mask ^= 1 << thing


def _undominated(costs: Sequence[int], masks: Sequence[int], wanted: int) -> list[int]:
    """The sets without those that hold no more than another set that costs no more."""

    def rank(index: int) -> tuple[int, int, int]:
        return costs[index], -(masks[index] & wanted).bit_count(), index

    kept: list[int] = []
    holding: dict[int, list[int]] = {}  # kept sets by each thing they hold: only these can hold as much
    for index in sorted((index for index, mask in enumerate(masks) if mask & wanted), key=rank):
        mask = masks[index] & wanted
        if not any(mask & ~masks[other] == 0 for other in holding.get(mask.bit_length() - 1, ())):
            kept.append(index)
            for thing in _things(mask):
                holding.setdefault(thing, []).append(index)
    return kept


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
    """Branch and bound over `things`, each given by the sets that hold it; the thing with the fewest holders is decided first."""

    def __init__(self, costs: Sequence[int], things: Sequence[frozenset[int]], start: Sequence[int]) -> None:
        self.best = list(start)
        self._costs = costs
        self._least = sum(costs[index] for index in start)
        self._steps = 0

    def walk(self, chosen: tuple[int, ...], cost: int, missing: Sequence[frozenset[int]]) -> None:
        """Try every set that holds one of the missing things."""
        if not missing:
            if cost < self._least:
                self.best, self._least = list(chosen), cost
            return
        self._steps += 1
        thing = min(missing, key=lambda who: (len(who), sorted(who)))
        for index in sorted(thing, key=lambda index: (self._costs[index], index)):
            if self._steps < _STEPS_MAX and cost + self._costs[index] < self._least:
                self.walk((*chosen, index), cost + self._costs[index], [who for who in missing if index not in who])
