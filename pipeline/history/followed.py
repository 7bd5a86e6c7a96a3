"""How well the record shows an object that no answer shows: the body that the client sent, and the patches that webhooks made.

A create is never tried twice, so its recorded patches are those that validating admission saw. An update or a patch that meets
another write is tried again, and the event keeps the patches of the first try (kubernetes/apiserver pkg/audit/context.go and
pkg/registry/generic/registry/store.go). What built-in plugins, defaults and strategies change is not recorded. It follows from
rules for the resources listed here; the fields that the server makes up are left out (see pipeline/policies/invented.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..request import Grade, GroupVersionResource, Json
from .creation import has_defaults
from .event import Event, decode_json
from .kinds import by_resource
from .patch import tokens_of
from .patching import PatchType, patch_type

# Built-in resources without a plugin that changes them, and whose strategies `prepare_for_create` follows. Tests compare them with
# recorded AdmissionReviews. Left out are pods, nodes, volumes, claims and ingresses, which built-in plugins change.
_FOLLOWED = frozenset(
    {
        ("", "configmaps"),
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "namespaces"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("coordination.k8s.io", "leases"),
        ("discovery.k8s.io", "endpointslices"),
        ("events.k8s.io", "events"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "ipaddresses"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)
# An update keeps allocated addresses of a Service that the client leaves out.
_FOLLOWED_UPDATES = _FOLLOWED - {("", "services")}

_TEXTS = (("metadata", "labels"), ("metadata", "annotations"))
_ATTEMPT = re.compile(r"^mutation(\.webhook\.admission\.k8s\.io/round_\d+_index_\d+)$")
_MUTATED = re.compile(r'"mutated"\s*:\s*true')


def grade_of_create(event: Event, patches: Iterable[Mapping[str, Any]], has_mutating_policies: bool) -> Grade:
    """How well the body and the operations of webhooks show the created object: EXACT or PARTIAL.

    Fields that the server makes up, such as the uid, are not in the object at all.
    """
    place = (event.resource.group, event.resource.resource)
    is_custom = by_resource(*place) is None
    if event.verb != "create" or event.subresource or (place not in _FOLLOWED and not (is_custom and not _has_status(event))):
        return Grade.PARTIAL
    followed = all(_is_followed(each, event.resource) for each in patches)
    return Grade.EXACT if followed and _is_untouched(event, has_mutating_policies) else Grade.PARTIAL


def grade_of_update(event: Event, patches: Iterable[Mapping[str, Any]], has_mutating_policies: bool) -> Grade:
    """How well a body over a stored object, and the operations of webhooks, show the new object: INFERRED or PARTIAL.

    It does not ask how well the stored object is known, nor whether the write was tried again.
    """
    place = (event.resource.group, event.resource.resource)
    if event.subresource not in ("", "status"):
        return Grade.PARTIAL
    if event.verb == "patch":
        if not _touches_texts_alone(event) and (has_defaults(event.resource) or place not in _FOLLOWED):
            return Grade.PARTIAL
    elif place not in _FOLLOWED_UPDATES:
        return Grade.PARTIAL
    followed = all(_is_followed(each, event.resource) for each in patches)
    return Grade.INFERRED if followed and _is_untouched(event, has_mutating_policies) else Grade.PARTIAL


def _is_untouched(event: Event, has_mutating_policies: bool) -> bool:
    """Whether nothing changed the object without a trace: no policy, no redaction, and no webhook whose patch was not recorded."""
    if has_mutating_policies or "redacted" in event.flags:
        return False
    for key, value in event.annotations.items():
        if (found := _ATTEMPT.match(key)) and _MUTATED.search(value) and f"patch{found[1]}" not in event.annotations:
            return False
    return True


def _is_followed(operation: Mapping[str, Any], resource: GroupVersionResource) -> bool:
    """Whether the server makes nothing else of a patched part: it has no defaults, and its type takes the value."""
    name = operation.get("op")
    try:
        path = tokens_of(str(operation.get("path", "")))
    except ValueError:
        return False
    if name == "test":
        return True
    if name not in ("add", "replace", "remove"):
        return False
    value = operation.get("value")
    if tuple(path[:2]) in _TEXTS:
        return _are_texts(value, len(path) - 2)
    if (resource.group, resource.resource) == ("", "configmaps") and path[:1] == ["data"]:
        return _are_texts(value, len(path) - 1)
    # A custom resource may get defaults in a new object, or in place of a removed field, and not next to a new scalar.
    is_custom = by_resource(resource.group, resource.resource) is None
    return (
        is_custom
        and name != "remove"
        and bool(path)
        and path[0] == "spec"
        and not isinstance(value, (dict, list))
        and value is not None
    )


def _are_texts(value: Json, depth: int) -> bool:
    """Whether a value fits into a map of texts, `depth` levels below the map. The server reads null as an empty text."""
    if depth == 0:
        return value is None or (isinstance(value, dict) and all(_are_texts(each, 1) for each in value.values()))
    return depth == 1 and (value is None or isinstance(value, str))


def _has_status(event: Event) -> bool:
    """Whether the body has a status: a definition with that subresource drops it."""
    body = decode_json(event.request_raw) if event.request_raw is not None else None
    return isinstance(body, dict) and "status" in body


def _touches_texts_alone(event: Event) -> bool:
    """Whether a patch changes labels and annotations only."""
    if event.request_raw is None:
        return False
    patch = decode_json(event.request_raw)
    match patch_type(patch, event.request_uri, event.resource, event.subresource):
        case PatchType.JSON:
            return all(isinstance(each, dict) and each.get("op") != "move" and _is_in_texts(each) for each in patch)
        case PatchType.MERGE | PatchType.STRATEGIC:
            parts = {name: part for name, part in patch.items() if name not in ("apiVersion", "kind")}
            metadata = parts.get("metadata")
            return (
                parts.keys() <= {"metadata"} and isinstance(metadata, dict) and metadata.keys() <= {"labels", "annotations", "name"}
            )
    return False


def _is_in_texts(operation: Mapping[str, Any]) -> bool:
    try:
        return tuple(tokens_of(str(operation.get("path", "")))[:2]) in _TEXTS
    except ValueError:
        return False
