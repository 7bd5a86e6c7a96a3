"""The CEL of each Kubernetes release: the libraries, macros and syntax with which it evaluates stored expressions.

Libraries state their own first version (`library.LIBRARIES`); this file has everything else that depends on the version. Sources:
kubernetes/apiserver pkg/cel/environment/base.go, and the cel-go release that each Kubernetes release is built with.
No release has `cel.bind`, `math.*`, `base64.*`, `regex.*` or `strings.reverse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from . import standard
from .checking.scope import Scope
from .functions import Function, Library, Version, merge
from .library import LIBRARIES
from .minors import NEWEST, OLDEST
from .syntax.parse import CORE_MACROS, EXISTS_ONE_ALIAS, OPTIONAL_MACROS, SORT_BY_MACRO, TWO_VARIABLE_MACROS
from .types import ObjectType, Type

# A release has every row whose version is not above its own.
MACROS: tuple[tuple[Version, frozenset[str]], ...] = (
    ((1, 30), CORE_MACROS),
    ((1, 30), OPTIONAL_MACROS),
    ((1, 32), TWO_VARIABLE_MACROS),
    ((1, 33), EXISTS_ONE_ALIAS),
    ((1, 34), SORT_BY_MACRO),
)
QUOTED_IDENTIFIERS_SINCE: Version = (1, 37)
# The grammar accepts them earlier than the parser does (cel-go v0.23, parser/gen/CEL.g4).
ESCAPED_SELECTORS_SINCE: Version = (1, 33)
# `.x` names a variable of the environment even where a macro has an x (cel-go v0.27, checker/env.go resolveSimpleIdent).
DOT_IS_ROOT_SINCE: Version = (1, 37)


@dataclass(frozen=True)
class Release:
    """The language of one Kubernetes minor version."""

    version: Version
    libraries: tuple[Library, ...]
    functions: Mapping[str, Function]
    macros: frozenset[str]
    quoted_identifiers: bool
    dot_is_root: bool

    def scope(
        self, variables: Mapping[str, Type], object_types: Sequence[ObjectType] = (), functions: Sequence[Function] = ()
    ) -> Scope:
        """The type checker's scope for these declared variables and object types, and further functions."""
        declared = combined((*self.functions.values(), *functions)) if functions else self.functions
        return Scope.of(variables, declared, object_types, self.dot_is_root)


def release(version: Version) -> Release:
    """The language of a version such as (1, 36). Versions older than 1.30 count as 1.30, and newer than 1.37 as 1.37."""
    return _release(min(max(version, OLDEST), NEWEST))


@cache
def _release(version: Version) -> Release:
    libraries = tuple(each for each in (standard.LIBRARY, *LIBRARIES) if each.present_in(version))
    functions = combined(function for library in libraries for function in library.functions)
    macros = frozenset[str]().union(*(keys for since, keys in MACROS if since <= version))
    return Release(version, libraries, functions, macros, version >= QUOTED_IDENTIFIERS_SINCE, version >= DOT_IS_ROOT_SINCE)


def combined(functions: Iterable[Function]) -> dict[str, Function]:
    """The functions by name; several functions of one name become one."""
    by_name: dict[str, list[Function]] = {}
    for function in functions:
        by_name.setdefault(function.name, []).append(function)
    return {name: merge(found) for name, found in by_name.items()}
