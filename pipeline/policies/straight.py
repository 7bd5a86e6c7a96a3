"""The straight path through a policy calls its generated functions one after the other, over plain values.

It covers the usual case: every expression stays in the fast tier, nothing is unknown or in error, and no cost limit is in doubt. In
any other case it has no result, and `evaluate.py` decides. Where it has a result, `evaluate.py` has the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..cel.values import CelError, LazyMap
from ..cel.values import Unknown as CelUnknown
from .compile import CompiledExpression, CompiledPolicy
from .messages import REASON_INVALID, cut_annotation, said, trimmed
from .outcome import ADMIT, Annotations, Evaluation, Outcome
from .verdict import Decision

_Run: TypeAlias = Callable[[Mapping[str, Any]], Any]
_FAILED = frozenset((CelError, CelUnknown))


class _UnusualError(Exception):
    """A result that the straight path does not handle."""


class StraightPath:
    """The functions of one policy, in calling order."""

    def __init__(self, policy: CompiledPolicy) -> None:
        """Raises _UnusualError for a policy with an expression that has no generated function; see `straight_path`."""
        self._policy = policy
        self._names = policy.variable_names
        self._variables = {name: _run_of(each) for name, each in policy.variables.items()}
        self._conditions = [(_run_of(each), policy.unmatched[each.name]) for each in policy.match_conditions]
        self._validations = [_run_of(each.expression) for each in policy.validations]
        self._messages = [_run_of(each.message) if each.message else None for each in policy.validations]
        self._annotations = [(each.name, _run_of(each)) for each in policy.audit_annotations]

    def evaluate(self, roots: dict[str, Any]) -> Evaluation | None:
        """The evaluation over these roots; None where the straight path has no result. No limit may be in doubt."""
        if self._names:
            variables = self._variables
            roots = roots.copy()
            roots["variables"] = LazyMap(self._names, lambda name: variables[name](roots))
        try:
            return self._evaluate(roots)
        except MemoryError:
            raise
        except Exception:
            return None
        finally:
            if self._names:
                del roots["variables"]  # it refers to the roots, which refer to it

    def _evaluate(self, roots: dict[str, Any]) -> Evaluation:
        policy = self._policy
        for condition, unmatched in self._conditions:
            if not _decided(condition(roots)):
                return unmatched
        results = [_decided(validation(roots)) for validation in self._validations]
        outcomes = policy.admitted.outcomes
        if not all(results):
            outcomes = tuple(ADMIT if result else self._denied(index, roots) for index, result in enumerate(results))
        values: dict[str, str] = {}
        for name, annotation in self._annotations:
            found = _succeeded(annotation(roots))
            if isinstance(found, str) and (text := trimmed(found)):
                values[name] = cut_annotation(text)
        if outcomes is policy.admitted.outcomes and not values:
            return policy.admitted
        return Evaluation(None, outcomes, Annotations(values, {}, {})) if self._annotations else Evaluation(None, outcomes)

    def _denied(self, index: int, roots: dict[str, Any]) -> Outcome:
        validation, run = self._policy.validations[index], self._messages[index]
        text = None if run is None else _succeeded(run(roots))
        has_expression = validation.message is not None
        return Outcome(
            Decision.DENY, *said(text, validation.fallback, validation.reason or REASON_INVALID, has_expression=has_expression)
        )


def straight_path(policy: CompiledPolicy) -> StraightPath | None:
    """The straight path of a policy; None for a policy with params, with an authorizer, or without generated functions."""
    is_plain = policy.is_pure and not policy.defect and policy.policy.param_kind is None and not policy.reads_authorizer
    # Match conditions never see a namespaceObject; the other expressions do.
    if not is_plain or "namespaceObject" in policy.condition_roots:
        return None
    try:
        return StraightPath(policy)
    except _UnusualError:
        return None


def _run_of(expression: CompiledExpression) -> _Run:
    run = expression.program.fast if expression.program else None
    if run is None:
        raise _UnusualError
    return run


def _decided(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _UnusualError


def _succeeded(value: Any) -> Any:
    if value.__class__ in _FAILED:
        raise _UnusualError
    return value
