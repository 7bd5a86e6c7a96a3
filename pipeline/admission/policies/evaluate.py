"""What the expressions of one policy say of one request and one param: facts only, before failurePolicy and actions.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/validator.go (Validate), in its five steps and with its budgets.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...cel.values import CelError, LazyMap
from ...cel.values import Unknown as CelUnknown
from ...matching import Match
from .compile import CompiledExpression, CompiledPolicy, CompiledValidation
from .inputs import Inputs
from .messages import REASON_INVALID, cut_annotation, trimmed, usable_message
from .model import FailurePolicy
from .outcome import ADMIT, Annotations, Evaluation, Outcome
from .verdict import Decision

BUDGET = 10_000_000  # validations and messages of one (policy, binding, param): about one second on an API server
BUDGET_MATCH_CONDITIONS = 2_500_000

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudgetError(Exception):
    """A step used up its budget."""


class Step:
    """One composition context: variables are computed at most once in it, and charged to it."""

    def __init__(self, policy: CompiledPolicy, roots: dict[str, Any], budget: int | None) -> None:
        self.policy = policy
        self.roots = roots
        self.budget = budget  # None: nothing in this step can exceed a limit, so nothing is counted
        self._variables_cost = 0
        if policy.variables:
            roots["variables"] = LazyMap(policy.variable_names, self._variable)

    def run(self, expression: CompiledExpression) -> Any:
        """A value, a CelError (worded for a decision) or an Unknown. Raises OutOfBudgetError."""
        if expression.program is None:
            return CelError(f"compilation error: {expression.error}")
        if self.budget is None:
            value = expression.program.evaluate(self.roots)
        else:
            value, cost = expression.program.evaluate_with_cost(self.roots)
            self._charge(self._variables_cost)
            self._variables_cost = 0
            self._charge(cost)
        if value.__class__ is CelError:
            return CelError(f"expression '{expression.text}' resulted in error: {value.message}")
        return value

    def _charge(self, cost: int) -> None:
        assert self.budget is not None
        if cost > self.budget:
            raise OutOfBudgetError
        self.budget -= cost

    def _variable(self, name: str) -> Any:
        variable = self.policy.variables[name]
        if variable.program is None:
            raise CelError(f'composited variable "{name}" fails to compile: {variable.error}')
        if self.budget is None:
            value = variable.program.evaluate(self.roots)
        else:
            value, cost = variable.program.evaluate_with_cost(self.roots)
            self._variables_cost += cost
        if value.__class__ is CelError:
            raise CelError(f'composited variable "{name}" fails to evaluate: {value.message}')
        return value


def evaluate_policy(policy: CompiledPolicy, inputs: Inputs, match: Match | None, param: Any) -> Evaluation:
    """All five steps. `match` is None where the request matched as what it is; `param` is an object, None or a CEL Unknown.

    Raises NamespaceNotFoundError.
    """
    if policy.match_conditions:
        whole = _match_conditions(policy, inputs, match, param)
        if whole is not None:
            return Evaluation(whole)
    step, roots = None, {}
    if policy.validations:
        roots = _roots(policy, policy.validation_roots, inputs, match, param)
        _bind_authorizer(policy, roots, inputs)
        step = Step(policy, roots, _budget(policy, inputs, BUDGET))
        try:
            results = [step.run(validation.expression) for validation in policy.validations]
        except OutOfBudgetError:
            return Evaluation(Outcome(Decision.ERROR, OUT_OF_BUDGET, why="validations: cost budget"))
        outcomes = _outcomes(policy, results, step, inputs, match, param)
    else:
        outcomes = ()
    if not policy.audit_annotations:
        return policy.admitted if outcomes is policy.admitted.outcomes else Evaluation(None, outcomes)
    return _annotated(policy, inputs, match, param, outcomes)


def _budget(policy: CompiledPolicy, inputs: Inputs, budget: int) -> int | None:
    return budget if policy.may_exceed_limits else None


def _roots(
    policy: CompiledPolicy, names: frozenset[str], inputs: Inputs, match: Match | None, param: Any, **view: bool
) -> dict[str, Any]:
    roots = inputs.roots(names, match, **view)
    if policy.policy.param_kind is not None:
        roots["params"] = param
    return roots


def _bind_authorizer(policy: CompiledPolicy, roots: dict[str, Any], inputs: Inputs) -> None:
    if policy.reads_authorizer:
        roots.update(inputs.authorizer_values())


def _match_conditions(policy: CompiledPolicy, inputs: Inputs, match: Match | None, param: Any) -> Outcome | None:
    """None if the policy goes on. Follows kubernetes/apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go."""
    roots = _roots(policy, policy.condition_roots, inputs, match, param, conditions=True)
    _bind_authorizer(policy, roots, inputs)
    step = Step(policy, roots, _budget(policy, inputs, BUDGET_MATCH_CONDITIONS))
    ignores = policy.policy.failure_policy is FailurePolicy.IGNORE
    errors: list[tuple[str, str]] = []
    unknown: CelUnknown | None = None
    false = None
    try:
        for condition in policy.match_conditions:
            # All run even after a false: a budget that runs out later on is an error nevertheless.
            if false is not None and step.budget is None:
                break
            value = step.run(condition)
            if value is False:
                false = false or condition.name
            elif value.__class__ is CelError:
                errors.append((condition.name, value.message))
            elif value.__class__ is CelUnknown:
                unknown = unknown.merge(value) if unknown else value
    except OutOfBudgetError:
        errors, unknown, false = [("cost budget", OUT_OF_BUDGET)], None, None
    if false is not None:
        return Outcome(Decision.NOMATCH, why=f"matchConditions: {false} is false")
    if errors and ignores:
        return Outcome(Decision.NOMATCH, why=f"matchConditions: {errors[0][0]}: {errors[0][1]} (failurePolicy Ignore)")
    if unknown is not None:
        return Outcome(Decision.UNKNOWN, why=missing(unknown))
    if errors:
        messages = list(dict.fromkeys(message for _, message in errors))
        text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
        return Outcome(Decision.ERROR, text, why=f"matchConditions: {errors[0][0]}")
    return None


def _outcomes(
    policy: CompiledPolicy, results: list[Any], step: Step, inputs: Inputs, match: Match | None, param: Any
) -> tuple[Outcome, ...]:
    if step.budget is None and all(result is True for result in results):
        return policy.admitted.outcomes
    messages = _Messages(policy, inputs, match, param, step.budget)
    if step.budget is not None:
        # Every messageExpression runs, also those of validations that passed: only its cost matters then.
        try:
            messages.run_all()
        except OutOfBudgetError:
            failed = Outcome(Decision.ERROR, f"failed messageExpression: {OUT_OF_BUDGET}")
            return tuple(_error(result) if result.__class__ is CelError else failed for result in results)
        if all(result is True for result in results):
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
    message = usable_message(text) if isinstance(text, str) else ""
    return Outcome(Decision.DENY, message or validation.fallback, reason)


class _Messages:
    """Step 4. Without the authorizer, and in a context of its own: variables are computed and charged again."""

    def __init__(self, policy: CompiledPolicy, inputs: Inputs, match: Match | None, param: Any, budget: int | None) -> None:
        self._roots = partial(_roots, policy, policy.message_roots, inputs, match, param)
        self._budget = budget
        self._step: Step | None = None
        self._policy = policy
        self._results: dict[int, Any] = {}

    def run_all(self) -> None:
        """In order. Raises OutOfBudgetError."""
        for index in range(len(self._policy.validations)):
            self.of(index)

    def of(self, index: int) -> Any:
        """The result of one messageExpression; None if there is none. Each failure of it is silent."""
        expression = self._policy.validations[index].message
        if expression is None:
            return None
        if index not in self._results:
            if self._step is None:
                self._step = Step(self._policy, self._roots(), self._budget)
            self._results[index] = self._step.run(expression)
        return self._results[index]


def _annotated(
    policy: CompiledPolicy, inputs: Inputs, match: Match | None, param: Any, outcomes: tuple[Outcome, ...]
) -> Evaluation:
    # Annotations get the full budget again, not the remainder, the raw namespace, and no authorizer although they compile with one.
    roots = _roots(policy, policy.annotation_roots, inputs, match, param, raw=True)
    step = Step(policy, roots, _budget(policy, inputs, BUDGET))
    values: dict[str, str] = {}
    failed: dict[str, str] = {}
    unknown: dict[str, str] = {}
    try:
        for annotation in policy.audit_annotations:
            result = step.run(annotation)
            if result.__class__ is CelError:
                failed[annotation.name] = result.message
            elif result.__class__ is CelUnknown:
                unknown[annotation.name] = missing(result)
            elif isinstance(result, str) and (text := trimmed(result)):
                values[annotation.name] = cut_annotation(text)
    except OutOfBudgetError:
        # An error of this step as a whole replaces every decision of the steps before: a denial may turn into an admit.
        return Evaluation(Outcome(Decision.ERROR, OUT_OF_BUDGET, why="auditAnnotations: cost budget"))
    return Evaluation(None, outcomes, Annotations(values, failed, unknown))


def missing(unknown: CelUnknown) -> str:
    """The evidence that was missing, in a fixed order."""
    return "; ".join(sorted(unknown.attributes))
