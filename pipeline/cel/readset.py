"""Finds the parts of its variables that an expression can depend on, by abstract interpretation of its syntax tree.

A `ReadSet` is sound: an activation that is cut down to it (`project`) gives the same result, errors and their texts included. For
every node it names, it keeps the kind (null, scalar, list, map), which may decide by itself. An operation that is not understood
here, such as passing a value to a function, reads the whole value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from . import ast
from .checking.constants import Constants
from .checking.names import Names
from .values import Value

# The nodes that a value may stand for; empty for computed values.
References: TypeAlias = tuple["Reads", ...]


@dataclass(eq=False)
class Reads:
    """The reads of one value, in addition to its presence and kind.

    `whole` means everything. `fields` are keys of a map. `elements` are the reads of each element by a visit of a list; a visit of
    a map reads every key too. `members` says that a list is searched for a value. `keys` says that all keys of a map are read, and
    which kind of value each has; no expression does, but rules that are not written in CEL.
    """

    whole: bool = False
    members: bool = False
    elements: Reads | None = None
    fields: dict[str, Reads] = field(default_factory=dict)
    keys: bool = False

    def at(self, name: str) -> Reads:
        """The node of a field."""
        return self.fields.setdefault(name, Reads())

    def each(self) -> Reads:
        """The node of the elements."""
        if self.elements is None:
            self.elements = Reads()
        return self.elements

    def merge(self, other: Reads) -> None:
        """Adds the reads of the other."""
        self.whole = self.whole or other.whole
        self.members = self.members or other.members
        self.keys = self.keys or other.keys
        if other.elements is not None:
            self.each().merge(other.elements)
        for name, node in other.fields.items():
            self.at(name).merge(node)

    @property
    def shape(self) -> tuple[object, ...]:
        """A value that is equal for equal reads, whatever the order in which they were found."""
        fields = tuple((name, self.fields[name].shape) for name in sorted(self.fields))
        return self.whole, self.members, self.keys, self.elements.shape if self.elements is not None else None, fields

    def covers(self, other: Reads) -> bool:
        """Whether everything that the other reads is read here too."""
        if self.whole:
            return True
        if other.whole or (other.members and not self.members) or (other.keys and not self.keys):
            return False
        if other.elements is not None and (self.elements is None or not self.elements.covers(other.elements)):
            return False
        return all(name in self.fields and self.fields[name].covers(node) for name, node in other.fields.items())

    def project(self, value: Value) -> Value:
        """The read part of a value."""
        if self.whole:
            return value
        if value.__class__ is list:
            if self.members:
                return value
            return [] if self.elements is None else [self.elements.project(each) for each in value]
        if value.__class__ is dict:
            if self.elements is not None or self.keys:
                return value
            return {name: node.project(value[name]) for name, node in self.fields.items() if name in value}
        return value

    def paths(self, prefix: str) -> Iterator[str]:
        """Every path below, as `object.spec.containers[*].image`; `{}` marks a path if only its presence or kind is tested."""
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
    """The reads of one or several expressions, by variable. Do not change it."""

    def __init__(self, root: Reads) -> None:
        self.root = root

    @classmethod
    def union(cls, *sets: ReadSet) -> ReadSet:
        """The reads of several expressions together."""
        root = Reads()
        for each in sets:
            root.merge(each.root)
        return cls(root)

    def variables(self) -> frozenset[str]:
        """All variables that are read."""
        return frozenset(self.root.fields)

    def of(self, variable: str) -> Reads:
        """The reads of one variable; empty reads if it is not among `variables`."""
        return self.root.fields.get(variable, Reads())

    def project(self, activation: Mapping[str, Value]) -> dict[str, Value]:
        """The activation cut down to its read parts."""
        return {name: node.project(activation[name]) for name, node in self.root.fields.items() if name in activation}

    def paths(self) -> list[str]:
        """Every path, sorted."""
        return [path for name, node in sorted(self.root.fields.items()) for path in node.paths(name)]

    def __str__(self) -> str:
        return "\n".join(self.paths())


@dataclass(frozen=True)
class Analyzed:
    """The facts about an expression that its read set needs."""

    tree: ast.Expr
    names: Names
    constants: Constants


def read_set(expression: Analyzed, composed: Callable[[str], Analyzed | None] = lambda _: None) -> ReadSet:
    """The read set of an expression whose whole result is read.

    `composed` finds the expression that it may use as `variables.NAME`: reads of its value are traced back to the parts that it
    consists of. Every use that is found is traced; the set names `variables` itself only for other uses.
    """
    composition = _Composition(composed)
    _whole(composition.analysis(expression).visit(expression.tree, {}))
    return ReadSet(composition.root)


class _Composition:
    """The expressions that are analyzed together: they share the variables of the activation."""

    def __init__(self, composed: Callable[[str], Analyzed | None]) -> None:
        self.root = Reads()
        self._composed = composed
        self._values: dict[str, References | None] = {}

    def analysis(self, expression: Analyzed) -> _Analysis:
        return _Analysis(expression.names, expression.constants, self)

    def value_of(self, name: str) -> References | None:
        """The nodes that a composed expression's value may stand for; None if no expression has the name."""
        if name not in self._values:
            expression = self._composed(name)
            if expression is None:
                return None
            self._values[name] = None  # If it occurs within itself, it is read as `variables.NAME`.
            self._values[name] = self.analysis(expression).visit(expression.tree, {})
        return self._values[name]


def _whole(references: References) -> None:
    for node in references:
        node.whole = True


def _together(parts: Iterable[References]) -> References:
    """The nodes that any of these may stand for, each once. If there are too many to follow, all are read whole."""
    found = {id(each): each for part in parts for each in part}
    references = tuple(found.values())
    if len(references) <= _FOLLOWED_MAX:
        return references
    _whole(references)
    return ()


# The limit: variables that choose between parts of each other would double the number of nodes each time.
_FOLLOWED_MAX = 256
_SCALARS = (str, int, float, bool, bytes, None.__class__)
# Their result is, or contains, an argument; for two added lists, their elements.
_PASSING = frozenset(("dyn", "optional.of", "value", "_+_"))
# They read only the presence and kind of their arguments, which `Reads` always keeps.
_KIND_ONLY = frozenset(("type", "hasValue"))


class _Analysis:
    """Walks an expression once. `scope` maps loop variables to the nodes that they stand for."""

    def __init__(self, names: Names, constants: Constants, composition: _Composition) -> None:
        self.names = names
        self.constants = constants
        self.root = composition.root
        self.composition = composition

    def visit(self, node: ast.Expr, scope: Mapping[str, References]) -> References:
        """The nodes that the value may stand for. A caller that reads the value marks them."""
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
        """A comparison with a scalar constant: a list or a map is unequal to it for all contents."""
        for one, other in (arguments, arguments[::-1]):
            found, value = self.constants.of(other)
            references = self.visit(one, scope)
            if not (found and isinstance(value, _SCALARS)):
                _whole(references)
        return ()

    def membership(self, arguments: list[ast.Expr], scope: Mapping[str, References]) -> References:
        """`'key' in map` tests one key; a list is searched."""
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
