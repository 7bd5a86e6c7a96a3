"""Mutating policies in every order that can matter.

The API server runs policies in the order of a Go map, and bindings and params in that of its caches. No order is defined, and two
API servers may differ (kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_source.go). So a request is run in several
orders, and what differs between them is not known. Policies that touch nothing that others touch need no other order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import permutations, zip_longest

from ...authorization import AuthorizeUser
from ...request import AdmissionRequest, Known, Unknown
from ...world import World
from .chain import Between, Chain, Run
from .footprints import Footprint, components, read_paths
from .invocation import Key, Outcome, Ran

# Up to this many policies, bindings and params run in every order; of more, each also runs first and last.
_ALL_ORDERS_MAX = 4
# That is bounded: in the orders of one group, policies are called about this often in each round.
_CALLS_MAX = 600


@dataclass(frozen=True)
class Outcomes:
    """The distinct outcomes of one request, that of the order of names first.

    `untried`: policies, bindings and params for which an order may matter that was not tried.
    """

    distinct: tuple[Outcome, ...]
    untried: frozenset[Key] = frozenset()

    @property
    def first(self) -> Outcome:
        """The outcome in the order of names."""
        return self.distinct[0]


def outcomes_of(
    chain: Chain,
    request: AdmissionRequest,
    world: World,
    authorize: AuthorizeUser | None,
    between: Between | None = None,
    *,
    settles: bool = True,
) -> Outcomes:
    """The outcomes of a request in the orders that can matter. `settles`: each policy is also tried on its own result."""

    def run(order: Sequence[Key], settles: bool = settles, only: Collection[Key] | None = None) -> Outcome:
        return Run(chain, request, world, authorize, order, between, settles=settles, only=only).outcome()

    first = run(())
    # A condition may be true in another order. What does not match at all never runs.
    keys = tuple(dict.fromkeys(each.key for each in first.invocations if each.ran is not Ran.NOMATCH or each.is_due))
    orders, untried = _orders(keys)
    if len(keys) > _ALL_ORDERS_MAX and between is None:
        interplay = _Interplay(chain, request, first, keys, partial(run, settles=False))
        found = interplay.orders()
        orders, untried = (orders, untried) if found is None else (found, interplay.untried)
    distinct = [first]
    for order in orders:
        # Most orders give the same outcome, and nothing more is asked about those.
        outcome = run(order, settles=False)
        if not any(_same(outcome, each) for each in distinct):
            distinct.append(run(order))
    return Outcomes(tuple(distinct), frozenset(untried))


class _Interplay:
    """The search for orders that differ, among policies that touch what others touch. Each group of these runs by itself."""

    def __init__(
        self, chain: Chain, request: AdmissionRequest, first: Outcome, keys: Sequence[Key], run: Callable[..., Outcome]
    ) -> None:
        self._run = run
        self._first = first
        self._entered = request.object.value if isinstance(request.object, Known) else None
        policies = {policy.policy.name: policy for policy in chain.policies}
        entered = self._entered or {}
        reads = {name: read_paths(policies[name], entered) for name in {key[0] for key in keys}}
        self._prints = {key: Footprint(set(reads[key[0]])) for key in keys}
        self.untried: set[Key] = set()

    def orders(self) -> list[Sequence[Key]] | None:
        """The orders that gave a group another outcome; None where every order must be run whole."""
        if self._entered is None or not self._learn(self._first):
            return None
        differing: dict[tuple[Key, ...], list[Sequence[Key]]] = {}
        # A policy that does something else in another order may touch what more policies touch.
        while groups := [each for each in components(self._prints) if each not in differing]:
            for group in groups:
                found = differing[group] = []
                usual = self._run(group, only=group)
                orders, untried = _orders(group)
                self.untried |= untried
                for order in orders:
                    outcome = self._run(order, only=group)
                    if not self._learn(outcome):
                        return None
                    if not _same(outcome, usual):
                        found.append(order)
        whole = self._whole(differing)
        return [[*self._prints][::-1], *whole] if whole else []

    def _learn(self, outcome: Outcome) -> bool:
        """Whether all footprints of an outcome are known."""
        if outcome.refusal is not None or isinstance(outcome.object, Unknown):
            return False
        for each in outcome.invocations:
            if each.key in self._prints:
                if each.ran in (Ran.ERROR, Ran.UNKNOWN) or each.is_converted:
                    return False
                self._prints[each.key].add(each, self._entered or {})
        return True

    def _whole(self, differing: Mapping[tuple[Key, ...], Sequence[Sequence[Key]]]) -> list[Sequence[Key]]:
        """Orders of all policies that have each order of each group. Groups do not touch each other, so one serves them all."""
        groups = components(self._prints)
        number = {key: at for at, group in enumerate(groups) for key in group}
        of_group: list[list[Sequence[Key]]] = [[] for _ in groups]
        for part, orders in differing.items():  # an earlier group may be a part of one
            of_group[number[part[0]]] += orders
        several = zip_longest(*of_group, fillvalue=())
        return [reduce(_placed, orders, [*self._prints]) for orders in several]


def _placed(keys: Sequence[Key], order: Sequence[Key]) -> list[Key]:
    """The keys in an order where some changed places."""
    moved, rest = set(order), iter(order)
    return [next(rest) if key in moved else key for key in keys]


def _orders(keys: Sequence[Key]) -> tuple[list[Sequence[Key]], set[Key]]:
    """The orders of some keys other than the given one; and the keys, if these are not all.

    Where the bound cuts them, keys that are evenly spread over the given order go first and last. The reverse order is always
    one of them: so each two keys are tried in both orders.
    """
    if len(keys) <= _ALL_ORDERS_MAX:
        return [each for each in permutations(keys) if each != tuple(keys)], set()
    moved = min(len(keys), max(0, _CALLS_MAX // len(keys) - 2) // 2)
    found: list[Sequence[Key]] = [keys[::-1]]
    for number in (at * len(keys) // moved for at in range(moved)):
        others = [*keys[:number], *keys[number + 1 :]]
        found += [[keys[number], *others], [*others, keys[number]]]
    return found, set(keys)


def _same(left: Outcome, right: Outcome) -> bool:
    """Whether two outcomes give one answer and one object, and every policy does the same in both."""
    if left.refusal != right.refusal or left.object != right.object:
        return False
    return {(each.key, each.round): each.ran for each in left.invocations} == {
        (each.key, each.round): each.ran for each in right.invocations
    }
