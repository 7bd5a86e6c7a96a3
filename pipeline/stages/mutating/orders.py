"""Mutating policies in every order that can matter.

The API server runs policies in the order of a Go map, and bindings and params in that of its caches. No order is defined, and two
API servers may differ (kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_source.go). So a request is run in several
orders, and what differs between them is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from ...admission.policies.inputs import AuthorizeUser
from ...request import AdmissionRequest
from ...world import World
from .chain import Between, Chain, Run
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

    def run(order: Sequence[Key], settles: bool = True) -> Outcome:
        return Run(chain, request, world, authorize, order, between, settles=settles).outcome()

    first = run(())
    # A condition may be true in another order. What does not match at all never runs.
    keys = tuple(dict.fromkeys(each.key for each in first.invocations if each.ran is not Ran.NOMATCH or each.is_due))
    orders, is_complete = _orders(keys)
    distinct = [first]
    for order in orders:
        # Most orders give the same outcome, of which nothing more is asked.
        found = run(order, settles=False)
        if not any(_same(found, each) for each in distinct):
            distinct.append(run(order))
    return Outcomes(tuple(distinct), is_complete)


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
