"""The declarations of kube-apiserver for expressions of a policy: the variables, their types, and the fields of those types.

Follows kubernetes/apiserver pkg/admission/plugin/cel/{compile,composition}.go. The declarations are stricter than the data. An
expression that reads a field not listed here does not compile, even if the request has the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT, ObjectType, Type, list_of, map_of

AUTHORIZER = Type("kubernetes.authorization.Authorizer")
RESOURCE_CHECK = Type("kubernetes.authorization.ResourceCheck")
VARIABLES = "kubernetes.variables"

_STRINGS, _LABELS = list_of(STRING), map_of(STRING, STRING)

GROUP_VERSION_KIND = ObjectType("kubernetes.GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
GROUP_VERSION_RESOURCE = ObjectType("kubernetes.GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING})
USER_INFO = ObjectType(
    "kubernetes.UserInfo", {"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": map_of(STRING, _STRINGS)}
)
# Without uid, object and oldObject, which webhooks have.
REQUEST = ObjectType(
    "kubernetes.AdmissionRequest",
    {
        "kind": GROUP_VERSION_KIND.type,
        "resource": GROUP_VERSION_RESOURCE.type,
        "subResource": STRING,
        "requestKind": GROUP_VERSION_KIND.type,
        "requestResource": GROUP_VERSION_RESOURCE.type,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": USER_INFO.type,
        "dryRun": BOOL,
        "options": DYN,
    },
)
NAMESPACE_SPEC = ObjectType("kubernetes.NamespaceSpec", {"finalizers": _STRINGS})
NAMESPACE_CONDITION = ObjectType(
    "kubernetes.NamespaceCondition",
    {"status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING},
)
NAMESPACE_STATUS = ObjectType("kubernetes.NamespaceStatus", {"conditions": list_of(NAMESPACE_CONDITION.type), "phase": STRING})
# Upstream's quirks: the identity is declared as UID although the data has uid, and times as timestamps although they are strings.
NAMESPACE_METADATA = ObjectType(
    "kubernetes.NamespaceMetadata",
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
)
NAMESPACE = ObjectType(
    "kubernetes.Namespace",
    {"metadata": NAMESPACE_METADATA.type, "spec": NAMESPACE_SPEC.type, "status": NAMESPACE_STATUS.type},
)
OBJECT_TYPES = (
    GROUP_VERSION_KIND,
    GROUP_VERSION_RESOURCE,
    USER_INFO,
    REQUEST,
    NAMESPACE_SPEC,
    NAMESPACE_CONDITION,
    NAMESPACE_STATUS,
    NAMESPACE_METADATA,
    NAMESPACE,
)
_KEPT_TYPES = frozenset((BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT))


@dataclass(frozen=True)
class Declarations:
    """The arguments of an Environment: `Environment(version, declarations.variables, declarations.object_types)`."""

    variables: Mapping[str, Type]
    object_types: tuple[ObjectType, ...]


def scope_for(
    *,
    has_params: bool,
    has_authorizer: bool,
    variables: Mapping[str, Type],
    object_type: Type = DYN,
    params_type: Type = DYN,
    object_types: tuple[ObjectType, ...] = (),
) -> Declarations:
    """The declarations for an expression of a policy whose `variables` evaluate to these types. They are the same in all versions.

    Objects and params are dyn in a server. Type checking against schemas gives them types that are made of further `object_types`.
    """
    declared = {"object": object_type, "oldObject": object_type, "request": REQUEST.type, "namespaceObject": NAMESPACE.type}
    declared["variables"] = Type(VARIABLES)
    if has_params:
        declared["params"] = params_type
    if has_authorizer:
        declared |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    composed = ObjectType(VARIABLES, {name: variable_type(type_) for name, type_ in variables.items()})
    return Declarations(declared, (*OBJECT_TYPES, composed, *object_types))


@cache
def variable_type(type_: Type) -> Type:
    """The type that `variables.NAME` has if the variable's expression is of this type.

    Scalars, lists and maps keep their types. All others, also objects with declared fields, become dyn (convertCelTypeToDeclType).
    """
    if type_ in _KEPT_TYPES:
        return type_
    if type_.name in ("list", "map") and type_.parameters:
        return Type(type_.name, tuple(map(variable_type, type_.parameters)))
    return DYN
