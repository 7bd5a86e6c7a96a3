"""Which parts of its variables an expression can depend on, found by abstract interpretation of its syntax tree.

A `ReadSet` is sound: an activation that is cut down to it (`project`) gives the same result, errors and their texts included. It
keeps, of every node it names, the kind (null, scalar, list, map), which may decide by itself. What an expression does that is not
understood here, such as handing a value to a function, reads the whole of that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from . import ast
from .constants import Constants
from .names import Names
from .values import Value

# The nodes that a value may stand for; none for what is computed.
References: TypeAlias = tuple["Reads", ...]


@dataclass(eq=False)
class Reads:
    """What is read of one value, besides that it is there and of which kind.

    `whole` is everything; `fields` are keys of a map; `elements` is what is read of each element when a list is visited, and then
    every key of a map; `members` says that a list is looked through for a value.
    """

    whole: bool = False
    members: bool = False
    elements: Reads | None = None
    fields: dict[str, Reads] = field(default_factory=dict)

    def at(self, name: str) -> Reads:
        """The node of a field."""
        return self.fields.setdefault(name, Reads())

    def each(self) -> Reads:
        """The node of the elements."""
        if self.elements is None:
            self.elements = Reads()
        return self.elements

    def merge(self, other: Reads) -> None:
        """Reads what the other reads as well."""
        self.whole = self.whole or other.whole
        self.members = self.members or other.members
        if other.elements is not None:
            self.each().merge(other.elements)
        for name, node in other.fields.items():
            self.at(name).merge(node)

    def project(self, value: Value) -> Value:
        """The part of a value that is read."""
        if self.whole:
            return value
        if value.__class__ is list:
            if self.members:
                return value
            return [] if self.elements is None else [self.elements.project(each) for each in value]
        if value.__class__ is dict:
            if self.elements is not None:
                return value
            return {name: node.project(value[name]) for name, node in self.fields.items() if name in value}
        return value

    def paths(self, prefix: str) -> Iterator[str]:
        """Every path below, as `object.spec.containers[*].image`; `{}` marks what is only tested for its presence or kind."""
        if self.whole:
            yield prefix
            return
        below = [*(node.paths(f"{prefix}.{name}") for name, node in sorted(self.fields.items()))]
        if self.elements is not None:
            below.append(self.elements.paths(f"{prefix}[*]"))
        if self.members:
            yield f"{prefix}[*]"
        if not below and not self.members:
            yield f"{prefix}{{}}"
        for paths in below:
            yield from paths


class ReadSet:
    """The reads of one or several expressions, by variable. Not to be changed."""

    def __init__(self, root: Reads) -> None:
        self.root = root

    @classmethod
    def union(cls, *sets: ReadSet) -> ReadSet:
        """What any of several expressions reads."""
        root = Reads()
        for each in sets:
            root.merge(each.root)
        return cls(root)

    def variables(self) -> frozenset[str]:
        """The variables that are read at all."""
        return frozenset(self.root.fields)

    def of(self, variable: str) -> Reads:
        """What is read of one variable. Reads that nothing is read of if it is not among `variables`."""
        return self.root.fields.get(variable, Reads())

    def project(self, activation: Mapping[str, Value]) -> dict[str, Value]:
        """The activation cut down to what is read."""
        return {name: node.project(activation[name]) for name, node in self.root.fields.items() if name in activation}

    def paths(self) -> list[str]:
        """Every path, sorted."""
        return [path for name, node in sorted(self.root.fields.items()) for path in node.paths(name)]

    def __str__(self) -> str:
        return "\n".join(self.paths())


@dataclass(frozen=True)
class Analyzed:
    """What there is to know of an expression for its read set."""

    tree: ast.Expr
    names: Names
    constants: Constants


def read_set(expression: Analyzed, composed: Mapping[str, Analyzed] | None = None) -> ReadSet:
    """The read set of an expression whose result is looked at as a whole.

    `composed` are expressions that it may use as `variables.NAME`: what is read of their values is traced back to what those are
    made of. Every use that is found is traced; `variables` itself is named only where it is read in another way.
    """
    composition = _Composition(composed or {})
    _whole(composition.analysis(expression).visit(expression.tree, {}))
    return ReadSet(composition.root)


class _Composition:
    """The expressions that are analyzed together: they share the variables of the activation."""

    def __init__(self, composed: Mapping[str, Analyzed]) -> None:
        self.root = Reads()
        self._composed = composed
        self._values: dict[str, References | None] = {}

    def analysis(self, expression: Analyzed) -> _Analysis:
        return _Analysis(expression.names, expression.constants, self)

    def value_of(self, name: str) -> References | None:
        """What a composed expression's value may stand for; None if there is none of that name."""
        expression = self._composed.get(name)
        if expression is None:
            return None
        if name not in self._values:
            self._values[name] = None  # Should it be met within itself, it is read as `variables.NAME`.
            self._values[name] = self.analysis(expression).visit(expression.tree, {})
        return self._values[name]


def _whole(references: References) -> None:
    for node in references:
        node.whole = True


def _together(parts: Iterable[References]) -> References:
    """What any of these may stand for, each once. More than can be followed are taken as read whole."""
    found = {id(each): each for part in parts for each in part}
    references = tuple(found.values())
    if len(references) <= _FOLLOWED_MAX:
        return references
    _whole(references)
    return ()


# Variables that choose between parts of each other would double their number each time.
_FOLLOWED_MAX = 256
_SCALARS = (str, int, float, bool, bytes, None.__class__)
# Their result is, or holds, what they were given: of two lists that are added, the elements.
_PASSING = frozenset(("dyn", "optional.of", "value", "_+_"))
# These see of their arguments only what `Reads` always keeps: presence and kind.
_KIND_ONLY = frozenset(("type", "hasValue"))


class _Analysis:
    """Walks an expression once. `scope` maps loop variables to what they stand for."""

    def __init__(self, names: Names, constants: Constants, composition: _Composition) -> None:
        self.names = names
        self.constants = constants
        self.root = composition.root
        self.composition = composition

    def visit(self, node: ast.Expr, scope: Mapping[str, References]) -> References:
        """The nodes that the value may stand for. Whoever looks into the value marks them."""
        if self.constants.of(node)[0]:
            return ()
        match node:
            case ast.Ident(name=name):
                local = self.names.local(name) or ""
                return scope[local] if local in scope else (self.root.at(name.lstrip(".")),)
            case ast.Select(operand=operand, field=name) | ast.Has(operand=operand, field=name):
                return self.select(node, operand, name, scope)
            case ast.Index():
                return self.index(node, scope)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                self.visit(condition, scope)
                return _together((self.visit(then, scope), self.visit(otherwise, scope)))
            case ast.And(terms=terms) | ast.Or(terms=terms):
                for term in terms:
                    self.visit(term, scope)
                return ()
            case ast.Call():
                return self.call(node, scope)
            case ast.Comprehension():
                return self.comprehension(node, scope)
            case ast.OptionalMap(target=target, variable=variable, body=body):
                return self.visit(body, {**scope, variable: self.visit(target, scope)})
            case _:
                for child in ast.children(node):
                    _whole(self.visit(child, scope))
                return ()

    def select(self, node: ast.Expr, operand: ast.Expr, name: str, scope: Mapping[str, References]) -> References:
        dotted = self.names.dotted_variable(node)
        if dotted is not None and dotted.partition(".")[0] not in scope:
            return (self.root.at(dotted),)
        if isinstance(operand, ast.Ident) and operand.name == "variables" and "variables" not in scope:
            value = self.composition.value_of(name)
            if value is not None:
                return () if isinstance(node, ast.Has) else value
        found = tuple(each.at(name) for each in self.visit(operand, scope))
        return () if isinstance(node, ast.Has) else found

    def index(self, node: ast.Index, scope: Mapping[str, References]) -> References:
        holders = self.visit(node.operand, scope)
        found, key = self.constants.of(node.key)
        if found and key.__class__ is str:
            return tuple(holder.at(key) for holder in holders)
        if found and key.__class__ is int:
            return tuple(holder.each() for holder in holders)
        _whole(self.visit(node.key, scope))
        _whole(holders)
        return ()

    def call(self, node: ast.Call, scope: Mapping[str, References]) -> References:
        function, arguments = self.names.function(node)
        name = function.name
        if name in ("_==_", "_!=_"):
            return self.equality(arguments, scope)
        if name == "@in":
            return self.membership(arguments, scope)
        references = [self.visit(argument, scope) for argument in arguments]
        if name in _PASSING or (name in ("or", "orValue") and len(arguments) == 2):
            return _together(references)
        if name == "size":
            for each in references[0]:
                each.each()
        elif name not in _KIND_ONLY and name != "!_":
            for found in references:
                _whole(found)
        return ()

    def equality(self, arguments: list[ast.Expr], scope: Mapping[str, References]) -> References:
        """Compared with a scalar constant, a list or a map is unequal whatever it holds."""
        for one, other in (arguments, arguments[::-1]):
            found, value = self.constants.of(other)
            references = self.visit(one, scope)
            if not (found and isinstance(value, _SCALARS)):
                _whole(references)
        return ()

    def membership(self, arguments: list[ast.Expr], scope: Mapping[str, References]) -> References:
        """`'key' in map` tests one key; a list is looked through."""
        element, container = arguments
        found, key = self.constants.of(element)
        holders = self.visit(container, scope)
        if found and key.__class__ is str:
            for holder in holders:
                holder.at(key)
                holder.members = True
        else:
            _whole(self.visit(element, scope))
            _whole(holders)
        return ()

    def comprehension(self, node: ast.Comprehension, scope: Mapping[str, References]) -> References:
        ranges = self.visit(node.range, scope)
        elements = tuple(each.each() for each in ranges)
        bound = (elements,) if len(node.variables) == 1 else ((), elements)
        inner = {**scope, **dict(zip(node.variables, bound, strict=True))}
        results = [self.visit(argument, inner) for argument in node.arguments]
        if node.macro in ("map", "transformList", "transformMap", "transformMapEntry"):
            _whole(results[-1])
        elif node.macro == "sortBy":
            _whole(results[0])
        # A filtered or sorted list holds elements of the list it was made from.
        return ranges if node.macro in ("filter", "sortBy") else ()
