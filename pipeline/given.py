"""Objects that a user gave with rules. A replay reads them in place of recorded objects, from the first request on.

A given Namespace is merged with the recorded one as `kubectl apply` does it: labels and annotations of others stay. Those that the
last applied manifest had and this one lacks are gone (kubernetes/kubectl pkg/cmd/apply/patcher.go). Every other object takes the
place of the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from .manifests.documents import Document
from .matching.namespaces import NAME_LABEL
from .request import Evidence, Grade, Known, Object, Unknown
from .world import World

NAMESPACE: Final = ("v1", "Namespace")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class GivenObject:
    """An object that was given with rules, such as a param of a policy."""

    object: Object
    source: str = ""


def meaning_of(objects: Iterable[GivenObject]) -> dict[str, str]:
    """How a replay uses the given Namespaces. It is part of a run's name, so that runs by another rule are not read."""
    has_namespaces = any((each.object.get("apiVersion"), each.object.get("kind")) == NAMESPACE for each in objects)
    return {"namespaces": "laid over the recorded ones"} if has_namespaces else {}


def is_namespace(document: Document) -> bool:
    """Whether a manifest is a Namespace."""
    return (document.value.get("apiVersion"), document.value.get("kind")) == NAMESPACE


class GivenObjects:
    """Given objects by kind and name."""

    def __init__(self, objects: Iterable[GivenObject]) -> None:
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], GivenObject]] = {}
        for given in objects:
            metadata = given.object.get("metadata") or {}
            kind = (str(given.object.get("apiVersion")), str(given.object.get("kind")))
            self._by_kind.setdefault(kind, {})[metadata.get("namespace") or "", metadata.get("name") or ""] = given
        self._in_namespaces: dict[tuple[str, str], dict[tuple[str, str], GivenObject]] = {}
        # By the recorded namespace that it was laid over: evaluation tells objects apart by identity.
        self._laid_over: dict[tuple[str, int], tuple[Evidence[Object | None], Known[Object | None]]] = {}

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

    def namespace(self, name: str, recorded: Evidence[Object | None]) -> Evidence[Object | None]:
        """A namespace: as it was recorded, or with the given one laid over it."""
        given = self.of_kind(*NAMESPACE).get(("", name))
        if given is None:
            return recorded
        found = self._laid_over.get((name, id(recorded)))
        if found is None:
            # What it is known by stays as long as the object.
            found = self._laid_over[name, id(recorded)] = (recorded, _laid_over(given, recorded))
        return found[1]

    def over(self, world: World) -> World:
        """A world in which these objects replace recorded ones."""
        return _WorldWithGiven(world, self) if self._by_kind else world


def _in_default(given: GivenObject) -> GivenObject:
    metadata = {**(given.object.get("metadata") or {}), "namespace": "default"}
    return replace(given, object={**given.object, "metadata": metadata})


def _laid_over(given: GivenObject, recorded: Evidence[Object | None]) -> Known[Object | None]:
    """A given Namespace over the recorded one. Of a namespace that was not recorded, labels of others are not known."""
    base: Object = {} if isinstance(recorded, Unknown) or recorded.value is None else recorded.value
    was, new = base.get("metadata") or {}, given.object.get("metadata") or {}
    before = _last_applied((was.get("annotations") or {}).get(_LAST_APPLIED))
    parts = {name: _applied(was.get(name), new.get(name), before.get(name)) for name in ("labels", "annotations")}
    # No request can change this label, and every namespace has it.
    parts["labels"][NAME_LABEL] = new.get("name")
    metadata = {**was, **{name: value for name, value in new.items() if name not in parts}, **parts}
    value = {**base, **given.object, "metadata": metadata}
    if isinstance(recorded, Unknown) or recorded.value is None:
        return Known(value, given.source, Grade.PARTIAL)
    return Known(value, f"{given.source} over {recorded.source}", recorded.grade)


def _applied(was: Any, new: Any, before: Any) -> dict[str, Any]:
    owned = before if isinstance(before, dict) else {}
    kept = {name: value for name, value in (was or {}).items() if name not in owned}
    return {**kept, **(new or {})}


def _last_applied(text: Any) -> Mapping[str, Any]:
    """The metadata of the manifest that was applied last; a value that is no manifest says nothing."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any]).get("metadata") if isinstance(text, str) else None
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


class _WorldWithGiven:
    def __init__(self, world: World, given: GivenObjects) -> None:
        self._world = world
        self._given = given

    def namespace(self, name: str) -> Evidence[Object | None]:
        return self._given.namespace(name, self._world.namespace(name))

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        if (api_version, kind) == NAMESPACE and ("", name) in self._given.of_kind(*NAMESPACE):
            return self.namespace(name)
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
        for name, item in given.items():
            found = self.param(api_version, kind, namespace, name)
            objects[name] = found.value if isinstance(found, Known) and found.value is not None else item.object
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
