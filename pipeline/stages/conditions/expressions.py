"""The CEL of chains: `request` has the metadata that authorizers see, and conditions also have the objects.

No server evaluates conditions yet, so the declarations follow the data of a condition in the design: kubernetes/apiserver
pkg/authorization/authorizer/interfaces.go, ConditionsData.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...authorization.attributes import RequestInfo
from ...cel import BOOL, DYN, STRING, CelError, Environment, ObjectType, Program, list_of
from ...cel.values import Unknown, Value
from ...request import UserInfo
from .logic.evaluate import FALSE, TRUE, Result, Truth

# Conditions of these types are CEL. Any other type belongs to the authorizer that sent it.
CEL_TYPES = frozenset({"", "k8s.io/authorization-cel"})

_STRINGS = list_of(STRING)
# Without uid and extra: few logs hold those of users who act as another, and no answer is to rest on a guess.
_USER = ObjectType("hindcast.UserInfo", {"username": STRING, "groups": _STRINGS})
_REQUEST = ObjectType(
    "hindcast.Request",
    {
        **dict.fromkeys(("verb", "path", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name"), STRING),
        "operation": STRING,
        "dryRun": BOOL,
        "userInfo": _USER.type,
    },
)
_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE"}


@lru_cache(maxsize=8)
def when_environment(version: tuple[int, int]) -> Environment:
    """The environment of `when`: metadata only."""
    return Environment(version, {"request": _REQUEST.type}, (_USER, _REQUEST))


@lru_cache(maxsize=8)
def write_environment(version: tuple[int, int]) -> Environment:
    """The environment of conditions, for reads and writes."""
    variables = {"request": _REQUEST.type, "object": DYN, "oldObject": DYN, "options": DYN}
    return Environment(version, variables, (_USER, _REQUEST))


def request_value(info: RequestInfo, user: UserInfo, dry_run: bool = False) -> dict[str, Any]:
    """The variable `request`."""
    return {
        "verb": info.verb,
        "path": "" if info.is_resource_request else info.path,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "name": info.name,
        "operation": _OPERATIONS.get(info.verb, ""),
        "dryRun": dry_run,
        "userInfo": {
            "username": user.username,
            "groups": list(user.groups),
        },
    }


def result_of(program: Program, activation: dict[str, Value]) -> Result:
    """The result of a condition over these variables."""
    value = program.evaluate(activation)
    if isinstance(value, CelError):
        return Result(Truth.ERROR, value.message)
    if isinstance(value, Unknown):
        return Result(Truth.OPEN, str(value))
    return TRUE if value is True else FALSE
