"""The CEL environments in which the expressions of policies compile."""

from __future__ import annotations

from functools import lru_cache

from ...cel import Environment, Type
from .declarations import scope_for


# A policy of many variables has one environment per variable; each environment declares all earlier variables.
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
    return Environment(version, declared.variables, declared.object_types, for_new=for_new)
