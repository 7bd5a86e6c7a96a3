"""The CEL of each Kubernetes release: the libraries, macros and syntax with which it compiles stored and new expressions.

A server evaluates stored expressions with all that it knows. An expression that a write adds or changes must also compile on the
minor before, so that the server can be rolled back (apiserver pkg/cel/environment/environment.go: NewExpressions and
StoredExpressions).

Libraries state their own first version (`library.LIBRARIES`); this file has everything else that depends on the version. Sources:
kubernetes/apiserver pkg/cel/environment/base.go, and the cel-go release that each Kubernetes release is built with.
No release has `cel.bind`, `math.*`, `base64.*`, `regex.*` or `strings.reverse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from . import standard
from .checking.scope import Scope
from .functions import Function, Library, Version, merge
from .library import LIBRARIES
from .minors import NEWEST, OLDEST
from .syntax.parse import CORE_MACROS, EXISTS_ONE_ALIAS, OPTIONAL_MACROS, SORT_BY_MACRO, TWO_VARIABLE_MACROS
from .types import ObjectType, Type

# Macros of cel-go itself: a server has every row whose version is not above its own.
MACROS: tuple[tuple[Version, frozenset[str]], ...] = (((1, 30), CORE_MACROS), ((1, 33), EXISTS_ONE_ALIAS))
# Macros of options: an environment has every row whose version is not above its own.
OPTION_MACROS: tuple[tuple[Version, frozenset[str]], ...] = (
    ((1, 28), OPTIONAL_MACROS),
    ((1, 32), TWO_VARIABLE_MACROS),
    ((1, 34), SORT_BY_MACRO),
)
QUOTED_IDENTIFIERS_SINCE: Version = (1, 37)
# The grammar accepts them earlier than the parser does (cel-go v0.23, parser/gen/CEL.g4).
ESCAPED_SELECTORS_SINCE: Version = (1, 33)
# `.x` names a variable of the environment even where a macro has an x (cel-go v0.27, checker/env.go resolveSimpleIdent).
DOT_IS_ROOT_SINCE: Version = (1, 37)

# optMap and optFlatMap copy their target since then. Before, its nodes came twice into one tree (cel-go v0.20, cel/library.go).
COPIES_TARGETS_SINCE: Version = (1, 31)


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
        return Scope.of(variables, declared, object_types, self.dot_is_root, self.version < COPIES_TARGETS_SINCE)


def release(version: Version, *, for_new: bool = False) -> Release:
    """The language of a version such as (1, 36), for stored expressions or `for_new` ones.

    Versions older than 1.30 count as 1.30, and newer than 1.37 as 1.37.
    """
    known = min(max(version, OLDEST), NEWEST)
    return _release(known, before(known) if for_new else known)


def without_library_costs(found: Release) -> Release:
    """A language in which a call of a library's function costs 1 (apiserver pkg/cel/environment/base.go without StrictCostOpt)."""
    standards = {each.name for each in standard.LIBRARY.functions}
    own = {each.name for library in found.libraries for each in library.functions} - standards
    functions = {name: replace(each, cost=None) if name in own else each for name, each in found.functions.items()}
    return replace(found, functions=functions)


def before(version: Version) -> Version:
    """The minor whose environment a server of this version has for new expressions."""
    return version[0], version[1] - 1


def differs_for_new(version: Version) -> bool:
    """Whether some expression compiles if it is stored, and not if it is new."""
    stored, new = release(version), release(version, for_new=True)
    return stored.libraries != new.libraries or stored.macros != new.macros


def why_refused(version: Version) -> str:
    """Why a server refuses an expression that is new, and that it would evaluate if it were stored."""
    server, earlier = (f"{major}.{minor}" for major, minor in (version, before(version)))
    return f"a server of {server} compiles new expressions with the CEL of {earlier}, and only stored ones with its own"


@cache
def _release(version: Version, compatible: Version) -> Release:
    libraries = tuple(each for each in (standard.LIBRARY, *LIBRARIES) if each.present_in(version, compatible))
    functions = combined(function for library in libraries for function in library.functions)
    rows = [keys for since, keys in MACROS if since <= version] + [keys for since, keys in OPTION_MACROS if since <= compatible]
    macros = frozenset[str]().union(*rows)
    return Release(version, libraries, functions, macros, version >= QUOTED_IDENTIFIERS_SINCE, version >= DOT_IS_ROOT_SINCE)


def combined(functions: Iterable[Function]) -> dict[str, Function]:
    """The functions by name; several functions of one name become one."""
    by_name: dict[str, list[Function]] = {}
    for function in functions:
        by_name.setdefault(function.name, []).append(function)
    return {name: merge(found) for name, found in by_name.items()}
