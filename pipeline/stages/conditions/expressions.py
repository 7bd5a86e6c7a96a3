"""The CEL of chains: `request` has the metadata that authorizers see, and conditions also have the objects.

No server evaluates conditions yet, so the declarations follow the data of a condition in the design: kubernetes/apiserver
pkg/authorization/authorizer/interfaces.go, ConditionsData.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...authorization.attributes import RequestInfo
from ...cel import BOOL, DYN, STRING, CelError, Environment, ObjectType, list_of
from ...cel.values import Unknown, Value
from ...policies.redacted import without_placeholders
from ...request import UserInfo
from .logic.evaluate import FALSE, TRUE, Result, Truth
from .spending import words_of

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
    value: dict[str, Any] = {
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
            "groups": list(user.groups) if user.is_whole else Unknown("request.userInfo.groups: only the user's name was recorded"),
        },
    }
    if not user.is_identified:
        value["userInfo"] = without_placeholders("request.userInfo", value["userInfo"])
    if info.is_redacted:
        part = "name" if info.is_resource_request else "path"
        value[part] = Unknown(f"request.{part}: redacted")
    return value


def late_values(request: Mapping[str, Any], known: Mapping[str, Value]) -> dict[str, Value]:
    """The variables of a condition. Of a read only the object is known: the design says nothing of the others."""
    return {"request": request, **{name: Unknown(name) for name in ("object", "oldObject", "options")}, **known}


def result_of(value: Value | CelError | Unknown) -> Result:
    """The result of a condition with this value."""
    if isinstance(value, CelError):
        return Result(Truth.ERROR, value.message)
    if isinstance(value, Unknown):
        return Result(Truth.UNKNOWN, words_of(value))
    return TRUE if value is True else FALSE
