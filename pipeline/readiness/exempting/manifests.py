"""Manifests of policies and bindings, changed: exclusions put in with their review dates, and the change as patches.

All functions work on the objects as they are written (YAML or JSON values), and change only the requested fields.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from ...manifests.exempting import add_condition, below, leave_out_namespace
from ...manifests.writing import to_yaml
from ...policies.model import PolicySet
from ...request import Object
from ...stages.validating.decode import BINDING, POLICY, VERSIONS
from ...stages.validating.encode import binding_to_object, policy_to_object
from ...stages.validating.load import parse_policy_set
from .exclusions import Exclusion, Kind

# JSON that maps an exclusion to its review date (YYYY-MM-DD, or null), on every object that holds one. No cluster enforces it.
REVIEW_ANNOTATION = "hindcast/exemptions"

Key = tuple[str, str]  # kind and name


@dataclass(frozen=True)
class Manifests:
    """Policies and bindings as objects, by (kind, name), in the order in which they were given; and the objects given with them."""

    objects: Mapping[Key, Object]
    others: tuple[Object, ...] = ()

    @classmethod
    def of(cls, policies: PolicySet, written: Iterable[Object] = ()) -> Manifests:
        """The manifests of a policy set: as they were written if `written` has them, else made from the model."""
        own = {key_of(obj): obj for obj in written if obj.get("kind") in (POLICY, BINDING)}
        objects: dict[Key, Object] = {}
        for policy in policies.policies:
            objects[POLICY, policy.name] = own.get((POLICY, policy.name)) or policy_to_object(policy)
        for binding in policies.bindings:
            objects[BINDING, binding.name] = own.get((BINDING, binding.name)) or binding_to_object(binding)
        return cls(objects, tuple(given.object for given in policies.objects))

    def policy_set(self) -> PolicySet:
        """As the loader reads them. Raises InputError for objects that an API server would reject."""
        return parse_policy_set([("patched policies", self.to_yaml())])

    def to_yaml(self) -> str:
        """One YAML stream that can be applied and replayed."""
        return to_yaml([*self.objects.values(), *self.others])

    def bindings_of(self, policy: str) -> list[str]:
        """The names of a policy's bindings."""
        return [name for (kind, name), obj in self.objects.items() if kind == BINDING and obj["spec"].get("policyName") == policy]

    def only(self, policies: Collection[str]) -> Manifests:
        """Some of the policies with their bindings, and all objects that were given with them."""
        owners = {key: key[1] if key[0] == POLICY else obj["spec"].get("policyName") for key, obj in self.objects.items()}
        return Manifests({key: obj for key, obj in self.objects.items() if owners[key] in policies}, self.others)

    def renamed(self, policy: str, name: str, bindings: Iterable[str]) -> tuple[dict[Key, Object], dict[str, str]]:
        """A copy of a policy and of some of its bindings under other names, and which binding is which.

        A replay can then hold the copy and the originals.

        A binding whose policy is missing gives a copy whose policy is missing too.
        """
        objects: dict[Key, Object] = {}
        origin: dict[str, str] = {}
        if (POLICY, policy) in self.objects:
            objects[POLICY, name] = {**self.objects[POLICY, policy], "metadata": {"name": name}}
        for position, binding in enumerate(bindings):
            obj = self.objects[BINDING, binding]
            key = (BINDING, f"{position}.{name}")
            objects[key] = {**obj, "metadata": {"name": key[1]}, "spec": {**obj["spec"], "policyName": name}}
            origin[key[1]] = binding
        return objects, origin

    def replaced(self, changed: Mapping[Key, Object]) -> Manifests:
        """With some objects replaced or added."""
        return Manifests({**self.objects, **changed}, self.others)


def key_of(obj: Object) -> Key:
    """Kind and name of an object."""
    return obj["kind"], obj["metadata"]["name"]


def with_exclusions(manifests: Manifests, exclusions: Iterable[tuple[Exclusion, date | None]]) -> Manifests:
    """The manifests with each exclusion put in, and its review date in an annotation of the object that it changed.

    A policy without a binding gets one if an exclusion needs it: it has the policy's name and only audits. Raises InputError if
    that policy needs params, because only its owner can choose the paramRef of a binding.
    """
    changed: dict[Key, Object] = {}
    for exclusion, review_by in sorted(exclusions, key=lambda entry: entry[0].order):
        key = (POLICY, exclusion.policy) if exclusion.binding is None else (BINDING, exclusion.binding)
        obj = changed.get(key)
        if obj is None:
            obj = changed[key] = copy.deepcopy(manifests.objects.get(key) or new_binding(exclusion.policy, exclusion.binding or ""))
        _PUT[exclusion.kind](obj["spec"], exclusion)
        annotate(obj, exclusion.words, review_by)
    return manifests.replaced(changed)


def new_binding(policy: str, name: str) -> Object:
    """A binding that audits a policy everywhere."""
    return {
        "apiVersion": VERSIONS[0],
        "kind": BINDING,
        "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Audit"]},
    }


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


def _put_namespace(spec: Object, exclusion: Exclusion) -> None:
    leave_out_namespace(below(spec, "matchResources", dict), exclusion.subject)


def _put_condition(spec: Object, exclusion: Exclusion) -> None:
    add_condition(spec, exclusion.expression)


_PUT: Mapping[Kind, Callable[[Object, Exclusion], None]] = {
    Kind.NAMESPACE: _put_namespace,
    **dict.fromkeys((kind for kind in Kind if kind is not Kind.NAMESPACE), _put_condition),
}


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
