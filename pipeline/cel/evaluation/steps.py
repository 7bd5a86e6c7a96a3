"""The steps of the exact tier for all nodes except calls and loops (cel-go interpreter/interpretable.go).

Each function here takes the steps of a node's parts and returns the node's own step. Errors and unknowns travel up as values until
an operator absorbs them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from ..costs.sizes import printed
from ..functions import Function
from ..values import NONE, CelError, CelMap, Optional, Value, no_such_overload
from .attributes import has, select, select_optional
from .calls import application
from .frames import ACTIVATION, FAILED, Frame, Run
from .messages import construct
from .undecided import Undecided


def variable(name: str) -> Run:
    """A variable of the activation, whose whole value may be an error or unknown."""

    def run(frame: Frame) -> Value:
        try:
            return frame[ACTIVATION][name]
        except KeyError:
            return CelError(f"no such attribute(s): {name}")
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def select_of(operand: Run, field: str) -> Run:
    def run(frame: Frame) -> Value:
        value = operand(frame)
        try:
            if value.__class__ is dict:
                return value[field]
            return select(value, field)
        except KeyError:
            return CelError(f"no such key: {field}")
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def select_optional_of(operand: Run, field: str) -> Run:
    def run(frame: Frame) -> Value:
        try:
            return select_optional(operand(frame), field)
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def has_of(operand: Run, field: str) -> Run:
    def run(frame: Frame) -> Value:
        try:
            return has(operand(frame), field)
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def index_of(operand: Run, key: Run, look_up: Callable[[Value, Value], Value]) -> Run:
    def run(frame: Frame) -> Value:
        value = operand(frame)
        if value.__class__ in FAILED:
            return value
        try:
            return look_up(value, key(frame))
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        return value if value.__class__ in FAILED else no_such_overload()

    return run


def all_of(terms: list[Run]) -> Run:
    """`&&`: false if any term is false; otherwise unknown beats error, and the first error counts (cel-go interpreter.evalAnd)."""
    return _logical(terms, decisive=False)


def any_of(terms: list[Run]) -> Run:
    """`||`: true if any term is true."""
    return _logical(terms, decisive=True)


def _logical(terms: list[Run], decisive: bool) -> Run:
    def run(frame: Frame) -> Value:
        undecided: Undecided | None = None
        for term in terms:
            value = term(frame)
            if value is decisive:
                return decisive
            if value.__class__ is not bool:
                if undecided is None:
                    undecided = Undecided(value)
                else:
                    undecided.note(value)
        return not decisive if undecided is None else undecided.outcome()

    return run


def alternative(option: Run, other: Run, function: Function) -> Run:
    """`option.or(other)` and `option.orValue(other)`, which evaluate the other only if it is needed (cel-go cel/library.go)."""
    apply = application(function)

    def run(frame: Frame) -> Value:
        value = option(frame)
        if value.__class__ in FAILED:
            return value
        if value.__class__ is Optional and not value.has_value:
            return other(frame)
        return apply(value, None)

    return run


def member_of(element: Run, members: Callable[[Value], bool]) -> Run:
    """`element in [constants]`, which cel-go turns into a lookup in a set."""

    def run(frame: Frame) -> Value:
        value = element(frame)
        return value if value.__class__ in FAILED else members(value)

    return run


def list_of(elements: list[tuple[Run, bool]]) -> Run:
    def run(frame: Frame) -> Value:
        result: list[Value] = []
        for element, optional in elements:
            value = element(frame)
            if value.__class__ in FAILED:
                return value
            if optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional list element from non-optional value {printed(value)}")
                if not value.has_value:
                    continue
                value = value.value
            result.append(value)
        return result

    return run


def map_of(entries: list[tuple[Run, Run, bool]]) -> Run:
    def run(frame: Frame) -> Value:
        result = CelMap()
        for key_of, value_of, optional in entries:
            key = key_of(frame)
            if key.__class__ in FAILED:
                return key
            value = value_of(frame)
            if value.__class__ in FAILED:
                return value
            try:
                failed = _put(result, key, value, optional)
            except CelError as problem:
                return problem.with_traceback(None)
            if failed is not None:
                return failed
        return dict(result.entries.values()) if all(key.__class__ is str for key in result) else result

    return run


def _put(result: CelMap, key: Value, value: Value, optional: bool) -> CelError | None:
    """Set an entry, or remove that of an optional without a value. Raises CelError for a key that a server cannot hash."""
    slot = CelMap.slot(key)
    if optional:
        if value.__class__ is not Optional:
            return CelError(f"cannot initialize optional entry '{key}' from non-optional value {printed(value)}")
        if not value.has_value:
            result.entries.pop(slot, None)
            return None
        value = value.value
    result.entries[slot] = (key, value)
    return None


def another(run: Run) -> Run:
    """A list or map that a server makes again at each read of the data: as the key of a map it equals no other."""

    def copied(frame: Frame) -> Value:
        value = run(frame)
        return copy(value) if isinstance(value, list | dict) else value

    return copied


def struct_of(name: str, fields: list[tuple[str, Run, bool]]) -> Run:
    def run(frame: Frame) -> Value:
        values: dict[str, Value] = {}
        for field, value_of, optional in fields:
            value = value_of(frame)
            if value.__class__ in FAILED:
                return value
            if optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional entry '{field}' from non-optional value {printed(value)}")
                if not value.has_value:
                    values.pop(field, None)
                    continue
                value = value.value
            values[field] = value
        try:
            return construct(name, values)
        except CelError as problem:
            return problem.with_traceback(None)

    return run


def sort_by(over: Run, slot: int, keys: Run, function: Function) -> Run:
    """`range.sortBy(x, key)`: the range is kept in a slot, mapped to its keys, and sorted by them (cel-go ext/lists.go)."""
    apply = application(function)

    def run(frame: Frame) -> Value:
        frame[slot] = over(frame)
        found = keys(frame)
        if frame[slot].__class__ in FAILED:
            return frame[slot]
        return found if found.__class__ in FAILED else apply(frame[slot], found)

    return run


def optional_map_of(target: Run, slot: int, body: Run, flat: bool) -> Run:
    def run(frame: Frame) -> Value:
        value = target(frame)
        if value.__class__ in FAILED:
            return value
        if value.__class__ is not Optional:
            return no_such_overload("hasValue", value)
        if not value.has_value:
            return NONE
        frame[slot] = value.value
        result = body(frame)
        return result if flat or result.__class__ in FAILED else Optional(result)

    return run
