"""The costs of policies over recorded requests: figures per expression, the requests nearest to a limit, and growth.

A cost is counted once for each request, policy and param. Requests that are equal in every field that a policy reads are evaluated
once, and each is counted.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from ...policies.evaluate import Case
from ...request import AdmissionRequest, Evidence, Known
from .cost import CaseCost, cost_of

# How many nearest requests are kept per policy; these are evaluated again with grown objects.
NEAREST: Final = 5
GROWTH: Final = 10
_NUMBERED: Final = re.compile(r"(\D+)(\d*)")


@dataclass(frozen=True, slots=True)
class CostFigure:
    """The cost of one program, or of all that share a budget, over its evaluations. A cost above `limit` is a lower bound."""

    policy: str
    what: str
    limit: int
    evaluations: int
    median: int
    p99: int
    most: int
    over: int  # evaluations above the limit
    grown: int | None  # the most over the nearest requests with grown objects; None if they did not run it


@dataclass(frozen=True, slots=True)
class NearRequest:
    """A request near a limit, and what it would cost if its object grew. `alike` counts requests of the same costs."""

    policy: str
    cluster: str
    audit_id: str
    resource: str
    namespace: str
    name: str
    what: str  # the program or group that takes the largest share of its limit
    cost: int
    limit: int
    alike: int
    grown_what: str
    grown_cost: int
    grown_limit: int


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """One policy over all recorded requests. `unknown` counts evaluations whose costs are lower bounds; no figure includes them."""

    policy: str
    evaluations: int
    unknown: int
    over: int  # evaluations that some limit ends, known or not
    figures: tuple[CostFigure, ...]
    nearest: tuple[NearRequest, ...]


@dataclass(slots=True)
class _Profile:
    """Evaluations of equal costs, with the first request among them."""

    cost: CaseCost
    request: AdmissionRequest
    count: int = 0


@dataclass(slots=True)
class Book:
    """The costs of one policy so far."""

    policy: str
    profiles: dict[CaseCost, _Profile] = field(default_factory=dict)
    # The cases of the largest shares, smallest first; their objects are grown at the end. The number orders equal shares.
    _cases: list[tuple[float, int, CaseCost, Case]] = field(default_factory=list)

    def learn(self, case: Case, cost: CaseCost) -> CaseCost:
        """Keep an example of these costs, and return the one object that stands for equal costs."""
        profile = self.profiles.get(cost)
        if profile is None:
            profile = self.profiles[cost] = _Profile(cost, case.inputs.request)
            item = (cost.nearest.share, -len(self.profiles), cost, case)
            if not cost.unknown or item[0] > 1:
                (heapq.heappush if len(self._cases) < NEAREST else heapq.heappushpop)(self._cases, item)
        return profile.cost

    def count(self, cost: CaseCost) -> None:
        """One more evaluation of these costs."""
        self.profiles[cost].count += 1

    def total(self) -> PolicyCost:
        """The figures, once all requests were counted."""
        counted = [profile for profile in self.profiles.values() if profile.count]
        known = [profile for profile in counted if not profile.cost.unknown]
        largest = sorted(self._cases, key=lambda item: item[:2], reverse=True)
        near = [(cost, _grown_cost(case)) for _, _, cost, case in largest if self.profiles[cost].count]
        grown: dict[str, int] = {}
        for _, cost in near:
            for each in cost.spent:
                grown[each.what] = max(each.cost, grown.get(each.what, 0))
        return PolicyCost(
            policy=self.policy,
            evaluations=sum(profile.count for profile in counted),
            unknown=sum(profile.count for profile in counted if profile.cost.unknown),
            over=sum(profile.count for profile in counted if profile.cost.nearest.share > 1),
            figures=tuple(_figures(self.policy, known, grown)),
            nearest=tuple(self._near(cost, grown_cost) for cost, grown_cost in near),
        )

    def _near(self, cost: CaseCost, grown_cost: CaseCost) -> NearRequest:
        profile, nearest, grown = self.profiles[cost], cost.nearest, grown_cost.nearest
        request = profile.request
        resource = request.resource.resource + (f"/{request.subresource}" if request.subresource else "")
        return NearRequest(
            policy=self.policy,
            cluster=request.cluster,
            audit_id=request.audit_id,
            resource=resource,
            namespace=request.namespace,
            name=_name_of(request),
            what=nearest.what,
            cost=nearest.cost,
            limit=nearest.limit,
            alike=profile.count,
            grown_what=grown.what,
            grown_cost=grown.cost,
            grown_limit=grown.limit,
        )


def _name_of(request: AdmissionRequest) -> str:
    """The name; empty if the recorded fields that were read do not say it."""
    return (request.name.value or "") if isinstance(request.name, Known) else ""


def _figures(policy: str, profiles: Iterable[_Profile], grown: Mapping[str, int]) -> Iterator[CostFigure]:
    """One per program and group, those that come nearest to their limits first."""
    counts: dict[tuple[str, int], Counter[int]] = {}
    for profile in profiles:
        for each in profile.cost.spent:
            counts.setdefault((each.what, each.limit), Counter())[each.cost] += profile.count
    found = [
        CostFigure(
            policy=policy,
            what=what,
            limit=limit,
            evaluations=costs.total(),
            median=quantile(costs, Fraction(1, 2)),
            p99=quantile(costs, Fraction(99, 100)),
            most=max(costs),
            over=sum(count for cost, count in costs.items() if cost > limit),
            grown=grown.get(what),
        )
        for (what, limit), costs in counts.items()
    ]
    yield from sorted(found, key=lambda figure: (-figure.most / figure.limit, _numbered(figure.what)))


def _numbered(what: str) -> list[tuple[str, int]]:
    """A key that puts `validations[2]` before `validations[10]`."""
    return [(text, int(number or 0)) for text, number in _NUMBERED.findall(what)]


def quantile(counts: Counter[int], share: Fraction) -> int:
    """The smallest cost that at least this share of the evaluations does not exceed (nearest rank)."""
    wanted, seen = share * counts.total(), 0
    for cost in sorted(counts):
        seen += counts[cost]
        if seen >= wanted:
            return cost
    raise ValueError("no cost was counted")


def grown_lists(value: Any, times: int = GROWTH) -> Any:
    """A value in which every outermost list is repeated, so that the content of lists grows so many times."""
    if value.__class__ is list:
        return value * times
    if isinstance(value, dict):
        return {key: grown_lists(item, times) for key, item in value.items()}
    return value


def _grown_cost(case: Case) -> CaseCost:
    """The cost of a case whose object and old object have grown; params, namespace and user stay."""
    request = case.inputs.request
    larger = replace(request, object=_grown(request.object), old_object=_grown(request.old_object))
    return cost_of(replace(case, inputs=case.inputs.of(larger)))


def _grown(evidence: Evidence[Any]) -> Evidence[Any]:
    return Known(grown_lists(evidence.value), evidence.source, evidence.grade) if isinstance(evidence, Known) else evidence
