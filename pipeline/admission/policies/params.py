"""Finds the params that a binding uses.

Follows CollectParams of kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...matching.selectors import is_doubtful, labels_of
from ...request import Evidence, Grade, Known, Object, Unknown
from ...world import World
from .model import GivenObject, NotFoundAction, ParamKind, ParamRef

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


class GivenObjects:
    """Given objects, such as the params in the same files as new policies, by kind and name."""

    def __init__(self, objects: Iterable[GivenObject]) -> None:
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], GivenObject]] = {}
        for given in objects:
            metadata = given.object.get("metadata") or {}
            kind = (str(given.object.get("apiVersion")), str(given.object.get("kind")))
            self._by_kind.setdefault(kind, {})[metadata.get("namespace") or "", metadata.get("name") or ""] = given
        self._in_namespaces: dict[tuple[str, str], dict[tuple[str, str], GivenObject]] = {}

    def of_kind(self, api_version: str, kind: str) -> Mapping[tuple[str, str], GivenObject]:
        """The objects of one kind by (namespace, name)."""
        return self._by_kind.get((api_version, kind), {})

    def in_namespaces(self, api_version: str, kind: str) -> Mapping[tuple[str, str], GivenObject]:
        """The same for a namespaced kind: an object without a namespace is created in `default`."""
        # Made once, because evaluation tells params apart by identity.
        found = self._in_namespaces.get((api_version, kind))
        if found is None:
            of_kind = self.of_kind(api_version, kind)
            moved = {("default", name): _in_default(given) for (space, name), given in of_kind.items() if not space}
            found = self._in_namespaces[api_version, kind] = {**moved, **of_kind}
        return found

    def over(self, world: World) -> World:
        """A world in which these objects replace recorded ones."""
        return _WorldWithGiven(world, self) if self._by_kind else world


def _in_default(given: GivenObject) -> GivenObject:
    metadata = {**(given.object.get("metadata") or {}), "namespace": "default"}
    return replace(given, object={**given.object, "metadata": metadata})


class _WorldWithGiven:
    def __init__(self, world: World, given: GivenObjects) -> None:
        self._world = world
        self._given = given

    def namespace(self, name: str) -> Evidence[Object | None]:
        return self._world.namespace(name)

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        given = self._of_kind(api_version, kind).get((namespace, name))
        return Known(given.object, given.source) if given else self._world.param(api_version, kind, namespace, name)

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        of_kind = self._of_kind(api_version, kind)
        given = {name: item for (space, name), item in of_kind.items() if space == namespace}
        behind = self._world.params(api_version, kind, namespace)
        if not given or isinstance(behind, Unknown):
            # The further objects that a selector would have found are unknown.
            return behind
        objects = {(obj.get("metadata") or {}).get("name", ""): obj for obj in behind.value}
        objects |= {name: item.object for name, item in given.items()}
        return Known([objects[name] for name in sorted(objects)], behind.source, behind.grade)

    def _of_kind(self, api_version: str, kind: str) -> Mapping[tuple[str, str], GivenObject]:
        scope = self.kind_is_namespaced(api_version, kind)
        is_namespaced = isinstance(scope, Known) and scope.value is True
        return (self._given.in_namespaces if is_namespaced else self._given.of_kind)(api_version, kind)

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        behind = self._world.kind_is_namespaced(api_version, kind)
        given = self._given.of_kind(api_version, kind)
        if not given or (isinstance(behind, Known) and behind.value is not None):
            return behind
        # An object of a kind implies that the kind exists, with the scope of the object.
        return Known(any(namespace for namespace, _ in given), next(iter(given.values())).source)
