"""Evaluates the expressions of one policy for one request and one param: facts only, before failurePolicy and actions.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/validator.go (Validate), in its five steps and with its budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

from ..cel import Program
from ..cel.costs.sizes import BUILT_BYTES_MAX, Room
from ..cel.stack import LEVELS_MAX, on_large_stack
from ..cel.values import CelError, LazyMap
from ..cel.values import Unknown as CelUnknown
from ..matching import Match
from .compile import CompiledExpression, CompiledPolicy, CompiledValidation
from .inputs import Inputs, NamespaceNotFoundError, View
from .limits import BUDGET, BUDGET_MATCH_CONDITIONS, PROGRAM_LIMIT, Doubt, Limits
from .messages import REASON_INVALID, cut_annotation, kept, said, trimmed
from .model import FailurePolicy
from .outcome import ADMIT, Annotations, Evaluation, Outcome
from .verdict import Decision

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
# An evaluation without cost counting builds little: at most half of the limit on built values.
_BUILT_MAX = BUILT_BYTES_MAX // 2


class OutOfBudgetError(Exception):
    """A step used up its budget."""


class Step:
    """One composition context: it computes each variable at most once and charges for it. Users of its roots must keep the step."""

    __slots__ = (
        "__weakref__",
        "_counted",
        "_levels",
        "_open",
        "_room",
        "_variables",
        "_variables_cost",
        "budget",
        "roots",
        "variable_costs",
    )

    def __init__(self, policy: CompiledPolicy, roots: dict[str, Any], budget: int | None) -> None:
        self.roots = roots
        self.budget = budget  # None: nothing in this step can exceed a limit, so nothing is counted
        if budget is not None:
            # Counting is slow. The expressions of one step compile alike, so equal texts have equal values and costs, and each text
            # runs once.
            self._counted: dict[str, tuple[Any, int]] = {}
            self._variables_cost = 0
            self.variable_costs: dict[str, int] = {}  # of the variables that were computed
            self._room = Room()
        if policy.variables:
            self._variables = policy.variables
            self._open: set[str] = set()  # variables whose computation has begun and not ended
            self._levels = 0  # how many levels of their expressions are within each other
            roots["variables"] = LazyMap(policy.variable_names, _variables_of(self))

    def run(self, expression: CompiledExpression) -> Any:
        """A value, a CelError (worded for a decision) or an Unknown. Raises OutOfBudgetError."""
        program = expression.program
        if program is None:
            return CelError(f"compilation error: {expression.error}")
        if self.budget is None:
            return _worded(expression, program.evaluate(self.roots))
        counted = self._counted.get(program.text)
        if counted is None:
            counted = self._counted[program.text] = program.evaluate_with_cost(self.roots, room=self._room)
        value, cost = counted
        # The budget pays for variables before it pays for the expression itself.
        self._charge(self._variables_cost)
        self._variables_cost = 0
        self._charge(cost)
        return _worded(expression, value)

    def cost_of(self, expression: CompiledExpression) -> int:
        """The cost, without variables, of an expression that ran in this step, where costs are counted."""
        counted = self._counted.get(expression.program.text) if expression.program else None
        return counted[1] if counted else 0

    def _charge(self, cost: int) -> None:
        assert self.budget is not None
        if cost > self.budget:
            raise OutOfBudgetError
        self.budget -= cost

    def variable(self, name: str) -> Any:
        """The value of a variable, or an Unknown. Raises CelError."""
        variable = self._variables[name]
        if variable.program is None:
            raise CelError(f'composited variable "{name}" fails to compile: {variable.error}')
        if name in self._open:
            # Where two variables have one name, the server may check the later one with the earlier; at run time it then calls
            # itself without end.
            return CelUnknown(f"variables.{name}: its expression needs its own value")
        if self.budget is not None and self._variables_cost > self.budget:
            # The expression also pays for the variables computed so far, and its budget does not cover them.
            return CelUnknown(f"variables.{name}: {OUT_OF_BUDGET}")
        before = self._levels
        self._levels += variable.program.levels
        self._open.add(name)
        try:
            value = self._computed(name, variable.program)
        finally:
            self._open.discard(name)
            self._levels = before
        if value.__class__ is CelError:
            raise CelError(kept(f'composited variable "{name}" fails to evaluate: {value.message}'))
        return value

    def _computed(self, name: str, program: Program) -> Any:
        if self._levels > LEVELS_MAX:
            # Variables that use each other may nest without end; each stack has room for a part of them.
            self._levels = program.levels
            return on_large_stack(lambda: self._computed(name, program))
        if self.budget is None:
            return program.evaluate(self.roots)
        value, cost = program.evaluate_with_cost(self.roots, room=self._room)
        self._variables_cost += cost
        self.variable_costs[name] = cost
        return value


def _worded(expression: CompiledExpression, value: Any) -> Any:
    """A value unchanged, or an error in the words of a decision."""
    if value.__class__ is CelError:
        return CelError(kept(f"expression '{expression.text}' resulted in error: {value.message}"))
    return value


def _variables_of(step: Step) -> Callable[[str], Any]:
    """Computes variables for a step without a reference cycle: a step that held itself would wait for the garbage collector."""
    reference = ref(step)

    def resolve(name: str) -> Any:
        step = reference()
        assert step is not None
        return step.variable(name)

    return resolve


@dataclass(slots=True)
class Case:
    """One policy, one request and one param. `match` is None where the request matched under its own resource and kind."""

    policy: CompiledPolicy
    inputs: Inputs
    match: Match | None
    param: Any  # an object, None or a CEL Unknown

    def is_doubtful(self) -> bool:
        """Whether any limit could be exceeded, so that costs must be counted in some step."""
        policy = self.policy
        if policy.match_conditions and self.is_counted(policy.condition_limits, policy.condition_roots):
            return True
        return self.is_counted(policy.limits, policy.later_roots)

    def is_counted(self, limits: Limits, names: frozenset[str]) -> bool:
        """Whether the costs of everything must be counted, because some limit could be exceeded."""
        doubts = self.inputs.doubts(limits, names, self.param)
        # The steps do not see the same namespaceObject.
        if doubts is None or (doubts and "namespaceObject" in names):
            return True
        return not all(self._is_within(doubt, names) for doubt in doubts)

    def _is_within(self, doubt: Doubt, names: frozenset[str]) -> bool:
        """Whether the programs in doubt cost no more than their limits. The cost of variables is not in doubt."""
        step = self.step(names, None, has_authorizer=True)
        built: dict[str, int] = {}
        spent = 0
        for program in doubt.programs:
            cost, built[program.text] = self.policy.costs.of(program, step.roots)
            spent += cost
            if cost > PROGRAM_LIMIT or spent > doubt.spare or sum(built.values()) > _BUILT_MAX:
                return False
        return True

    def step(self, names: frozenset[str], budget: int | None, view: View = View.PLAIN, *, has_authorizer: bool = False) -> Step:
        """A new context over these roots. Without a budget nothing is counted. Raises NamespaceNotFoundError."""
        policy = self.policy
        if self.match is None and (view is View.PLAIN or "namespaceObject" not in names):
            roots = self.inputs.plain(names)
            if policy.binds_names:
                roots = roots.copy()
        else:
            roots = self.inputs.seen(names, self.match, view)
        if policy.policy.param_kind is not None:
            roots["params"] = self.param
        if has_authorizer and policy.reads_authorizer:
            roots.update(self.inputs.authorizer_values())
        return Step(policy, roots, budget)


def evaluate_policy(case: Case) -> Evaluation:
    """All five steps. Raises NamespaceNotFoundError."""
    return _straight(case) or _evaluated(case)


def _straight(case: Case) -> Evaluation | None:
    """The evaluation of the straight path; None where all steps are needed."""
    straight = case.policy.straight if case.match is None else None
    if straight is None:
        return None
    try:
        return None if case.is_doubtful() else straight.evaluate(case.inputs.plain(case.policy.pure_roots))
    except NamespaceNotFoundError:
        return None  # a match condition may come before it


def _evaluated(case: Case) -> Evaluation:
    policy = case.policy
    if policy.defect:
        return Evaluation(Outcome(Decision.UNKNOWN, why=policy.defect))
    if policy.match_conditions:
        unmatched = match_conditions(case)
        if unmatched is not None:
            return unmatched
    outcomes: tuple[Outcome, ...] = ()
    budget = BUDGET if case.is_counted(policy.limits, policy.later_roots) else None
    if policy.validations:
        step = case.step(policy.validation_roots, budget, has_authorizer=True)
        try:
            results = [step.run(validation.expression) for validation in policy.validations]
        except OutOfBudgetError:
            return Evaluation(Outcome(Decision.ERROR, OUT_OF_BUDGET, why="validations: cost budget"))
        outcomes = _outcomes(case, results, step.budget)
    if policy.audit_annotations:
        return _annotated(case, outcomes, budget)
    return policy.admitted if outcomes is policy.admitted.outcomes else Evaluation(None, outcomes)


def match_conditions(case: Case) -> Evaluation | None:
    """The outcome of one policy if a match condition ends its evaluation, else None. Mutating policies have the same.

    Follows kubernetes/apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go.
    """
    policy = case.policy
    budget = BUDGET_MATCH_CONDITIONS if case.is_counted(policy.condition_limits, policy.condition_roots) else None
    step = case.step(policy.condition_roots, budget, View.CONDITIONS, has_authorizer=True)
    errors: list[tuple[str, str]] = []
    unknown: CelUnknown | None = None
    false: str | None = None
    try:
        for condition in policy.match_conditions:
            value = step.run(condition)
            if value is True:
                continue
            if value is False:
                # The other conditions still run if they could use up the budget: an exhausted budget is an error even next to a
                # false condition.
                false = false or condition.name
                if step.budget is None:
                    break
            elif value.__class__ is CelError:
                errors.append((condition.name, value.message))
            elif value.__class__ is CelUnknown:
                unknown = unknown.merge(value) if unknown else value
    except OutOfBudgetError:
        errors, unknown, false = [("cost budget", OUT_OF_BUDGET)], None, None
    if false is not None:
        return policy.unmatched[false]
    return _condition_problem(policy, errors, unknown) if errors or unknown else None


def _condition_problem(policy: CompiledPolicy, errors: list[tuple[str, str]], unknown: CelUnknown | None) -> Evaluation:
    if errors and policy.policy.failure_policy is FailurePolicy.IGNORE:
        why = f"matchConditions: {errors[0][0]}: {errors[0][1]} (failurePolicy Ignore)"
        return Evaluation(Outcome(Decision.NOMATCH, why=why))
    if unknown is not None:
        return Evaluation(Outcome(Decision.UNKNOWN, why=missing(unknown)))
    messages = list(dict.fromkeys(message for _, message in errors))
    text = kept(messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]")
    return Evaluation(Outcome(Decision.ERROR, text, why=f"matchConditions: {errors[0][0]}"))


def _outcomes(case: Case, results: list[Any], budget: int | None) -> tuple[Outcome, ...]:
    policy = case.policy
    is_admitted = all(result is True for result in results)
    if is_admitted and budget is None:
        return policy.admitted.outcomes
    messages = _Messages(case, budget)
    if budget is not None:
        # Every messageExpression runs, also for validations that passed: for these only its cost matters.
        try:
            messages.run_all()
        except OutOfBudgetError:
            failed = Outcome(Decision.ERROR, f"failed messageExpression: {OUT_OF_BUDGET}")
            return tuple(_error(result) if result.__class__ is CelError else failed for result in results)
        if is_admitted:
            return policy.admitted.outcomes
    return tuple(
        ADMIT if result is True else _outcome(validation, index, result, messages)
        for index, (validation, result) in enumerate(zip(policy.validations, results, strict=True))
    )


def _error(error: CelError) -> Outcome:
    return Outcome(Decision.ERROR, error.message)


def _outcome(validation: CompiledValidation, index: int, result: Any, messages: _Messages) -> Outcome:
    if result.__class__ is CelError:
        return _error(result)
    if result.__class__ is CelUnknown:
        return Outcome(Decision.UNKNOWN, why=missing(result))
    reason = validation.reason or REASON_INVALID
    text = messages.of(index)
    if text.__class__ is CelUnknown:
        return Outcome(Decision.DENY, None, reason, f"the message: {missing(text)}")
    return Outcome(Decision.DENY, *said(text, validation.fallback, reason, has_expression=validation.message is not None))


class _Messages:
    """Step 4, without the authorizer and in its own context: variables are computed and charged again."""

    def __init__(self, case: Case, budget: int | None) -> None:
        self._case = case
        self._budget = budget
        self._step: Step | None = None
        self._results: dict[int, Any] = {}

    def run_all(self) -> None:
        """Runs all in order. Raises OutOfBudgetError."""
        for index in range(len(self._case.policy.validations)):
            self.of(index)

    def of(self, index: int) -> Any:
        """The result of one messageExpression; None if there is no expression or it failed. Each failure is silent."""
        policy = self._case.policy
        expression = policy.validations[index].message
        if expression is None:
            return None
        if index not in self._results:
            if self._step is None:
                self._step = self._case.step(policy.message_roots, self._budget)
            self._results[index] = self._step.run(expression)
        return self._results[index]


def _annotated(case: Case, outcomes: tuple[Outcome, ...], budget: int | None) -> Evaluation:
    # Annotations get the full budget again, not the remainder, and the raw namespace. They compile with an authorizer and run
    # without one.
    step = case.step(case.policy.annotation_roots, budget, View.RAW)
    values: dict[str, str] = {}
    failed: dict[str, str] = {}
    unknown: dict[str, str] = {}
    try:
        for annotation in case.policy.audit_annotations:
            result = step.run(annotation)
            if result.__class__ is CelError:
                failed[annotation.name] = result.message
            elif result.__class__ is CelUnknown:
                unknown[annotation.name] = missing(result)
            elif isinstance(result, str) and (text := trimmed(result)):
                values[annotation.name] = cut_annotation(text)
    except OutOfBudgetError:
        # An error of this step as a whole replaces every decision of the earlier steps: a denial may become an admit.
        return Evaluation(Outcome(Decision.ERROR, OUT_OF_BUDGET, why="auditAnnotations: cost budget"))
    if outcomes is case.policy.admitted.outcomes and not (values or failed or unknown):
        return case.policy.admitted  # the same rows for every request, made once
    return Evaluation(None, outcomes, Annotations(values, failed, unknown))


def missing(unknown: CelUnknown) -> str:
    """The missing evidence, in a fixed order."""
    return kept("; ".join(sorted(unknown.attributes)))
