"""Exemptions in manifests as they are written: a namespace that a selector leaves out, and a match condition.

Only the fields that an exemption needs are changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..matching.namespaces import NAME_LABEL
from ..request import Object

# kubernetes/kubernetes pkg/apis/admissionregistration/validation/validation.go.
MATCH_CONDITIONS_MAX = 64
_CONDITION = "hindcast-exempt-"


def below(parent: dict[str, Any], name: str, kind: Callable[[], Any]) -> Any:
    """The field of an object; created if it is absent or null."""
    if parent.get(name) is None:
        parent[name] = kind()
    return parent[name]


def leave_out_namespace(around: Object, name: str) -> None:
    """Leave a namespace out of the `namespaceSelector` of an object."""
    expressions = below(below(around, "namespaceSelector", dict), "matchExpressions", list)
    for item in expressions:
        if item.get("key") == NAME_LABEL and item.get("operator") == "NotIn":
            item["values"] = sorted({*item["values"], name})
            return
    expressions.append({"key": NAME_LABEL, "operator": "NotIn", "values": [name]})


def add_condition(around: Object, expression: str) -> None:
    """Add CEL to the `matchConditions` of an object."""
    conditions = below(around, "matchConditions", list)
    if len(conditions) >= MATCH_CONDITIONS_MAX and conditions[-1]["name"].startswith(_CONDITION):
        # The list of conditions is full. All must be true, so the new one can be joined to the last.
        conditions[-1]["expression"] += f" && {expression}"
        return
    taken = {item.get("name") for item in conditions}
    number = next(number for number in range(1, len(taken) + 2) if f"{_CONDITION}{number}" not in taken)
    conditions.append({"name": f"{_CONDITION}{number}", "expression": expression})
