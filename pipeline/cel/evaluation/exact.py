"""The exact tier: an expression as closures that mirror cel-go's interpreter one to one.

Constants are folded and functions resolved when the closures are made, not when they run. `Planner` plans the nodes; `steps.py`,
`calls.py` and `folds.py` run them. The costed tier (`costed.py`) is a planner that puts a meter around the same closures.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import ast
from ..checking.constants import Constants
from ..checking.names import Names
from . import folds
from .attributes import index, index_optional
from .calls import call_of
from .frames import FIRST_SLOT, Run
from .steps import (
    all_of,
    alternative,
    another,
    any_of,
    conditional,
    has_of,
    index_of,
    list_of,
    map_of,
    member_of,
    optional_map_of,
    select_of,
    select_optional_of,
    sort_by,
    struct_of,
    variable,
)


class Planner:
    """Makes the closure of each node. One planner serves one expression."""

    def __init__(self, names: Names, constants: Constants) -> None:
        self.names = names
        self.constants = constants
        self.slots: dict[str, int] = {}
        self.slot_count = FIRST_SLOT

    def plan(self, node: ast.Expr) -> Run:
        """The closure that computes the value of a node."""
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
                return map_of([(self.key(each.key), self.plan(each.value), each.optional) for each in entries])
            case ast.Struct(name=name, entries=entries):
                return struct_of(name, [(str(each.key.value), self.plan(each.value), each.optional) for each in entries])  # type: ignore[union-attr]
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.OptionalMap():
                return self.optional_map(node)
            case _:
                raise TypeError(f"{node.__class__.__name__} is a constant and was not folded")

    def key(self, node: ast.Expr) -> Run:
        """The key of a map literal. Loop variables and `variables.x` hold one value; a server reads other names again each time."""
        run = self.plan(node)
        is_kept = isinstance(node, ast.Ident) and node.name in self.slots
        if isinstance(node, ast.Select):
            is_kept = isinstance(node.operand, ast.Ident) and node.operand.name == "variables"
        return run if is_kept or not isinstance(node, ast.Ident | ast.Select | ast.Index) else another(run)

    # -- names and selections from them

    def ident(self, node: ast.Ident) -> Run:
        slot = self.slot(node)
        return variable(node.name.lstrip(".")) if slot is None else lambda frame: frame[slot]

    def slot(self, node: ast.Ident) -> int | None:
        """The frame slot of a loop variable; None for variables of the activation."""
        name = self.names.local(node.name)
        return None if name is None else self.slots.get(name)

    def dotted(self, node: ast.Expr) -> Run | None:
        """The declared variable with a dotted name that this chain of selections spells; None without one."""
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
            return alternative(self.plan(arguments[0]), self.plan(arguments[1]), function)
        return call_of(function, [self.plan(argument) for argument in arguments])

    # -- macros

    def bind(self, names: Sequence[str]) -> tuple[list[int], dict[str, int]]:
        """New slots for variables, and the previous bindings of the names."""
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
