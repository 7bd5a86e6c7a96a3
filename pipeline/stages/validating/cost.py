"""The CEL cost of a policy for one request and one param: per program, and per budget that programs share.

Runs everything that an API server would run, without a budget that ends it. Match conditions come first. If all are true, the
validations, every messageExpression and the audit annotations follow. Follows kubernetes/apiserver
pkg/admission/plugin/policy/validating/validator.go. As there, each program ends at PROGRAM_LIMIT, so a cost above it is a lower
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...cel.values import Unknown as CelUnknown
from ...policies.compile import CompiledExpression
from ...policies.evaluate import Case, Step
from ...policies.inputs import View
from ...policies.limits import BUDGET, BUDGET_MATCH_CONDITIONS, PROGRAM_LIMIT

# More than all programs of a policy can cost together, because each ends at PROGRAM_LIMIT.
_NO_END = 1 << 62


class Spent(NamedTuple):
    """The cost of one program, or of all programs that share a budget. `what` names it within the policy."""

    what: str
    cost: int
    limit: int

    @property
    def share(self) -> float:
        """The cost as a share of the limit. Above 1 the API server ends the evaluation with an error."""
        return self.cost / self.limit


@dataclass(frozen=True, slots=True)
class CaseCost:
    """The cost of one policy for one request and param. `unknown` says why the costs are lower bounds; empty if they are exact."""

    spent: tuple[Spent, ...]
    unknown: str = ""

    @property
    def nearest(self) -> Spent:
        """The cost that takes the largest share of its limit."""
        return max(self.spent, key=lambda each: each.share)


class _Counter:
    """Adds up the costs of the steps of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.programs: dict[str, int] = {}
        self.groups: dict[str, tuple[int, int]] = {}
        self.unknown: list[str] = []

    def run(self, group: str, step: Step, named: Iterator[tuple[str, CompiledExpression]], limit: int) -> list[Any]:
        """The values of some expressions in one step, and their costs in one group of programs that share a budget."""
        before = step.budget or 0
        values = []
        for name, expression in named:
            value = step.run(expression)
            self.programs[name] = step.cost_of(expression)
            if value.__class__ is CelUnknown:
                self.unknown += sorted(value.attributes)
            values.append(value)
        for name, cost in step.variable_costs.items():
            what = f"variables.{name}"
            self.programs[what] = max(cost, self.programs.get(what, 0))
        spent = before - (step.budget or 0)
        self.groups[group] = (self.groups.get(group, (0, 0))[0] + spent, limit)
        return values

    def total(self) -> CaseCost:
        programs = (Spent(name, cost, PROGRAM_LIMIT) for name, cost in self.programs.items())
        groups = (Spent(name, cost, limit) for name, (cost, limit) in self.groups.items())
        return CaseCost((*groups, *programs), "; ".join(dict.fromkeys(self.unknown)))


def cost_of(case: Case) -> CaseCost:
    """The cost of every program of a policy for one request and param. Raises NamespaceNotFoundError."""
    policy, counter = case.policy, _Counter(case)
    if policy.match_conditions:
        step = case.step(policy.condition_roots, _NO_END, View.CONDITIONS, has_authorizer=True)
        named = ((f"matchConditions.{each.name}", each) for each in policy.match_conditions)
        values = counter.run("all matchConditions", step, named, BUDGET_MATCH_CONDITIONS)
        if any(value is not True for value in values):
            return counter.total()
    group = "all validations with messages"
    if policy.validations:
        step = case.step(policy.validation_roots, _NO_END, has_authorizer=True)
        checks = ((f"validations[{index}]", each.expression) for index, each in enumerate(policy.validations))
        counter.run(group, step, checks, BUDGET)
        messages = [
            (f"validations[{index}].messageExpression", each.message)
            for index, each in enumerate(policy.validations)
            if each.message is not None
        ]
        if messages:
            counter.run(group, case.step(policy.message_roots, _NO_END), iter(messages), BUDGET)
    if policy.audit_annotations:
        step = case.step(policy.annotation_roots, _NO_END, View.RAW)
        annotations = ((f"auditAnnotations.{each.name}", each) for each in policy.audit_annotations)
        counter.run("all auditAnnotations", step, annotations, BUDGET)
    return counter.total()
