"""What later stages make of a mutated object: the checks of its kind, and validating policies that were given too.

On create the API server prepares and validates the object between mutating and validating admission.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from ...admission.policies.dispatch import CompiledSet, evaluate_request
from ...admission.policies.inputs import AuthorizeUser
from ...admission.policies.messages import denial_message
from ...history.event import Event
from ...history.intended import prepared_create, prepared_update
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from ...world import World
from ..schema.writing import Operation as Write
from ..schema.writing import write
from .kinds import KnownKind
from .nil_lists import as_seen
from .walk import Met


@dataclass(frozen=True)
class Later:
    """The refusals of later stages that a mutation brings about. `invalid` is the API server's own, empty without one."""

    invalid: str = ""
    denials: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        """Short names for the summary."""
        return ["invalid-after"] * bool(self.invalid) + ["denied-after"] * bool(self.denials)


def judge_later(entered: AdmissionRequest, met: Met, changed: Object, policies: CompiledSet, world: World) -> Later:
    """The later refusals of the changed object that the object without the mutations would not have met."""
    changed = as_seen(changed)
    invalid = _wrong_namespace(met.event, changed)
    if not invalid and not isinstance(met.kind, Unknown) and met.kind.custom is not None and not met.event.subresource:
        invalid = _new_errors(entered, changed, met.kind)
    if invalid or not policies.entries:
        return Later(invalid)
    before, after = (
        _denials(prepared(each, met.name, met.event, met.kind), policies, world, met.authorize)
        for each in (entered, replace(entered, object=_known(entered, changed)))
    )
    return Later("", tuple(text for policy, text in after.items() if policy not in before))


def _known(entered: AdmissionRequest, changed: Object) -> Known[Object | None]:
    grade = entered.object.grade if isinstance(entered.object, Known) else Grade.PARTIAL
    return Known(deepcopy(changed), "the object after mutating policies", grade)


def _wrong_namespace(event: Event, changed: Object) -> str:
    """A mutation must not move an object (apiserver pkg/registry/rest/meta.go, EnsureObjectNamespaceMatchesRequestNamespace)."""
    namespace = (changed.get("metadata") or {}).get("namespace") or ""
    if event.namespace and event.resource.resource != "namespaces" and namespace not in ("", event.namespace):
        return "the namespace of the provided object does not match the namespace sent on the request"
    return ""


def _new_errors(entered: AdmissionRequest, changed: Object, kind: KnownKind) -> str:
    assert kind.custom is not None
    before = entered.object.value if isinstance(entered.object, Known) else None
    old = entered.old_object.value if isinstance(entered.old_object, Known) else None
    operation = Write.CREATE if entered.operation is Operation.CREATE else Write.UPDATE
    if operation is Write.UPDATE and old is None:
        return ""
    found: list[Any] = [
        write(kind.custom, operation, _named(each), old) if each is not None else None for each in (changed, before)
    ]
    if not found[0].errors or (found[1] is not None and found[1].errors):
        return ""
    message: str = found[0].message(kind.custom)
    return message


def _named(value: Object) -> Object:
    """With a name that is generated later."""
    metadata = value.get("metadata") or {}
    if metadata.get("name") or not metadata.get("generateName"):
        return value
    return {**value, "metadata": {**metadata, "name": f"{metadata['generateName']}xxxxx"}}


def prepared(request: AdmissionRequest, name: Evidence[str], event: Event, kind: KnownKind | Unknown) -> AdmissionRequest:
    """The request as validating admission sees it, with the name that it sees. The object is that after mutating admission."""
    found = request.object
    if not isinstance(found, Known) or found.value is None or request.operation is Operation.CONNECT:
        return request
    value = deepcopy(found.value)
    old = request.old_object.value if isinstance(request.old_object, Known) else None
    if request.operation is Operation.CREATE:
        value = prepared_create(value, name, event)
    else:
        value = prepared_update(value, old or {}, event)
    if not isinstance(kind, Unknown) and kind.custom is not None and kind.custom.has_status and event.subresource != "status":
        # An object with a status subresource keeps its status, and a new one has none.
        value.pop("status", None)
        value |= {"status": old["status"]} if old and "status" in old else {}
    return replace(request, object=replace(found, value=value), name=name)


def _denials(request: AdmissionRequest, policies: CompiledSet, world: World, authorize: AuthorizeUser) -> dict[str, str]:
    """The messages of the policies that would refuse a request, by policy."""
    found: dict[str, str] = {}
    for verdict in evaluate_request(policies, request, world, authorize):
        if verdict.rejects and not verdict.is_summary:
            found.setdefault(verdict.policy, denial_message(request, verdict))
    return found
