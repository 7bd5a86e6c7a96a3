"""Steps of the costed tier, which add their cost to the meter in the frame (cel-go interpreter/runtimecost.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ..evaluation import folds
from ..evaluation.attributes import has
from ..evaluation.calls import application, evaluate_arguments
from ..evaluation.frames import FAILED, METER, Frame, Run
from ..evaluation.steps import optional_map_of, sort_by
from ..evaluation.undecided import Undecided
from ..functions import Function
from ..library.costs import Cost
from ..values import NONE, CelError, CelMap, Optional, Unknown, Value
from .sizes import Room, TooLargeError

LookUp: TypeAlias = Callable[[Value, Any], Value]

LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40
# From this length on, testing the cost of a call before it runs saves time.
_LARGE = 10_000


class LimitExceededError(Exception):
    """The meter has passed its limit; evaluation stops."""


class Meter:
    """The cost of an evaluation so far, and its room for new values."""

    __slots__ = ("cost", "limit", "room")

    def __init__(self, limit: int, room: Room | None = None) -> None:
        self.cost = 0
        self.limit = limit
        self.room = room or Room()

    def charge(self, cost: int) -> None:
        """Adds to the cost. Raises LimitExceededError beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise LimitExceededError

    def test(self, cost: int) -> None:
        """Raises LimitExceededError if a further charge of this cost is sure to exceed the limit."""
        # The size of a result is not known yet, so it counts as one element, which is one more than an empty result has.
        if self.cost + cost - 1 > self.limit:
            self.charge(cost)


def charged(run: Run, cost: int) -> Run:
    """Runs `run`, then charges its cost for every outcome."""

    def run_and_charge(frame: Frame) -> Value:
        value = run(frame)
        # As `charge`, without the call: a runaway expression comes here a million times.
        meter = frame[METER]
        meter.cost += cost
        if meter.cost > meter.limit:
            raise LimitExceededError
        return value

    return run_and_charge if cost else run


def qualified(operand: Run, key: Run, plain: LookUp, present: LookUp, optional: bool) -> Run:
    """A selection or index. In an optional chain only a key that is present is charged."""

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
    """`has()`: the test is charged as a qualifier; if the operand is an optional, only a test that is true is charged."""

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
    """A value for cost functions: cel-go gives every failed value the size of a scalar."""
    return None if value.__class__ in FAILED else value


def metered_call(function: Function, arguments: list[Run], cost: Cost | None) -> Run:
    """A call that is charged after all its arguments were evaluated, failed or not."""
    apply = application(function)
    if len(arguments) == 2:
        return _metered_binary(apply, arguments[0], arguments[1], cost)

    def run(frame: Frame) -> Value:
        values, failure = evaluate_arguments(arguments, frame)
        meter = frame[METER]
        if failure is None:
            if cost is not None and any(map(_is_large, values)):
                # The minimum cost of a call is charged before the call takes much time or memory.
                meter.test(cost(tuple(values), None))
            try:
                result = apply(*values)
            except TooLargeError as problem:
                meter.charge(1 if cost is None else cost(tuple(values), problem))
                raise
            # A value that a call only passes on is not new.
            if all(result is not value for value in values):
                meter.room.take(result)
        else:
            result = failure
        if len(values) == len(arguments):
            meter.charge(1 if cost is None else cost(tuple(map(measurable, values)), measurable(result)))
        return result

    return run


def _metered_binary(apply: Callable[..., Value], first: Run, second: Run, cost: Cost | None) -> Run:
    """The same for two arguments, which most calls have, in half the time."""

    def run(frame: Frame) -> Value:
        left, right = first(frame), second(frame)
        meter = frame[METER]
        if left.__class__ in FAILED or right.__class__ in FAILED:
            meter.charge(1 if cost is None else cost((measurable(left), measurable(right)), None))
            if left.__class__ is right.__class__ is Unknown:
                return left.merge(right)
            return left if left.__class__ in FAILED else right
        if cost is not None and (_is_large(left) or _is_large(right)):
            meter.test(cost((left, right), None))
        try:
            result = apply(left, right)
        except TooLargeError as problem:
            meter.charge(1 if cost is None else cost((left, right), problem))
            raise
        if result is not True and result is not False and result is not left and result is not right:
            meter.room.take(result)
        meter.charge(1 if cost is None else cost((left, right), measurable(result)))
        return result

    return run


def _is_large(value: Value) -> bool:
    return (value.__class__ is str or value.__class__ is list or value.__class__ is bytes) and len(value) > _LARGE


def metered_loop(macro: str, slots: list[int], arguments: list[Run], item_cost: int = LIST_COST) -> folds.Loop:
    """The loop of a macro, with the cost of the steps of its cel-go expansion.

    `item_cost` is the cost of the one-element list that `map` adds. It is 0 where the element is a constant, as for any constant
    list.
    """
    *conditions, last = arguments
    match macro:
        case "all" | "exists":
            return _quantifier(macro == "exists", slots, last)
        case "exists_one":  # `accumulated + 1`, and finally `accumulated == 1`
            return _finished(folds.loop(macro, slots, [_if_true(last, 2)]), 2)
        case "filter":  # `accumulated + [x]`
            return _finished(folds.loop(macro, slots, [_if_true(last, 3 + LIST_COST)]), 1)
        case "map" | "transformList":  # `accumulated + [...]`
            return _finished(folds.loop(macro, slots, [*conditions, _after(last, 2 + item_cost)]), 1)
        case "transformMap":  # `insert(accumulated, key, ...)`
            return _finished(_transform_map(slots, [*conditions, _after(last, 3)]), 1)
        case _:  # `insert(accumulated, ...)`
            return _finished(folds.loop(macro, slots, [*conditions, _after(last, 2)]), 1)


def _quantifier(decisive: bool, slots: list[int], predicate: Run) -> folds.Loop:
    """`all` and `exists`: they read the accumulator before each item to decide whether to go on, and once more at the end."""
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
    """`transformMap`: after a failure, it only reads the accumulator."""

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
    """`sortBy`: the cost of the mapping to keys, and the cost of sorting by them."""
    plain = sort_by(over, slot, keys, function)

    def run(frame: Frame) -> Value:
        value = plain(frame)
        listed = measurable(frame[slot])
        frame[METER].charge(1 if cost is None else cost((listed, listed), measurable(value)))
        return value

    return run


def metered_optional_map(target: Run, slot: int, read_slot: int, body: Run, flat: bool) -> Run:
    """`target.hasValue() ? optional.of(body) : optional.none()`, where the variable stands for `target.value()`, computed on first
    read.
    """
    plain = optional_map_of(target, slot, body if flat else charged(body, 1), flat)

    def run(frame: Frame) -> Value:
        frame[slot] = frame[METER]  # Stands for "no value" until the target has a value.
        frame[read_slot] = False
        value = plain(frame)
        has_none = frame[slot] is frame[METER] and value is NONE
        frame[METER].charge(2 if has_none else 1)
        return value

    return run
