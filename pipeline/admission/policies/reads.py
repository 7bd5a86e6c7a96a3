"""Which parts of a request an expression can look at, so that a replay need not decode the others.

A path is a tuple of keys that begins with a variable; `*` stands for every element of a list. Data of another kind than the path
supposes (a map where `*` stands) must be decoded whole. The analysis may name too much, never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...cel import ast

Path = tuple[str, ...]
ELEMENT = "*"
ROOTS = frozenset(["object", "oldObject", "request", "params", "namespaceObject", "authorizer"])

# Macros whose result has the elements of the range in it; the others give a bool or something new.
_KEEPS_ELEMENTS = ("filter", "sortBy")
# Calls that give one of their arguments, or a list with the elements of both.
_PASSES_ON = ("_+_", "dyn", "orValue", "or", "optional.of", "value")


@dataclass(frozen=True, slots=True)
class Reads:
    """`values`: everything at and below these paths. `present`: only whether these paths are there, null or a container."""

    values: frozenset[Path] = frozenset()
    present: frozenset[Path] = frozenset()

    @property
    def roots(self) -> frozenset[str]:
        """The variables that are looked at."""
        return frozenset(path[0] for path in self.values | self.present)

    def below(self, root: str) -> Reads:
        """The reads of one variable, without its name; the empty path means all of it."""
        return Reads(*(frozenset(path[1:] for path in paths if path[0] == root) for paths in (self.values, self.present)))

    @staticmethod
    def union(several: Iterable[Reads]) -> Reads:
        """What any of several expressions reads, without paths that are below others."""
        values: set[Path] = set()
        present: set[Path] = set()
        for reads in several:
            values |= reads.values
            present |= reads.present
        kept = frozenset(path for path in values if not _is_below(path, values))
        return Reads(kept, frozenset(path for path in present if path not in kept and not _is_below(path, values)))


def _is_below(path: Path, others: set[Path]) -> bool:
    return any(path[:length] in others for length in range(1, len(path)))


def reads_of(tree: ast.Expr, variables: Mapping[str, ast.Expr]) -> Reads:
    """The reads of an expression and of the `variables` that it uses, by name."""
    walk = _Walk(variables)
    walk.use(walk.sources(tree, {}))
    return Reads.union([Reads(frozenset(walk.values), frozenset(walk.present))])


Sources = frozenset[Path]
Scope = Mapping[str, Sources]
_NOWHERE: Sources = frozenset()


class _Walk:
    """Follows where values come from. The sources of a node are the paths whose value it may be."""

    def __init__(self, variables: Mapping[str, ast.Expr]) -> None:
        self.values: set[Path] = set()
        self.present: set[Path] = set()
        self._variables = variables
        self._known: dict[str, Sources] = {}

    def use(self, sources: Sources) -> None:
        """The value is needed as a whole."""
        self.values |= sources

    def sources(self, node: ast.Expr, scope: Scope) -> Sources:
        """Notes what evaluating a node reads on the way, and gives where its value comes from."""
        match node:
            case ast.Ident(name=name):
                return self._named(name.removeprefix("."), scope)
            case ast.Select(operand=ast.Ident(name="variables"), field=name) if "variables" not in scope:
                return self._variable(name)
            case ast.Select(operand=operand, field=name):
                return _each(self.sources(operand, scope), name)
            case ast.Has(operand=ast.Ident(name="variables"), field=name) if "variables" not in scope:
                self._variable(name)
                return _NOWHERE
            case ast.Has(operand=operand, field=name):
                self.present |= _each(self.sources(operand, scope), name)
                return _NOWHERE
            case ast.Index(operand=operand, key=key):
                return self._index(operand, key, scope)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                self.use(self.sources(condition, scope))
                return self.sources(then, scope) | self.sources(otherwise, scope)
            case ast.Comprehension():
                return self._comprehension(node, scope)
            case ast.OptionalMap(target=target, variable=variable, body=body):
                found = self.sources(target, scope)
                self.present |= found
                return found | self.sources(body, {**scope, variable: found})
            case ast.Call():
                return self._call(node, scope)
        for child in ast.children(node):
            self.use(self.sources(child, scope))
        return _NOWHERE

    def _named(self, name: str, scope: Scope) -> Sources:
        if name in scope:
            return scope[name]
        if name == "variables":
            # The map itself is used as a value: everything that any variable reads.
            return frozenset[Path]().union(*(self._variable(each) for each in self._variables))
        return frozenset([(name,)]) if name in ROOTS else _NOWHERE

    def _variable(self, name: str) -> Sources:
        if name not in self._known:
            self._known[name] = _NOWHERE  # one that refers to itself ends here
            tree = self._variables.get(name)
            if tree is not None:
                self._known[name] = self.sources(tree, {})
        return self._known[name]

    def _index(self, operand: ast.Expr, key: ast.Expr, scope: Scope) -> Sources:
        found = self.sources(operand, scope)
        if isinstance(key, ast.Literal) and isinstance(key.value, str):
            return _each(found, key.value)
        if isinstance(key, ast.Literal) and key.value.__class__ is int:
            return _each(found, ELEMENT)
        self.use(self.sources(key, scope))
        self.use(found)
        return _NOWHERE

    def _comprehension(self, node: ast.Comprehension, scope: Scope) -> Sources:
        found = self.sources(node.range, scope)
        self.present |= _each(found, ELEMENT)
        if len(node.variables) == 1:
            inner: Scope = {**scope, node.variables[0]: _each(found, ELEMENT)}
        else:
            # Keys, or indexes and elements: only the whole has them.
            self.use(found)
            inner = {**scope, **dict.fromkeys(node.variables, _NOWHERE)}
        for argument in node.arguments:
            self.use(self.sources(argument, inner))
        return found if node.macro in _KEEPS_ELEMENTS else _NOWHERE

    def _call(self, node: ast.Call, scope: Scope) -> Sources:
        operands = [node.target] if node.target is not None else []
        found = [self.sources(each, scope) for each in (*operands, *node.arguments)]
        if node.function in _PASSES_ON:
            every = frozenset[Path]().union(*found)
            self.present |= every
            return every
        is_test = node.function == "hasValue" or (node.function in ("_==_", "_!=_") and any(map(_is_null, node.arguments)))
        add: Callable[[Sources], None] = self.present.update if is_test else self.use
        for sources in found:
            add(sources)
        return _NOWHERE


def _each(sources: Sources, key: str) -> Sources:
    return frozenset((*path, key) for path in sources)


def _is_null(node: ast.Expr) -> bool:
    return isinstance(node, ast.Literal) and node.value is None
