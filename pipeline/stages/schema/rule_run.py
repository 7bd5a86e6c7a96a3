"""Evaluates the rules of a schema over one object, as create or as update, with ratcheting and the budget of costs.

Follows apiextensions-apiserver pkg/apiserver/schema/cel/validation.go. Costs are counted only for objects on which the rules could
exceed a limit: bounds on the costs prove it for all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ...cel.library.gotext import quote
from ...cel.program import COST_LIMIT, Program
from ...cel.values import NONE, CelError, Optional, Unknown, Value
from .cel_values import cel_value, mismatch, with_meta
from .correlation import Correlated, MapList
from .field_errors import OMITTED, FieldError, Reason, child, duplicate, forbidden, index, invalid, key, required
from .props import Props
from .rules import CompiledRule, NodeRules

BUDGET: Final = 10_000_000  # of all rules over one object: kubernetes/apiserver pkg/apis/cel/config.go RuntimeCELCostBudget
_MESSAGE_BYTES_MAX: Final = 5 * 1024
_SPENT = "running out of cost budget, no further validation rules will be run"
_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_encode = msgspec.json.Encoder().encode


@dataclass
class RuleOutcome:
    """What the rules say: errors, warnings of ratcheted errors, and what could not be decided."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands among old values: its own pair, and the nearest pair around it."""

    pair: Correlated | None
    around: Correlated | None

    @property
    def is_unchanged(self) -> bool:
        found = self.pair if self.pair is not None else self.around
        return found is not None and found.is_equal

    def key(self, name: str) -> _Place:
        if self.pair is None:
            return self
        if self.around is None and name in ("apiVersion", "kind"):
            return _Place(None, None)
        return _Place(self.pair.key(name), self.pair)

    def index(self, number: int) -> _Place:
        return self if self.pair is None else _Place(self.pair.index(number), self.pair)


class _StopError(Exception):
    """No further rules are evaluated."""


class _NeedsCostsError(Exception):
    """The bounds do not prove that no limit is exceeded."""


def run_rules(rules: NodeRules, value: Any, old: Any = None, pair: Correlated | None = None, path: str = "") -> RuleOutcome:
    """Evaluate all rules over a value. `old` is the value before an update; with a `pair`, unchanged nodes are ratcheted."""
    for counts in (False, True):
        run = _RuleRun(counts)
        try:
            run.node(rules, value, old, _Place(pair, None), path)
        except _StopError:
            return run.outcome
        except _NeedsCostsError:
            continue
        return run.outcome
    raise AssertionError("a run that counts costs needs no further run")


class _RuleRun:
    """One evaluation of all rules; `counts` says whether costs are counted or bounded."""

    def __init__(self, counts: bool) -> None:
        self.counts = counts
        self.left = BUDGET
        self.outcome = RuleOutcome()

    def node(self, rules: NodeRules, value: Any, old: Any, place: _Place, path: str) -> None:
        if value is None:
            return
        if rules.rules:
            self.rules_of(rules, value, old, place, path)
        if isinstance(value, list) and rules.items is not None:
            items = MapList(rules.schema.list_map_keys if rules.schema.list_type == "map" else (), old)
            for number, item in enumerate(value):
                self.node(rules.items, item, items.get(item), place.index(number), index(path, number))
        elif isinstance(value, dict):
            olds = old if isinstance(old, dict) else {}
            if rules.values is not None:
                for name, item in value.items():
                    self.node(rules.values, item, olds.get(name), place.key(name), key(path, name))
            for name, below in rules.properties.items():
                if name in value:
                    self.node(below, value[name], olds.get(name), place.key(name), child(path, name))

    def rules_of(self, rules: NodeRules, value: Any, old: Any, place: _Place, path: str) -> None:
        schema = with_meta(rules.schema) if rules.is_resource else rules.schema
        problem = mismatch(value, schema)  # Then every rule that reads `self` has this error.
        reads_old = any(each.uses_old_self for each in rules.rules)
        activation: dict[str, Value] = {"self": cel_value(value, schema)}
        sizes = {} if self.counts else {"self": _size(value)}
        optional: Value = NONE
        if reads_old and old is not None:
            activation["oldSelf"] = cel_value(old, schema)
            optional = Optional(activation["oldSelf"])
        if reads_old and not self.counts:
            sizes["oldSelf"] = _size(old)
        for each in rules.rules:
            if each.error:
                self.outcome.errors.append(invalid(path, schema.type, f"rule compile error: {each.error}"))
                continue
            if each.program is None or (each.uses_old_self and old is None and not each.rule.optional_old_self):
                continue
            if each.compares_lists and (_has_odd_set(value, schema) or _has_odd_set(old, schema)):
                where = path or "the root"
                self.outcome.unknown.append(f"a rule at {where} compares sets of objects or lists: Hindcast cannot do that yet")
                continue
            if problem:
                self.failed(each, problem, schema.type, path)
                continue
            variables = {**activation, "oldSelf": optional} if each.rule.optional_old_self else activation
            self.rule(each, each.program, variables, sizes, value, schema.type, place, path)

    def rule(
        self,
        rule: CompiledRule,
        program: Program,
        activation: dict[str, Value],
        sizes: dict[str, int],
        value: Any,
        type_: str,
        place: _Place,
        path: str,
    ) -> None:
        result = self.evaluate(program, activation, sizes, lambda: invalid(path, type_, f"validation failed due to {_SPENT}"))
        if result is True:
            return
        if isinstance(result, Unknown):
            self.outcome.unknown.append(f"a rule at {path or 'the root'} reads {', '.join(sorted(result.attributes))}")
            return
        if isinstance(result, CelError):
            self.failed(rule, result.message, type_, path)
            return
        where = child(path, rule.path) if rule.path else path
        detail = self.message(rule, activation, sizes, where, type_, place)
        shown = OMITTED if type_ in ("object", "array") else value
        self.add(rule, _error(rule, where, shown, detail), place)

    def failed(self, rule: CompiledRule, problem: str, type_: str, path: str) -> None:
        """The error of a rule that could not be evaluated. Such errors are never ratcheted."""
        if problem.startswith("no such overload"):
            detail = f"'{problem}': call arguments did not match a supported operator, function or macro signature for rule: "
        elif problem.startswith(_EXCEEDED):
            detail = f"'{problem}': no further validation rules will be run due to call cost exceeds limit for rule: "
        else:
            detail = f"{problem} evaluating rule: "
        self.outcome.errors.append(invalid(path, type_, detail + rule.shown))
        if problem.startswith(_EXCEEDED):
            raise _StopError

    def message(
        self, rule: CompiledRule, activation: dict[str, Value], sizes: dict[str, int], where: str, type_: str, place: _Place
    ) -> str:
        """The text for a rule that is false: that of its messageExpression if this gives one, else its message."""
        otherwise = rule.rule.message.strip() if rule.rule.message else f"failed rule: {rule.shown}"
        if rule.message is None:
            return otherwise
        spent = invalid(where, type_, f"messageExpression evaluation failed due to {_SPENT}")
        found = self.evaluate(rule.message, activation, sizes, lambda: spent)
        if isinstance(found, CelError) and found.message.startswith(_EXCEEDED):
            text = quote(rule.rule.message_expression)
            detail = f"no further validation rules will be run due to call cost exceeds limit for messageExpression: {text}"
            self.add(rule, invalid(where, type_, detail), place)
            raise _StopError
        text = found.strip() if isinstance(found, str) else ""
        return otherwise if not text or "\n" in text or len(text.encode()) > _MESSAGE_BYTES_MAX else text

    def add(self, rule: CompiledRule, error: FieldError, place: _Place) -> None:
        is_ratcheted = not rule.uses_old_self and place.is_unchanged
        (self.outcome.warnings if is_ratcheted else self.outcome.errors).append(error)

    def evaluate(self, program: Program, activation: dict[str, Value], sizes: dict[str, int], spent: Any) -> Value:
        if not self.counts:
            bound = program.cost_bound(sizes)
            if bound is None or bound > COST_LIMIT or bound > self.left:
                raise _NeedsCostsError
            self.left -= bound
            return program.evaluate(activation)
        if self.left <= 0:
            self.outcome.errors.append(spent())
            raise _StopError
        result, cost = program.evaluate_with_cost(activation)
        if cost > self.left:
            self.outcome.errors.append(spent())
            raise _StopError
        self.left -= cost
        return result


def _has_odd_set(value: Any, schema: Props | None) -> bool:
    """Whether a value holds a list of type set whose items are no scalars. API servers before 1.37 may fail on its comparison."""
    if isinstance(value, list):
        if schema is not None and schema.list_type == "set" and len(value) > 1 and isinstance(value[0], dict | list):
            return True
        return schema is not None and any(_has_odd_set(item, schema.items) for item in value)
    if isinstance(value, dict) and schema is not None:
        return any(_has_odd_set(item, schema.properties.get(name) or schema.values) for name, item in value.items())
    return False


def _size(value: Any) -> int:
    """The bytes of a value as JSON, rounded up to a power of two: bounds are cached by size."""
    return 1 << len(_encode(value)).bit_length()


def _error(rule: CompiledRule, path: str, value: Any, detail: str) -> FieldError:
    match rule.rule.reason:
        case Reason.FORBIDDEN:
            return forbidden(path, detail)
        case Reason.REQUIRED:
            return required(path, detail)
        case Reason.DUPLICATE:
            return duplicate(path, value)
    return invalid(path, value, detail)
