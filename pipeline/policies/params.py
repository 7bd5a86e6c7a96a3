"""Finds the params that a binding uses.

Follows CollectParams of kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..matching.selectors import is_doubtful, labels_of
from ..request import Evidence, Grade, Known, Object, Unknown
from ..world import World
from .model import NotFoundAction, ParamKind, ParamRef

NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"
NO_NAMESPACE = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
NAMESPACE_GIVEN = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
BOTH_GIVEN = "paramRef.name and paramRef.selector are mutually exclusive"
NEITHER_GIVEN = "one of name or selector must be provided"


@dataclass(frozen=True, slots=True)
class Param:
    """One param of one evaluation. `object` Known(None) is the null that a binding without paramRef gives."""

    object: Evidence[Object | None]
    namespace: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationError:
    """The policy (`of_policy`) or the binding is wrong. It denies or is skipped by failurePolicy, for all actions."""

    message: str
    of_policy: bool = False


class NoParams:
    """No param was found and the binding allows this: it is skipped, without evaluation or annotations."""


NO_PARAMS = NoParams()
NULL_PARAM = Param(Known(None, "no paramRef"))
Params = Sequence[Param] | ConfigurationError | NoParams


def kind_error(kind: ParamKind, world: World) -> ConfigurationError | None:
    """The error of a policy whose paramKind the cluster does not serve; it applies to all its bindings."""
    scope = world.kind_is_namespaced(kind.api_version, kind.kind)
    if isinstance(scope, Unknown) or scope.value is not None:
        return None
    message = f"failed to find resource referenced by paramKind: '{kind.group_version_kind}'"
    return ConfigurationError(message, of_policy=True)


def collect_params(kind: ParamKind, reference: ParamRef | None, request_namespace: str, world: World) -> Params:
    """The params of one binding for one request. A param that was not recorded has an Unknown object."""
    scope = world.kind_is_namespaced(kind.api_version, kind.kind)
    if reference is None:
        return (NULL_PARAM,)
    if isinstance(scope, Unknown):
        return (Param(Unknown(f"scope of {kind.kind}: {scope.reason}"), reference.namespace or None, reference.name or None),)
    namespace = ""
    if scope.value:
        namespace = reference.namespace or request_namespace
        if not namespace:
            return ConfigurationError(NO_NAMESPACE)
    elif reference.namespace:
        return ConfigurationError(NAMESPACE_GIVEN)
    # The API rejects both of these; a snapshot or a log may hold objects that no API server has checked.
    if reference.name and reference.selector is not None:
        return ConfigurationError(BOTH_GIVEN)
    if not reference.name and reference.selector is None:
        return ConfigurationError(NEITHER_GIVEN)
    found = _named(kind, reference, namespace, world) if reference.name else _selected(kind, reference, namespace, world)
    if not found:
        return ConfigurationError(NOT_FOUND) if reference.not_found_action is NotFoundAction.DENY else NO_PARAMS
    return found


def param_of(obj: Object, source: str, grade: Grade = Grade.EXACT) -> Param:
    """A param object with the name that verdicts show."""
    metadata = obj.get("metadata") or {}
    return Param(Known(obj, source, grade), metadata.get("namespace") or None, metadata.get("name"))


def _named(kind: ParamKind, reference: ParamRef, namespace: str, world: World) -> Sequence[Param]:
    evidence = world.param(kind.api_version, kind.kind, namespace, reference.name)
    if isinstance(evidence, Known) and evidence.value is None:
        return ()
    return (Param(evidence, namespace or None, reference.name),)


def _selected(kind: ParamKind, reference: ParamRef, namespace: str, world: World) -> Sequence[Param]:
    evidence = world.params(kind.api_version, kind.kind, namespace)
    if isinstance(evidence, Unknown):
        return (Param(evidence, namespace or None),)
    selector = reference.selector
    assert selector is not None
    found: list[Param] = []
    for obj in evidence.value:
        if evidence.is_redacted and is_doubtful(selector, obj):
            found.append(
                replace(param_of(obj, evidence.source), object=Unknown("its labels were redacted, and the selector reads them"))
            )
        elif selector.selects(labels_of(obj) or {}):
            found.append(param_of(obj, evidence.source, evidence.grade))
    return found
