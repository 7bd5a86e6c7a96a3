"""The exact tier: an expression as closures that mirror cel-go's interpreter one to one.

Errors and unknowns are values here, as they are in cel-go, and travel up until an operator absorbs them. Constants are folded and
functions resolved when the closures are made, not when they run. `Planner` decides what is planned; what a node does at run time is
written beside it. The costed tier (`costed.py`) is a planner that adds to the meter around the same closures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from . import ast, folds
from .attributes import has, index, index_optional, select, select_optional
from .constants import Constants
from .equality import UnknownOperandError, compare, equal, search, unknown_within
from .functions import Function
from .messages import construct
from .names import Names
from .undecided import Undecided
from .values import NONE, CelError, CelMap, Optional, Unknown, Value, no_such_overload

# A run-time context: [activation, meter, loop variables...]. Every node is a function of it.
Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Value]

ACTIVATION, METER, FIRST_SLOT = 0, 1, 2
FAILED: Final = frozenset((Unknown, CelError))
# These hand on what they are given without looking into it, so an unknown deep inside does not concern them.
_BLIND_OPTIONALS = ("optional.of", "optional.ofNonZeroValue", "optional.none", "hasValue", "value", "or", "orValue", "unwrapOpt")
BLIND: Final = frozenset(("size", "type", "dyn", "_+_", "slice", "reverse", "optional.unwrap", *_BLIND_OPTIONALS))


class Planner:
    """Makes the closure of each node. One planner serves one expression."""

    def __init__(self, names: Names, constants: Constants) -> None:
        self.names = names
        self.constants = constants
        self.slots: dict[str, int] = {}
        self.slot_count = FIRST_SLOT

    def plan(self, node: ast.Expr) -> Run:
        """The closure of a node whose value is wanted."""
        found, value = self.constants.of(node)
        if found:
            return lambda frame: value
        match node:
            case ast.Ident():
                return self.ident(node)
            case ast.Select() | ast.Index() | ast.Has() | ast.Conditional():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.And(terms=terms):
                return all_of([self.plan(term) for term in terms])
            case ast.Or(terms=terms):
                return any_of([self.plan(term) for term in terms])
            case ast.ListLiteral(elements=elements, optional=optional):
                return list_of([(self.plan(element), at in optional) for at, element in enumerate(elements)])
            case ast.MapLiteral(entries=entries):
                return map_of([(self.plan(each.key), self.plan(each.value), each.optional) for each in entries])
            case ast.Struct(name=name, entries=entries):
                return struct_of(name, [(str(each.key.value), self.plan(each.value), each.optional) for each in entries])  # type: ignore[union-attr]
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.OptionalMap():
                return self.optional_map(node)
            case _:
                raise TypeError(f"{node.__class__.__name__} is a constant and was not folded")

    # -- names and what is selected from them

    def ident(self, node: ast.Ident) -> Run:
        slot = self.slot(node)
        return variable(node.name.lstrip(".")) if slot is None else lambda frame: frame[slot]

    def slot(self, node: ast.Ident) -> int | None:
        """Where the frame has a loop variable; None for variables of the activation."""
        name = self.names.local(node.name)
        return None if name is None else self.slots.get(name)

    def dotted(self, node: ast.Expr) -> Run | None:
        """The variable whose name has dots that this chain of selections spells, if one is declared."""
        name = self.names.dotted_variable(node)
        return None if name is None or name.partition(".")[0] in self.slots else variable(name)

    def attribute(self, node: ast.Expr) -> Run:
        """A node that cel-go plans as an attribute: selections, indexes and presence tests on a root."""
        match node:
            case ast.Select(operand=operand, field=field, optional=optional):
                whole = self.dotted(node)
                if whole is not None:
                    return whole
                return (select_optional_of if optional else select_of)(self.plan(operand), field)
            case ast.Has(operand=operand, field=field):
                return has_of(self.plan(operand), field)
            case ast.Index(operand=operand, key=key, optional=optional):
                self.constants.check_key(node)
                return index_of(self.plan(operand), self.plan(key), index_optional if optional else index)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return conditional(self.plan(condition), self.plan(then), self.plan(otherwise))
            case _:
                return self.plan(node)

    # -- calls

    def call(self, node: ast.Call) -> Run:
        function, arguments = self.names.function(node)
        membership = self.constants.membership(node)
        if membership is not None:
            return member_of(self.plan(node.arguments[0]), membership)
        if function.name in ("or", "orValue") and len(arguments) == 2:
            return alternative(self.plan(arguments[0]), self.plan(arguments[1]), function.name == "orValue")
        return call_of(function, [self.plan(argument) for argument in arguments])

    # -- macros

    def bind(self, names: Sequence[str]) -> tuple[list[int], dict[str, int]]:
        """Slots for new variables, and the names as they were before."""
        before = dict(self.slots)
        slots = list(range(self.slot_count, self.slot_count + len(names)))
        self.slot_count += len(names)
        self.slots.update(zip(names, slots, strict=True))
        return slots, before

    def comprehension(self, node: ast.Comprehension) -> Run:
        over = self.plan(node.range)
        if node.macro == "sortBy":
            (slot, kept), before = self.bind((*node.variables, "@sortBy"))
            loop = folds.loop("map", [slot], [self.plan(node.arguments[0])])
            keys = folds.loop_over(lambda frame: frame[kept], loop, two_variables=False)
            self.slots = before
            return sort_by(over, kept, keys, self.names.functions["@sortByAssociatedKeys"])
        slots, before = self.bind(node.variables)
        arguments = [self.plan(argument) for argument in node.arguments]
        self.slots = before
        return folds.loop_over(over, folds.loop(node.macro, slots, arguments), len(slots) == 2)

    def optional_map(self, node: ast.OptionalMap) -> Run:
        target = self.plan(node.target)
        slots, before = self.bind((node.variable,))
        body = self.plan(node.body)
        self.slots = before
        return optional_map_of(target, slots[0], body, node.flat)


def variable(name: str) -> Run:
    """A variable of the activation, which may be an error or unknown as a whole."""

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
    """`&&`: false if any term is; then unknown beats error, and the first error counts (cel-go interpreter.evalAnd)."""
    return _logical(terms, decisive=False)


def any_of(terms: list[Run]) -> Run:
    """`||`: true if any term is."""
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


def evaluate_arguments(arguments: list[Run], frame: Frame) -> tuple[list[Value], Value]:
    """The values of the arguments, and what stands in for the result if one of them failed (None if none did).

    As in cel-go, one or two arguments are always evaluated, of three and more only those up to the first that fails. The first
    failure counts; unknowns are merged, because all of them are needed.
    """
    values: list[Value] = []
    failure: Value = None
    for argument in arguments:
        value = argument(frame)
        values.append(value)
        if value.__class__ in FAILED:
            if failure is None:
                failure = value
            elif failure.__class__ is Unknown and value.__class__ is Unknown:
                failure = failure.merge(value)
            if len(arguments) > 2:
                break
    return values, failure


def call_of(function: Function, arguments: list[Run]) -> Run:
    apply = application(function)
    if len(arguments) == 1:
        (only,) = arguments

        def run_unary(frame: Frame) -> Value:
            value = only(frame)
            return value if value.__class__ in FAILED else apply(value)

        return run_unary
    if len(arguments) == 2:
        first, second = arguments

        def run_binary(frame: Frame) -> Value:
            left, right = first(frame), second(frame)
            if left.__class__ in FAILED:
                return left.merge(right) if left.__class__ is right.__class__ is Unknown else left
            return right if right.__class__ in FAILED else apply(left, right)

        return run_binary

    def run(frame: Frame) -> Value:
        values, failure = evaluate_arguments(arguments, frame)
        return apply(*values) if failure is None else failure

    return run


def application(function: Function) -> Callable[..., Value]:
    """The function on values that did not fail; its errors become values, and unknowns deep inside the arguments its result."""
    special = _COMPARISONS.get(function.name)
    call = function.call if special is None else special
    sees_all = special is None and function.name not in BLIND

    def apply(*values: Value) -> Value:
        try:
            if sees_all:
                for value in values:
                    if value.__class__ in CONTAINERS:
                        unknown = unknown_within(value)
                        if unknown is not None:
                            return unknown
            return call(*values)
        except CelError as problem:
            return problem.with_traceback(None)

    return apply


CONTAINERS: Final = frozenset((list, dict, CelMap, Optional))


def equality(left: Value, right: Value) -> Value:
    """`==` where unknowns may stand inside."""
    try:
        return equal(left, right)
    except UnknownOperandError:
        return compare(left, right)


def inequality(left: Value, right: Value) -> Value:
    """`!=`: an error of the comparison counts as unequal (cel-go interpreter.evalNe)."""
    try:
        same = equality(left, right)
    except CelError:
        return True
    return same if same.__class__ is Unknown else not same


_COMPARISONS: Mapping[str, Callable[[Value, Value], Value]] = {"_==_": equality, "_!=_": inequality, "@in": search}


def alternative(option: Run, other: Run, unwrap: bool) -> Run:
    """`option.or(other)` and `option.orValue(other)`, which look at the other only if it is needed (cel-go cel/library.go)."""

    def run(frame: Frame) -> Value:
        value = option(frame)
        if value.__class__ in FAILED:
            return value
        if value.__class__ is not Optional:
            return no_such_overload()
        if value.has_value:
            return value.value if unwrap else value
        return other(frame)

    return run


def member_of(element: Run, members: Callable[[Value], bool]) -> Run:
    """`element in [constants]`, which cel-go turns into a look-up in a set."""

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
                    return CelError(f"cannot initialize optional list element from non-optional value {value}")
                if not value.has_value:
                    continue
                value = value.value
            result.append(value)
        return result

    return run


def map_of(entries: list[tuple[Run, Run, bool]]) -> Run:
    def run(frame: Frame) -> Value:
        result = CelMap()
        plain = True
        for key_of, value_of, optional in entries:
            key = key_of(frame)
            if key.__class__ in FAILED:
                return key
            value = value_of(frame)
            if value.__class__ in FAILED:
                return value
            if optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
                if not value.has_value:
                    result.entries.pop(CelMap.slot(key), None)
                    continue
                value = value.value
            plain = plain and key.__class__ is str
            result.entries[CelMap.slot(key)] = (key, value)
        return dict(result.entries.values()) if plain else result

    return run


def struct_of(name: str, fields: list[tuple[str, Run, bool]]) -> Run:
    def run(frame: Frame) -> Value:
        values: dict[str, Value] = {}
        for field, value_of, optional in fields:
            value = value_of(frame)
            if value.__class__ in FAILED:
                return value
            if optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional entry '{field}' from non-optional value {value}")
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
