"""Manifests that exemptions change, as they are written (YAML or JSON values): review dates in them, and the change as patches."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from ...manifests.documents import Document
from ...manifests.exempting import below
from ...manifests.writing import to_yaml
from ...request import Object
from ...stages.assign import kind_of
from ...stages.stage import Kind

# JSON that maps an exclusion to its review date (YYYY-MM-DD, or null), on every object that holds one. No cluster enforces it.
REVIEW_ANNOTATION = "hindcast/exemptions"

Key = tuple[str, str]  # kind and name


@dataclass(frozen=True)
class Manifests:
    """The objects that a stage judges by, by (kind, name), in the order in which they were given; and those given with them."""

    objects: Mapping[Key, Object]
    others: tuple[Object, ...] = ()

    @classmethod
    def of(cls, written: Iterable[Object], kinds: Collection[Kind]) -> Manifests:
        """Manifests of a stage that judges by objects of these kinds."""
        found = [(kind_of(Document(each, "")) in kinds, each) for each in written]
        return cls({key_of(each): each for is_own, each in found if is_own}, tuple(each for is_own, each in found if not is_own))

    def documents(self) -> list[Document]:
        """As a stage reads them."""
        return [Document(each, "changed manifests") for each in (*self.objects.values(), *self.others)]

    def to_yaml(self) -> str:
        """One YAML stream that can be applied and replayed."""
        return to_yaml([*self.objects.values(), *self.others])

    def bindings_of(self, policy: str) -> list[str]:
        """The names of a policy's bindings."""
        return [name for (kind, name), obj in self.objects.items() if is_binding(kind) and obj["spec"].get("policyName") == policy]

    def binding(self, name: str | None) -> Object | None:
        """The binding of this name; None where no binding has it."""
        return next((obj for (kind, own), obj in self.objects.items() if own == name and is_binding(kind)), None)

    def renamed(self, policy: Key, name: str, bindings: Iterable[Key]) -> tuple[dict[Key, Object], dict[str, str]]:
        """A copy of a policy and of some of its bindings under other names, and which binding is which.

        A replay can then hold the copy and the originals.

        A binding whose policy is missing gives a copy whose policy is missing too.
        """
        objects: dict[Key, Object] = {}
        origin: dict[str, str] = {}
        if policy in self.objects:
            objects[policy[0], name] = {**self.objects[policy], "metadata": {"name": name}}
        for position, binding in enumerate(bindings):
            obj = self.objects[binding]
            key = (binding[0], f"{position}.{name}")
            objects[key] = {**obj, "metadata": {"name": key[1]}, "spec": {**obj["spec"], "policyName": name}}
            origin[key[1]] = binding[1]
        return objects, origin

    def alone(self, policy: str, binding: Object) -> Manifests:
        """A policy with one binding, and all objects that were given with it."""
        own = {key: obj for key, obj in self.objects.items() if key[1] == policy and not is_binding(key[0])}
        return Manifests({**own, key_of(binding): binding}, self.others)

    def replaced(self, changed: Mapping[Key, Object]) -> Manifests:
        """With some objects replaced or added."""
        return Manifests({**self.objects, **changed}, self.others)


def key_of(obj: Object) -> Key:
    """Kind and name of an object."""
    return obj["kind"], obj["metadata"]["name"]


def is_binding(kind: str) -> bool:
    """Whether a kind is that of bindings of policies."""
    return kind.endswith("Binding")


def annotate(obj: Object, words: str, review_by: date | None) -> None:
    """Note an exemption and its review date in an annotation of the object."""
    annotations = below(obj["metadata"], "annotations", dict)
    noted = dict(exemption_dates(obj))
    noted[words] = review_by
    annotations[REVIEW_ANNOTATION] = json.dumps({name: day.isoformat() if day else None for name, day in sorted(noted.items())})


def exemption_dates(obj: Object) -> dict[str, date | None]:
    """The review dates in an object's annotation, by exemption; empty if the annotation is missing or cannot be read."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(REVIEW_ANNOTATION)
    try:
        noted = json.loads(text) if isinstance(text, str) else {}
        return {str(name): date.fromisoformat(day) if day else None for name, day in noted.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def merge_patches(before: Manifests, after: Manifests) -> list[Object]:
    """The changes, one object per changed manifest: a patch for `kubectl patch --type=merge`, and for kustomize.

    Lists stand in full, so it is both a JSON merge patch (RFC 7386) and a strategic merge patch. New objects stand as a whole.
    """
    return [
        {**{name: obj[name] for name in ("apiVersion", "kind")}, **_with_name(obj, patch)}
        for key, obj in after.objects.items()
        if (patch := _difference(before.objects.get(key), obj)) is not None
    ]


def _with_name(obj: Object, patch: Object) -> Object:
    return {**patch, "metadata": {"name": obj["metadata"]["name"], **patch.get("metadata", {})}}


def _difference(old: Any, new: Any) -> Any:
    """The merge patch from `old` to `new`; None if they are equal."""
    if old == new:
        return None
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    changed = {name: patch for name, value in new.items() if (patch := _difference(old.get(name), value)) is not None}
    return {**changed, **dict.fromkeys(name for name in old if name not in new)}


def json_patches(before: Manifests, after: Manifests) -> list[Object]:
    """The same as JSON patches (RFC 6902): `{"target": {kind, name}, "patch": [operations]}`. A new object has no JSON patch."""
    found = []
    for (kind, name), obj in after.objects.items():
        old = before.objects.get((kind, name))
        if old is not None and old != obj:
            found.append({"target": {"kind": kind, "name": name}, "patch": list(_operations(old, obj, ""))})
    return found


def _operations(old: Object, new: Object, path: str) -> Iterator[Object]:
    for name, value in new.items():
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in old:
            yield {"op": "add", "path": pointer, "value": value}
        elif isinstance(old[name], dict) and isinstance(value, dict):
            yield from _operations(old[name], value, pointer)
        elif old[name] != value:
            yield {"op": "replace", "path": pointer, "value": value}
