"""The declarations of a CEL environment, and the programs that it compiles.

An `Environment` stands for the CEL environment of one version of Kubernetes with a set of declared variables. It never changes, and
compiles each text once. A `Program` evaluates one expression over an activation: a mapping from variables to values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from threading import Lock

from .checking.check import check
from .checking.names import Names
from .errors import CompileError, ResultTypeError
from .functions import Function, Version
from .minors import DEFAULT
from .program import Program
from .stack import on_fresh_stack
from .standard import COSTS
from .syntax.parse import parse
from .types import ObjectType, Type
from .versions import ESCAPED_SELECTORS_SINCE, release, without_library_costs


class Environment:
    """The CEL environment of a Kubernetes minor version, such as (1, 36), with variables and the object types they use."""

    def __init__(
        self,
        version: Version = DEFAULT,
        variables: Mapping[str, Type] | None = None,
        object_types: Sequence[ObjectType] = (),
        functions: Iterable[Function] = (),
        *,
        for_new: bool = False,
        has_library_costs: bool = True,
    ) -> None:
        """`for_new`: the environment of expressions that a write adds or changes, and not that of stored ones.

        `has_library_costs`: functions of libraries have costs of their own; without, each call costs 1.
        """
        known = release(version, for_new=for_new)
        self.release = known if has_library_costs else without_library_costs(known)
        self.scope = self.release.scope(dict(variables or {}), tuple(object_types), tuple(functions))
        self.names = Names(self.scope.functions, frozenset(self.scope.variables), self.scope.types, self.release.dot_is_root)
        if not has_library_costs:
            self.names = replace(self.names, prices=COSTS)
        self._programs: dict[str, Program | CompileError] = {}
        self._lock = Lock()

    def redeclaring(self, changed: ObjectType) -> Environment:
        """This environment with other fields of one of its object types. It shares everything else, so that many are cheap."""
        assert changed.name in self.scope.objects
        other = copy(self)
        other.scope = replace(self.scope, objects={**self.scope.objects, changed.name: changed})
        other._programs, other._lock = {}, Lock()
        return other

    def compile(self, text: str, expected: Sequence[Type] | None = None) -> Program:
        """The program of an expression, made once. Raises CompileError where a server of this version rejects it.

        `expected` are the allowed result types; `dyn` is not allowed unless it is listed.
        """
        with self._lock:
            known = self._programs.get(text)
        if known is None:
            known = on_fresh_stack(lambda: self._compile(text))
            with self._lock:
                known = self._programs.setdefault(text, known)
        if isinstance(known, CompileError):
            raise known.with_traceback(None)
        if expected is not None and known.result_type not in expected:
            raise ResultTypeError(text, known.result_type, expected)
        return known

    def _compile(self, text: str) -> Program | CompileError:
        has_escapes = self.release.version >= ESCAPED_SELECTORS_SINCE
        try:
            tree = parse(text, self.release.macros, self.release.quoted_identifiers, has_escapes)
            return Program(text, tree, self.names, check(tree, self.scope, text))
        except CompileError as problem:
            return problem
