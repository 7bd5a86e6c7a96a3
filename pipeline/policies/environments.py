"""The CEL environments in which the expressions of policies compile."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..cel import Environment, Type
from ..cel.types import ObjectType
from .declarations import VARIABLES, scope_for, variable_type

# A server compiles types of any depth. Its parser allows one expression 250 levels, and stack.py has room for both.
LEVELS_MAX: Final = 400
# StrictCostEnforcementForVAP and StrictCostEnforcementForWebhooks are on from then (kubernetes pkg/features/kube_features.go).
_LIBRARY_COSTS_SINCE: Final = (1, 32)


class NestingError(Exception):
    """The types of a policy's variables nest deeper than LEVELS_MAX."""


@lru_cache(maxsize=256)
def environment(
    version: tuple[int, int],
    *,
    has_params: bool,
    has_authorizer: bool,
    variables: tuple[tuple[str, Type], ...] = (),
    for_new: bool = False,
) -> Environment:
    """The environment of one version for a policy with or without params, and with these `variables` and their types."""
    declared = scope_for(has_params=has_params, has_authorizer=has_authorizer, variables=dict(variables))
    has_costs = version >= _LIBRARY_COSTS_SINCE
    return Environment(version, declared.variables, declared.object_types, for_new=for_new, has_library_costs=has_costs)


def extended(earlier: Environment, name: str, type_: Type) -> Environment:
    """The environment for what comes after a variable: `earlier`, with `variables.NAME` of this type.

    To declare all of 4,000 variables again for each of them takes longer than to compile them. Each may put the one before into a
    list: NestingError is raised for a type of more than LEVELS_MAX levels.
    """
    if type_.levels > LEVELS_MAX:
        raise NestingError
    composed = earlier.scope.objects[VARIABLES]
    return earlier.redeclaring(ObjectType(VARIABLES, {**composed.fields, name: variable_type(type_)}))


# Versions of one policy share what they compile.
with_variable = lru_cache(maxsize=256)(extended)
