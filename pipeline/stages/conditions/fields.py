"""The fields that selectors compare, with their types: a selector compares texts, and an object has typed values.

Built-in kinds: ToSelectableFields of each strategy.go under kubernetes pkg/registry, and AddFieldLabelConversionFunc under
pkg/apis. An absent field has the text of its zero value there, because the server renders a decoded object. Of a custom resource an
absent field is "" (apiextensions-apiserver pkg/apis/apiextensions/v1/types.go, SelectableField).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .logic.formula import Key, Kind


class Shown(NamedTuple):
    """A field of a built-in kind as a selector names it, with the path of its value."""

    name: str
    path: tuple[str, ...]
    kind: Kind = Kind.TEXT

    @property
    def absent(self) -> str:
        """What a selector compares where an object lacks the field."""
        return {Kind.TEXT: "", Kind.BOOLEAN: "false", Kind.INTEGER: "0"}[self.kind]


def _shown(name: str, kind: Kind = Kind.TEXT, at: str = "") -> Shown:
    return Shown(name, tuple((at or name).split(".")), kind)


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_BUILT_IN: Mapping[tuple[str, str], tuple[Shown, ...]] = {
    ("", "secrets"): (_shown("type"),),
    ("", "pods"): (
        *map(_shown, ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")),
        _shown("spec.hostNetwork", Kind.BOOLEAN),
        *map(_shown, ("status.phase", "status.podIP", "status.nominatedNodeName")),
    ),
    ("", "nodes"): (_shown("spec.unschedulable", Kind.BOOLEAN),),
    ("", "namespaces"): (_shown("status.phase"), _shown("name", at="metadata.name")),
    ("", "events"): (
        *(_shown(f"involvedObject.{part}") for part in _INVOLVED),
        _shown("reason"), _shown("type"), _shown("reportingComponent"),
    ),
    ("events.k8s.io", "events"): (
        *(_shown(f"regarding.{part}") for part in _INVOLVED),
        _shown("reason"), _shown("type"), _shown("reportingController"),
    ),
    ("", "replicationcontrollers"): (_shown("status.replicas", Kind.INTEGER),),
    ("apps", "replicasets"): (_shown("status.replicas", Kind.INTEGER),),
    ("batch", "jobs"): (_shown("status.successful", Kind.INTEGER, "status.succeeded"),),
    ("certificates.k8s.io", "certificatesigningrequests"): (_shown("spec.signerName"),),
    ("resource.k8s.io", "resourceslices"): (_shown("spec.nodeName"), _shown("spec.driver")),
}  # fmt: skip
# The server gives each object of these a value: by default (pkg/apis/core/v1/defaults.go, SetDefaults_Secret, SetDefaults_PodSpec)
# and its phase at creation (pkg/registry/core/pod/strategy.go and namespace/strategy.go, PrepareForCreate).
_ALWAYS_SET = {
    ("", "secrets"): frozenset({"type"}),
    ("", "pods"): frozenset({"spec.restartPolicy", "spec.schedulerName", "status.phase"}),
    ("", "namespaces"): frozenset({"status.phase"}),
}
# Two fields of an event feed this one, so that no key stands for it.
_COMPUTED = {("", "events"): frozenset({"source"})}
_ANY_RESOURCE = (_shown("metadata.name"), _shown("metadata.namespace"))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one resource.

    `typed` has the types of fields of custom resources, sorted by path, and `selectable` the names of those that selectors take. Of
    built-in kinds both are known. Without a type a field counts as a text.
    """

    group: str = ""
    resource: str = ""
    typed: tuple[tuple[tuple[str, ...], Kind], ...] = ()
    selectable: frozenset[str] = frozenset()

    def is_always_set(self, name: str) -> bool:
        """Whether every stored object of the resource has a value in a field, so that an empty one selects nothing."""
        return name in _ALWAYS_SET.get((self.group, self.resource), ())

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The fields of the resource that selectors take, in addition to a name and a namespace."""
        return _BUILT_IN.get((self.group, self.resource), ())

    def key(self, path: tuple[str, ...]) -> Key:
        """The key of a value of an object, as conditions read it."""
        found = next((each for each in (*_ANY_RESOURCE, *self.shown) if each.path == path), None)
        if found is not None:
            return Key(path, found.kind, found.absent)
        return Key(path, dict(self.typed).get(path, Kind.TEXT))

    def named(self, name: str) -> Key | None:
        """The key of a field that a selector names; None where the server computes it from several."""
        if name in _COMPUTED.get((self.group, self.resource), ()):
            return None
        found = next((each for each in self.shown if each.name == name), None)
        return self.key(found.path if found is not None else tuple(name.split(".")))

    def name_of(self, key: Key) -> str | None:
        """How a selector names a key; None where it cannot select by it."""
        found = next((each.name for each in (*_ANY_RESOURCE, *self.shown) if each.path == key.path), None)
        return found or (str(key) if str(key) in self.selectable else None)

    def is_typed(self, key: Key) -> bool:
        """Whether the type of a key is known."""
        known = (each.path for each in self.shown)
        return key.is_label or key.path[0] == "metadata" or key.path in known or key.path in dict(self.typed)

    def is_single(self, path: tuple[str, ...]) -> bool:
        """Whether the value at a path, if there is any, is surely one text, boolean or integer, and neither a map nor a list."""
        known = {each.path for each in (*_ANY_RESOURCE, *self.shown)} | dict(self.typed).keys()
        return path in known or ".".join(path) in self.selectable

    def assuming(self, types: Mapping[tuple[str, ...], Kind]) -> Fields:
        """These fields, with types for some that have none."""
        return Fields(self.group, self.resource, tuple(sorted({**types, **dict(self.typed)}.items())), self.selectable)

    def text(self, obj: Mapping[str, Any], name: str) -> str:
        """The value of a field as a selector compares it."""
        key = self.named(name)
        if key is None:
            source, component = value_at(obj, ("source", "component")), value_at(obj, ("reportingComponent",))
            return source if isinstance(source, str) and source else component if isinstance(component, str) else ""
        found = rendered(value_at(obj, key.path))
        return key.absent if found is None else found


def rendered(value: Any) -> str | None:
    """A value as the text that a selector compares; None for one that no selector compares."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) else None


def value_at(obj: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; None without one."""
    for part in path:
        if not isinstance(obj, Mapping) or part not in obj:
            return None
        obj = obj[part]
    return obj


def kind_of(value: Any) -> Kind | None:
    """The type of a value that a field can have; None for every other value."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    return Kind.INTEGER if isinstance(value, int) else Kind.TEXT if isinstance(value, str) else None
