"""Mutating policies in every order that can matter.

The API server runs policies in the order of a Go map, and bindings and params in that of its caches. No order is defined, and two
API servers may differ (kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_source.go). So a request is run in several
orders, and what differs between them is not known. Policies that touch nothing that others touch need no other order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

from ...admission.policies.inputs import AuthorizeUser
from ...request import AdmissionRequest, Known, Unknown
from ...world import World
from .chain import Between, Chain, Run
from .footprints import Footprint, components, read_paths
from .invocation import Key, Outcome, Ran

# Up to this many policies, bindings and params run in every order; of more, each also runs first and last.
_ALL_ORDERS_MAX = 4


@dataclass(frozen=True)
class Outcomes:
    """The distinct outcomes of one request, that of the order of names first. `is_complete`: every order was tried."""

    distinct: tuple[Outcome, ...]
    is_complete: bool

    @property
    def first(self) -> Outcome:
        """The outcome in the order of names."""
        return self.distinct[0]


def outcomes_of(
    chain: Chain, request: AdmissionRequest, world: World, authorize: AuthorizeUser | None, between: Between | None = None
) -> Outcomes:
    """The outcomes of a request in the orders that can matter."""

    def run(order: Sequence[Key], settles: bool = True, only: Collection[Key] | None = None) -> Outcome:
        return Run(chain, request, world, authorize, order, between, settles=settles, only=only).outcome()

    first = run(())
    # A condition may be true in another order. What does not match at all never runs.
    keys = tuple(dict.fromkeys(each.key for each in first.invocations if each.ran is not Ran.NOMATCH or each.is_due))
    orders, is_complete = _orders(keys)
    if len(keys) > _ALL_ORDERS_MAX and between is None:
        found = _Interplay(chain, request, first, keys, partial(run, settles=False)).orders()
        orders = orders if found is None else found
    distinct = [first]
    for order in orders:
        # Most orders give the same outcome, of which nothing more is asked.
        outcome = run(order, settles=False)
        if not any(_same(outcome, each) for each in distinct):
            distinct.append(run(order))
    return Outcomes(tuple(distinct), is_complete)


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

    def orders(self) -> list[Sequence[Key]] | None:
        """The orders that gave a group another outcome; None where every order must be run whole."""
        if self._entered is None or not self._learn(self._first):
            return None
        found: list[Sequence[Key]] = []
        tried: dict[tuple[Key, ...], None] = {}
        # A policy that does something else in another order may touch what more policies touch.
        while groups := [each for each in components(self._prints) if each not in tried]:
            for group in groups:
                tried[group] = None
                usual = self._run(group, only=group)
                for order in _orders(group)[0]:
                    outcome = self._run(order, only=group)
                    if not self._learn(outcome):
                        return None
                    if not _same(outcome, usual):
                        found.append(self._whole(order))
        return [[*self._prints][::-1], *found] if found else []

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

    def _whole(self, order: Sequence[Key]) -> list[Key]:
        """The order of names, in which the policies of a group changed places."""
        group, rest = set(order), iter(order)
        return [next(rest) if key in group else key for key in self._prints]


def _orders(keys: Sequence[Key]) -> tuple[list[Sequence[Key]], bool]:
    """The orders of some keys other than the given one, and whether these are all."""
    if len(keys) <= _ALL_ORDERS_MAX:
        return [each for each in permutations(keys) if each != tuple(keys)], True
    found: list[Sequence[Key]] = [keys[::-1]]
    for number, key in enumerate(keys):
        others = [*keys[:number], *keys[number + 1 :]]
        found += [[key, *others], [*others, key]]
    return found, False


def _same(left: Outcome, right: Outcome) -> bool:
    """Whether two outcomes give one answer and one object, and every policy does the same in both."""
    if left.refusal != right.refusal or left.object != right.object:
        return False
    return {(each.key, each.round): each.ran for each in left.invocations} == {
        (each.key, each.round): each.ran for each in right.invocations
    }
