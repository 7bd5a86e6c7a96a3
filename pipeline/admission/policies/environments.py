"""The CEL environments in which the expressions of policies compile."""

from __future__ import annotations

from functools import cache

from ...cel.environment import Environment
from ...cel.types import DYN, Type


@cache
def environment(
    version: tuple[int, int], *, has_params: bool, has_authorizer: bool, variables: tuple[tuple[str, Type], ...] = ()
) -> Environment:
    """The environment of one version for a policy with or without params, and with these `variables` and their types."""
    names = ["object", "oldObject", "request", "namespaceObject", "variables"]
    names += ["params"] if has_params else []
    names += ["authorizer", "authorizer.requestResource"] if has_authorizer else []
    return Environment(version, dict.fromkeys(names, DYN))
