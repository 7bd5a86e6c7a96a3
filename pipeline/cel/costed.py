"""The costed tier: the exact tier's closures with what each step costs added to a meter (cel-go interpreter/runtimecost.go).

cel-go observes the steps of its expanded, folded plan; macros are not expanded here, so each adds what its expansion would have
cost: reading the accumulator and the loop condition, building one-element lists, and so on. Two rules are less obvious. The name at
the root of a selection is not charged where the selection is a branch of `?:` or an index, because cel-go does not observe it
there. And what a call costs depends on the overload only if the checker could tell it; calls that are left to run time cost 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from . import ast, folds
from .attributes import has, index, index_optional, select, select_optional
from .exact import (
    FAILED,
    METER,
    Frame,
    Planner,
    Run,
    alternative,
    application,
    conditional,
    evaluate_arguments,
    member_of,
    optional_map_of,
    sort_by,
)
from .functions import Function
from .library import OVERLOAD_COSTS
from .library.costs import Cost
from .standard import COSTS
from .undecided import Undecided
from .values import NONE, CelError, CelMap, Optional, Value

LookUp: TypeAlias = Callable[[Value, Any], Value]

LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40
# What calls cost where the checker could tell the overload.
PRICES: dict[str, Cost] = COSTS | OVERLOAD_COSTS
EXCEEDED = "operation cancelled: actual cost limit exceeded"


class LimitExceededError(Exception):
    """The meter has passed its limit; evaluation stops at once."""


class Meter:
    """What an evaluation has cost so far."""

    __slots__ = ("cost", "limit")

    def __init__(self, limit: int) -> None:
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Adds to the cost. Raises LimitExceededError beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise LimitExceededError


def charged(run: Run, cost: int) -> Run:
    """`run`, and then its cost, whatever came out."""

    def run_and_charge(frame: Frame) -> Value:
        value = run(frame)
        frame[METER].charge(cost)
        return value

    return run_and_charge if cost else run


class CostedPlanner(Planner):
    """Plans as `Planner`, with a meter in the frame."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Slots of optMap's variables, which are computed when they are first read.
        self.late: dict[int, tuple[int, Run]] = {}

    def plan(self, node: ast.Expr) -> Run:
        if self.constants.of(node)[0]:
            return super().plan(node)
        match node:
            case ast.Ident():
                return charged(self.ident(node), 1)
            case ast.Select() | ast.Index() | ast.Has() | ast.Conditional():
                return charged(self.attribute(node), root_cost(node))
            case ast.ListLiteral():
                return charged(super().plan(node), LIST_COST)
            case ast.MapLiteral():
                return charged(super().plan(node), MAP_COST)
            case ast.Struct():
                return charged(super().plan(node), STRUCT_COST)
            case _:
                return super().plan(node)

    # -- attributes: each qualifier costs 1

    def ident(self, node: ast.Ident) -> Run:
        run = super().ident(node)
        late = self.late.get(self.slot(node) or 0)
        if late is None:
            return run
        read_slot, target = late

        def run_late(frame: Frame) -> Value:
            if not frame[read_slot]:
                frame[read_slot] = True
                target(frame)  # `target.value()`
                frame[METER].charge(1)
            return run(frame)

        return run_late

    def unrooted(self, node: ast.Expr) -> Run:
        """The closure of a node whose root is not charged."""
        if self.constants.of(node)[0]:
            return self.plan(node)
        match node:
            case ast.Ident():
                return self.ident(node)
            case ast.Select() | ast.Index() | ast.Has() | ast.Conditional():
                return self.attribute(node)
            case _:
                return self.plan(node)

    def attribute(self, node: ast.Expr) -> Run:
        match node:
            case ast.Select(operand=operand, field=field, optional=optional):
                whole = self.dotted(node)
                if whole is not None:
                    return whole
                return qualified(self.unrooted(operand), lambda frame: field, select, select_optional, optional)
            case ast.Has(operand=operand, field=field):
                return presence(self.unrooted(operand), field)
            case ast.Index(operand=operand, key=key, optional=optional):
                self.constants.check_key(node)
                return qualified(self.unrooted(operand), self.unrooted(key), index, index_optional, optional)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return conditional(self.plan(condition), self.unrooted(then), self.unrooted(otherwise))
            case _:
                return self.plan(node)

    # -- calls

    def call(self, node: ast.Call) -> Run:
        function, nodes = self.names.function(node)
        membership = self.constants.membership(node)
        if membership is not None:
            return member_of(self.plan(node.arguments[0]), membership)
        arguments = [self.plan(argument) for argument in nodes]
        if function.name in ("or", "orValue") and len(arguments) == 2:
            return alternative(arguments[0], arguments[1], function.name == "orValue")
        return metered_call(function, arguments, self.cost_of(function, node))

    def cost_of(self, function: Function, node: ast.Call | ast.Comprehension) -> Cost | None:
        """What a call costs; None stands for 1."""
        overloads = self.constants.overloads.get(node.id) or [each.id for each in function.overloads]
        known = PRICES.get(overloads[0]) if len(overloads) == 1 else None
        return function.cost if known is None else known

    # -- macros

    def comprehension(self, node: ast.Comprehension) -> Run:
        over = self.plan(node.range)
        if node.macro == "sortBy":
            (slot, kept), before = self.bind((*node.variables, "@sortBy"))
            loop = metered_loop("map", [slot], [self.plan(node.arguments[0])])
            # The range is read twice by name: to be mapped to its keys, and to be sorted.
            keys = charged(folds.loop_over(lambda frame: frame[kept], loop, two_variables=False), 2)
            self.slots = before
            function = self.names.functions["@sortByAssociatedKeys"]
            return metered_sort(over, kept, keys, function, self.cost_of(function, node))
        slots, before = self.bind(node.variables)
        arguments = [self.plan(argument) for argument in node.arguments]
        self.slots = before
        return folds.loop_over(over, metered_loop(node.macro, slots, arguments), len(slots) == 2)

    def optional_map(self, node: ast.OptionalMap) -> Run:
        target = self.plan(node.target)
        (slot, read_slot), before = self.bind((node.variable, "@read"))
        self.late[slot] = (read_slot, target)
        body = self.plan(node.body)
        self.slots = before
        return metered_optional_map(target, slot, read_slot, body, node.flat)


def root_cost(node: ast.Expr) -> int:
    """What the root of a selection costs: 1, nothing below a conditional, and `has` takes 1 off (Kubernetes makes it free)."""
    cost = -1 if isinstance(node, ast.Has) else 0
    while isinstance(node, ast.Select | ast.Index | ast.Has):
        node = node.operand
    return cost if isinstance(node, ast.Conditional) else cost + 1


def qualified(operand: Run, key: Run, plain: LookUp, present: LookUp, optional: bool) -> Run:
    """A selection or index. In an optional chain only what is there is charged."""

    def run(frame: Frame) -> Value:
        value = operand(frame)
        if value.__class__ in FAILED or value is NONE:
            return value
        wanted = key(frame)
        tests = optional or value.__class__ is Optional
        try:
            result = (present if tests else plain)(value, wanted)
        except CelError as problem:
            result = problem.with_traceback(None)
        if not tests or (result.__class__ is not CelError and result is not NONE):
            frame[METER].charge(1)
        return result

    return run


def presence(operand: Run, field: str) -> Run:
    """`has()`: the test is charged as a qualifier, and only where it says yes if the operand is an optional."""

    def run(frame: Frame) -> Value:
        value = operand(frame)
        if value.__class__ in FAILED:
            return value
        try:
            result: Value = has(value, field)
        except CelError as problem:
            result = problem.with_traceback(None)
        if value.__class__ is not Optional or result is True:
            frame[METER].charge(1)
        return result

    return run


def measurable(value: Value) -> Value:
    """A value for cost functions: cel-go gives whatever failed the size of a scalar."""
    return None if value.__class__ in FAILED else value


def metered_call(function: Function, arguments: list[Run], cost: Cost | None) -> Run:
    """A call that is charged once all its arguments were evaluated, failed or not."""
    apply = application(function)

    def run(frame: Frame) -> Value:
        values, failure = evaluate_arguments(arguments, frame)
        result = apply(*values) if failure is None else failure
        if len(values) == len(arguments):
            frame[METER].charge(1 if cost is None else cost(tuple(map(measurable, values)), measurable(result)))
        return result

    return run


def metered_loop(macro: str, slots: list[int], arguments: list[Run]) -> folds.Loop:
    """The loop of a macro with the cost of the steps into which cel-go expands it."""
    *conditions, last = arguments
    match macro:
        case "all" | "exists":
            return _quantifier(macro == "exists", slots, last)
        case "exists_one":  # `accumulated + 1`, and `accumulated == 1` in the end
            return _finished(folds.loop(macro, slots, [_if_true(last, 2)]), 2)
        case "filter":  # `accumulated + [x]`
            return _finished(folds.loop(macro, slots, [_if_true(last, 3 + LIST_COST)]), 1)
        case "map" | "transformList":  # `accumulated + [...]`
            return _finished(folds.loop(macro, slots, [*conditions, _after(last, 2 + LIST_COST)]), 1)
        case "transformMap":  # `insert(accumulated, key, ...)`
            return _finished(_transform_map(slots, [*conditions, _after(last, 3)]), 1)
        case _:  # `insert(accumulated, ...)`
            return _finished(folds.loop(macro, slots, [*conditions, _after(last, 2)]), 1)


def _quantifier(decisive: bool, slots: list[int], predicate: Run) -> folds.Loop:
    """`all` and `exists`, which read the accumulator before each item to see whether to go on, and once more in the end."""
    put = folds.assign(slots)
    look = 3 if decisive else 2

    def run(frame: Frame, items: Iterable[Any]) -> Value:
        undecided: Undecided | None = None
        meter = frame[METER]
        remaining = iter(items)
        for item in remaining:
            put(frame, item)
            meter.charge(look + 1)
            value = predicate(frame)
            if value is decisive:
                meter.charge(1 + (look if any(True for _ in remaining) else 0))
                return decisive
            if value.__class__ is not bool:
                if undecided is None:
                    undecided = Undecided(value)
                else:
                    undecided.note(value)
        meter.charge(1)
        return not decisive if undecided is None else undecided.outcome()

    return run


def _transform_map(slots: list[int], arguments: list[Run]) -> folds.Loop:
    """`transformMap`: once it has failed, only the accumulator is still read."""

    def add(frame: Frame, collected: Value, part: Any) -> Value:
        if collected.__class__ in FAILED:
            frame[METER].charge(1)
        return folds.add_entry(frame, collected, part)

    return folds.transforming(CelMap, add, folds.plain)(slots, arguments)


def _finished(loop: folds.Loop, cost: int) -> folds.Loop:
    def run(frame: Frame, items: Iterable[Any]) -> Value:
        value = loop(frame, items)
        frame[METER].charge(cost)
        return value

    return run


def _if_true(condition: Run, cost: int) -> Run:
    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            frame[METER].charge(cost)
        return value

    return run


_after = charged


def metered_sort(over: Run, slot: int, keys: Run, function: Function, cost: Cost | None) -> Run:
    """`sortBy`: what it costs to map to keys, and what sorting by them costs."""
    plain = sort_by(over, slot, keys, function)

    def run(frame: Frame) -> Value:
        value = plain(frame)
        listed = measurable(frame[slot])
        frame[METER].charge(1 if cost is None else cost((listed, listed), measurable(value)))
        return value

    return run


def metered_optional_map(target: Run, slot: int, read_slot: int, body: Run, flat: bool) -> Run:
    """`target.hasValue() ? optional.of(body) : optional.none()`, where the variable stands for `target.value()`, computed when
    read.
    """
    plain = optional_map_of(target, slot, body if flat else charged(body, 1), flat)

    def run(frame: Frame) -> Value:
        frame[slot] = frame[METER]  # Stands for "no value" until the target has given one.
        frame[read_slot] = False
        value = plain(frame)
        has_none = frame[slot] is frame[METER] and value is NONE
        frame[METER].charge(2 if has_none else 1)
        return value

    return run
