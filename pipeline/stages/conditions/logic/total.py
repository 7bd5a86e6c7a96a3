"""A condition read as a selector reads an object, over whole objects.

It walks the condition itself and shares nothing with the formulas of translate.py, so that each can check the other. The one
reading of absence: a comparison or function of a label that an object lacks does not hold, and a field that it lacks has the value
that a selector compares. So a condition has no error for want of data, and a part that was not recorded leaves the result open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ....cel import Value, ast
from ....cel.stack import on_fresh_stack
from ....cel.values import CelError, Unknown
from ..fields import Fields
from ..spending import words_of
from .evaluate import FALSE, TRUE, Result, Truth
from .formula import LABELS
from .translate import Path, absent_value, late_nodes, path_of

_ABSENT = object()
_MAPS = frozenset({("metadata",), LABELS, ("metadata", "annotations")})
# The variables that hold objects.
_OBJECTS = ("object", "oldObject")
_MISFIT = "no such overload"
_Part: TypeAlias = Callable[[ast.Expr, Mapping[str, Value]], Value]


def read_as_selector(part: _Part, tree: ast.Expr, activation: Mapping[str, Value], fields: Fields) -> Result:
    """The result of a condition of objects with these fields. `part` evaluates a part of the condition over variables.

    Everything but the absence of labels and fields is as in CEL.
    """
    try:
        return TRUE if on_fresh_stack(lambda: _Reading(part, activation, fields).truth(tree)) else FALSE
    except CelError as problem:
        return Result(Truth.ERROR, problem.message)
    except _OpenError as problem:
        return Result(Truth.UNKNOWN, str(problem))


class _OpenError(Exception):
    """The value is unknown."""


class _Reading:
    def __init__(self, part: _Part, activation: Mapping[str, Value], fields: Fields) -> None:
        self._part = part
        self._activation = activation
        self._fields = fields
        self._late = late_nodes()

    def truth(self, node: ast.Expr) -> bool:
        match node:
            case ast.And(terms=terms):
                return self._absorbed(terms, False)
            case ast.Or(terms=terms):
                return self._absorbed(terms, True)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.truth(then if self.truth(condition) else otherwise)
            case ast.Call(function="!_", arguments=(operand,)):
                return not self.truth(operand)
            case ast.Has(operand=operand, field=name) if (there := self._has(operand, name)) is not None:
                return there
            case ast.Call(function="_!=_"):
                return self._holds(node, absent=True)
            case ast.Call(function="@in", arguments=(left, ast.ListLiteral() as right)) if self._late(right) and not right.optional:
                return self._any(node, left, right.elements)
        return self._holds(node)

    def _absorbed(self, terms: Sequence[ast.Expr], decisive: bool) -> bool:
        """As CEL's operators: what is not known may decide, so that it comes before an error."""
        problems: list[Exception] = []
        for each in terms:
            try:
                if self.truth(each) is decisive:
                    return decisive
            except (CelError, _OpenError) as found:
                problems.append(found)
        if problems:
            raise next((each for each in problems if isinstance(each, _OpenError)), problems[0])
        return not decisive

    def _any(self, node: ast.Expr, left: ast.Expr, elements: Sequence[ast.Expr]) -> bool:
        """Whether a value is among the elements of a list. One that is absent is equal to nothing."""
        # The parts of an expression are known by their ids, so that each comparison needs one of its own.
        ids = (-((node.id << 20) + place) for place in range(len(elements)))
        terms = [ast.Call(id_, node.offset, "_==_", None, (left, each)) for id_, each in zip(ids, elements, strict=True)]
        return self._absorbed(terms, True)

    def _holds(self, test: ast.Expr, absent: bool = False) -> bool:
        """Whether a test that has no test inside it holds, with what the objects lack in place; `absent` for an absent label."""
        lacking = self._lacking(test)
        if any(_is_label(path) for _, path in lacking):
            return absent
        value = self._part(test, self._filled(lacking))
        if isinstance(value, Unknown):
            raise _OpenError(words_of(value))
        if isinstance(value, bool):
            return value
        if lacking and (not isinstance(value, CelError) or value.message.startswith(_MISFIT)):
            return absent  # what is absent has no value of the type that the test needs
        raise value if isinstance(value, CelError) else CelError(_MISFIT)

    def _lacking(self, test: ast.Expr) -> set[tuple[str, Path]]:
        """The labels and fields that a test reads and that an object is known to lack, but for those whose presence it tests."""
        read, asked = set[tuple[str, Path]](), set[tuple[str, Path]]()
        for node in _paths(test):
            of = ast.Select(node.id, node.offset, node.operand, node.field) if isinstance(node, ast.Has) else node
            for variable in _OBJECTS:
                if (path := path_of(of, variable)) is not None:
                    (asked if isinstance(node, ast.Has) else read).add((variable, path))
        return {(variable, path) for variable, path in read - asked if self._at(variable, path) is _ABSENT}

    def _filled(self, lacking: set[tuple[str, Path]]) -> Mapping[str, Value]:
        found = dict(self._activation)
        for variable, path in sorted(lacking):
            if path[:2] != LABELS or len(path) == 2:
                value: Value = {} if path in _MAPS else absent_value(self._fields.key(path))
                found[variable] = _with(found[variable], path, value)
        return found

    def _has(self, operand: ast.Expr, name: str) -> bool | None:
        """What `has()` says of a path in an object; None of everything else."""
        for variable in _OBJECTS:
            path = path_of(ast.Select(operand.id, operand.offset, operand, name), variable)
            if path is not None:
                found = self._at(variable, path)
                if isinstance(found, Unknown):
                    raise _OpenError(words_of(found))
                return found is not _ABSENT
        return None

    def _at(self, variable: str, path: Path) -> Any:
        found: Any = self._activation[variable]
        for part in path:
            if isinstance(found, Unknown):
                return found
            if not isinstance(found, dict) or part not in found:
                return _ABSENT
            found = found[part]
        return found


def _with(obj: Any, path: Path, value: Any) -> Any:
    """A copy of an object with a value at a path."""
    if not path:
        return value
    kept = dict(obj) if isinstance(obj, dict) else {}
    kept[path[0]] = _with(kept.get(path[0]), path[1:], value)
    return kept


def _paths(node: ast.Expr) -> Iterator[ast.Expr]:
    """The parts of a test that may be whole paths, and the tests of presence."""
    if isinstance(node, ast.Has):
        yield node
        return
    if any(path_of(node, variable) is not None for variable in _OBJECTS):
        yield node
        return
    for child in ast.children(node):
        yield from _paths(child)


def _is_label(path: Path) -> bool:
    return len(path) == 3 and path[:2] == LABELS
