"""The costed tier: the exact tier's closures, with a meter that adds the cost of each step (cel-go interpreter/runtimecost.go).

cel-go observes the steps of its expanded, folded plan. Macros are not expanded here, so each adds the cost of its expansion. This
covers reading the accumulator and the loop condition, building one-element lists, and so on. Two rules are less obvious. First,
a selection may be a branch of `?:` or an index. cel-go does not observe the name at its root, so this name is free. Second, the
cost of a call depends on the overload only if the checker could resolve it. Calls whose overload is found at run time cost 1.
"""

from __future__ import annotations

from typing import Any

from .. import ast
from ..evaluation import folds
from ..evaluation.attributes import index, index_optional, select, select_optional
from ..evaluation.exact import Planner
from ..evaluation.frames import METER, Frame, Run
from ..evaluation.steps import alternative, conditional, member_of
from ..functions import Function
from ..library.costs import Cost
from ..values import Value
from .metered import (
    LIST_COST,
    MAP_COST,
    STRUCT_COST,
    charged,
    metered_call,
    metered_loop,
    metered_optional_map,
    metered_sort,
    presence,
    qualified,
)

EXCEEDED = "operation cancelled: actual cost limit exceeded"


class CostedPlanner(Planner):
    """Plans as `Planner`, with a meter in the frame."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Slots of optMap's variables, whose values are computed on first read.
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
            return alternative(arguments[0], arguments[1], function)
        return metered_call(function, arguments, self.cost_of(function, node))

    def cost_of(self, function: Function, node: ast.Call | ast.Comprehension) -> Cost | None:
        """The cost function of a call; None stands for 1."""
        overloads = self.constants.overloads.get(node.id) or [each.id for each in function.overloads]
        known = self.names.prices.get(overloads[0]) if len(overloads) == 1 else None
        return function.cost if known is None else known

    # -- macros

    def comprehension(self, node: ast.Comprehension) -> Run:
        over = self.plan(node.range)
        if node.macro == "sortBy":
            (slot, kept), before = self.bind((*node.variables, "@sortBy"))
            loop = metered_loop("map", [slot], [self.plan(node.arguments[0])])
            # The range is read twice by name: for the mapping to its keys, and for sorting.
            keys = charged(folds.loop_over(lambda frame: frame[kept], loop, two_variables=False), 2)
            self.slots = before
            function = self.names.functions["@sortByAssociatedKeys"]
            return metered_sort(over, kept, keys, function, self.cost_of(function, node))
        slots, before = self.bind(node.variables)
        arguments = [self.plan(argument) for argument in node.arguments]
        self.slots = before
        item_cost = 0 if self.constants.of(node.arguments[-1])[0] else LIST_COST
        return folds.loop_over(over, metered_loop(node.macro, slots, arguments, item_cost), len(slots) == 2)

    def optional_map(self, node: ast.OptionalMap) -> Run:
        target = self.plan(node.target)
        (slot, read_slot), before = self.bind((node.variable, "@read"))
        self.late[slot] = (read_slot, target)
        body = self.plan(node.body)
        self.slots = before
        return metered_optional_map(target, slot, read_slot, body, node.flat)


def root_cost(node: ast.Expr) -> int:
    """The cost of a selection's root: 1, nothing below a conditional, and `has` takes 1 off (Kubernetes makes it free)."""
    cost = -1 if isinstance(node, ast.Has) else 0
    while isinstance(node, ast.Select | ast.Index | ast.Has):
        node = node.operand
    return cost if isinstance(node, ast.Conditional) else cost + 1
