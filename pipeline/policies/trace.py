"""Traces the expressions of a policy for one request: the value of each operand, and its place in the request's objects.

For a person who looks at a single case. Costs are not counted here; a verdict that a cost limit decided has no parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

from ..authorization import AuthorizeUser
from ..cel import CelError, CelMap, Duration, Finding, Opaque, Optional, Program, Timestamp, UInt, Value
from ..cel import Unknown as CelUnknown
from ..cel.evaluation.times import duration_text, timestamp_text
from ..cel.explain import EVERY, Place
from ..cel.library.authorizer import Authorizer, GroupCheck, PathCheck, ResourceCheck
from ..matching import Target
from ..request import AdmissionRequest
from ..world import World
from .compile import CompiledExpression, CompiledPolicy
from .dispatch import CompiledSet
from .due import Due, prepare
from .evaluate import Case, Step, missing
from .inputs import Inputs, NamespaceNotFoundError, View
from .params import Param
from .reads import used_variables

# The possible roots of a place; a chain of names with another root is a function or a type.
ROOTS = ("object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer")
# The roots in which to search for the object that a variable or a loop variable holds.
_OBJECTS = ("object", "oldObject", "params", "namespaceObject")
_TOO_DEEP = 100
# Unfinished questions to the authorizer, which have no value but their own text.
_CHECKS = (Authorizer, GroupCheck, PathCheck, ResourceCheck)


class State(StrEnum):
    """The outcome of an expression."""

    VALUE = "value"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """An expression and its outcome: JSON values, the words of an error, or the missing evidence."""

    expression: str
    state: State
    value: Any


@dataclass(frozen=True, slots=True)
class TracedPart:
    """A part of an expression that decided, with its operands and loop variables. `places` are the places that it read."""

    result: Reading
    operands: tuple[Reading, ...] = ()
    bindings: tuple[Reading, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedExpression:
    """One expression of a policy: `field` is its place, such as `validations[0]`."""

    field: str
    text: str
    source: str
    result: Reading
    parts: tuple[TracedPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One evaluation: a policy, a binding (None without a binding) and a param. `variables` are those that expressions read."""

    policy: str
    binding: str | None
    param: Param
    conditions: tuple[TracedExpression, ...] = ()
    validations: tuple[TracedExpression, ...] = ()
    variables: tuple[TracedExpression, ...] = ()

    @property
    def expressions(self) -> Iterator[TracedExpression]:
        """All expressions, variables last."""
        return chain(self.conditions, self.validations, self.variables)


def trace_request(
    policies: CompiledSet, request: AdmissionRequest, world: World, authorize: AuthorizeUser | None = None
) -> list[Trace]:
    """One trace for each due evaluation. A policy or binding that does not match has no trace: its verdict says why."""
    seen = policies.given.over(world)
    inputs = Inputs(request, seen, authorize, managed_fields=policies.reads_managed_fields)
    target = Target.of(request)
    prepared = (item for found in policies.candidates(target) for item in prepare(found.entry, request, target, seen))
    traces = (_trace(due, inputs) for due in prepared if isinstance(due, Due))
    return [trace for trace in traces if trace is not None]


def trace_expressions(
    case: Case, named: Mapping[str, CompiledExpression], roots: frozenset[str], view: View = View.PLAIN
) -> tuple[tuple[TracedExpression, ...], tuple[TracedExpression, ...]]:
    """Some expressions of one evaluation, by their places in a policy, and the variables that they read."""
    try:
        tracer = _Tracer(case.policy, case.step(roots, None, view, has_authorizer=True))
    except NamespaceNotFoundError:
        return (), ()
    found = tuple(tracer.expression(field, each) for field, each in named.items())
    return found, tuple(tracer.variables(named.values()))


def trace_conditions(case: Case) -> tuple[tuple[TracedExpression, ...], tuple[TracedExpression, ...]]:
    """The match conditions of one evaluation, and the variables that they read."""
    named = {f"matchConditions[{each.name}]": each for each in case.policy.match_conditions}
    return trace_expressions(case, named, case.policy.condition_roots, View.CONDITIONS)


def _trace(due: Due, inputs: Inputs) -> Trace | None:
    case, policy = Case(due.policy, inputs, due.match, due.value), due.policy
    try:
        first = _Tracer(policy, case.step(policy.condition_roots, None, View.CONDITIONS, has_authorizer=True))
        second = _Tracer(policy, case.step(policy.validation_roots, None, has_authorizer=True))
    except NamespaceNotFoundError:
        return None
    conditions = tuple(first.expression(f"matchConditions[{each.name}]", each) for each in policy.match_conditions)
    is_matched = all(each.result.value is True for each in conditions)
    validations = tuple(
        second.expression(f"validations[{index}]", each.expression) for index, each in enumerate(policy.validations) if is_matched
    )
    # Match conditions and validations see different values, so each variable is traced in the step that reads it.
    variables = {
        each.field: each
        for tracer, expressions in ((first, policy.match_conditions), (second, [item.expression for item in policy.validations]))
        if expressions and (tracer is first or is_matched)
        for each in tracer.variables(expressions)
    }
    return Trace(*due.subject.names, due.param, conditions, validations, tuple(variables.values()))


class _Tracer:
    """Explains the expressions of one step. It keeps the step, because the variables live as long as the step."""

    def __init__(self, policy: CompiledPolicy, step: Step) -> None:
        self._policy = policy
        self._step = step

    def expression(self, field: str, compiled: CompiledExpression) -> TracedExpression:
        """One expression with the parts that decided."""
        program = compiled.program
        if program is None:
            return TracedExpression(field, compiled.text, compiled.source, Reading(compiled.text, State.ERROR, compiled.error))
        result = _reading(compiled.text, program.evaluate(self._step.roots))
        parts = tuple(self._part(finding) for finding in program.explain(self._step.roots))
        return TracedExpression(field, compiled.text, compiled.source, result, parts)

    def variables(self, expressions: Iterable[CompiledExpression]) -> list[TracedExpression]:
        """The variables that some expressions read."""
        programs: Mapping[str, Program] = {name: each.program for name, each in self._policy.variables.items() if each.program}
        used = used_variables([each.program for each in expressions if each.program], programs)
        return [self.expression(f"variables.{name}", self._policy.variables[name]) for name in used]

    def _part(self, finding: Finding) -> TracedPart:
        return TracedPart(
            _reading(finding.expression, finding.value),
            tuple(_reading(text, value) for text, value in finding.operands if not isinstance(value, _CHECKS)),
            tuple(_reading(name, value) for name, value in finding.bindings),
            tuple(dict.fromkeys(self._located(place) for place in finding.places if place[0] in ROOTS)),
        )

    def _located(self, place: Place) -> Place:
        """A place in a variable, as the place in the object from which the variable took its value, where it can be found."""
        if place[0] != "variables":
            return place
        for length in range(len(place), 1, -1):
            value = _at(self._step.roots, place[:length])
            if value.__class__ in (dict, list):
                for name in _OBJECTS:
                    found = _place_of(value, self._step.roots.get(name), (name,))
                    if found is not None:
                        return (*found, *place[length:])
                break
        return place


def _at(roots: Mapping[str, Any], place: Place) -> Any:
    """The value at a place; None if the place does not exist."""
    value: Any = roots
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError, CelError):
            return None
    return value


def _place_of(wanted: Any, value: Any, place: Place) -> Place | None:
    """The place of an object or list in another one, compared by identity and not by equality."""
    if value is wanted:
        return place
    if len(place) > _TOO_DEEP or value.__class__ not in (dict, list):
        return None
    for key, inner in value.items() if value.__class__ is dict else enumerate(value):
        if inner.__class__ in (dict, list) and (found := _place_of(wanted, inner, (*place, key))) is not None:
            return found
    return None


def _reading(expression: str, value: Value) -> Reading:
    if value.__class__ is CelError:
        return Reading(expression, State.ERROR, value.message)
    if value.__class__ is CelUnknown:
        return Reading(expression, State.UNKNOWN, missing(value))
    return Reading(expression, State.VALUE, plain(value))


def plain(value: Value) -> Any:
    """A CEL value as JSON; values without a JSON form become text."""
    match value:
        case None | bool() | str() | float():
            return value
        case UInt():
            return int(value)
        case int():
            return value
        case list():
            return [plain(each) for each in value]
        case dict():
            return {str(key): plain(each) for key, each in dict.items(value)}
        case CelMap():
            return {str(key): plain(each) for key, each in value.entries.values()}
        case Optional():
            return plain(value.value) if value.has_value else None
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case CelUnknown():
            return f"(unknown: {missing(value)})"
        case bytes():
            return value.hex()
        case Opaque():
            return str(value)
    return repr(value)


def place_text(place: Place) -> str:
    """A place as a person writes it: `object.spec.containers[0].image`, with quotes around names that are not plain."""
    return str(place[0]) + "".join(map(step_text, place[1:]))


def step_text(step: str | int) -> str:
    """One step of a place: `.spec`, `[0]`, `[*]`, `["app.kubernetes.io/name"]`."""
    if isinstance(step, int):
        return f"[{step}]"
    if step == EVERY:
        return "[*]"
    return f".{step}" if step.replace("_", "a").isalnum() else f'["{step}"]'
