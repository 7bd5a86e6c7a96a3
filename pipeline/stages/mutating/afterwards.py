"""What later stages make of a mutated object: the checks of its kind, Pod Security, and validating policies.

On create the API server prepares and validates the object between mutating and validating admission. Where a later stage surely
refuses what a mutation brings, that is a refusal. Where it may, the request is in doubt: see taken.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...authorization import AuthorizeUser
from ...history.event import Event, decode_json
from ...history.fitness import UNFIT
from ...history.intended import prepared_create, prepared_update
from ...policies.dispatch import CompiledSet, evaluate_request
from ...policies.messages import denial_message
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from ...world import World
from ..pod_security.policy import PREFIX
from ..schema.writing import Operation as Write
from ..schema.writing import write
from .changes import has_changes
from .frozen import frozen
from .kinds import KnownKind
from .nil_lists import as_json, as_seen, copied
from .plugins_after import of_pod_security, of_policies
from .taken import METADATA, UNCHECKED, Doubt, annotation_doubts, doubts, pod_doubts, rule_of
from .walk import Met

IN_DOUBT = "whether the mutated object is admitted: "
_DOUBTS_SHOWN = 3


@dataclass(frozen=True)
class Later:
    """The refusals of later stages that a mutation brings about. `invalid` is the API server's own, empty without one.

    `denials` are those of given validating policies. `doubts` are the fields with which the request may be refused, where neither
    refuses it for certain.
    """

    invalid: str = ""
    denials: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def flags(self) -> list[str]:
        """Short names for the summary."""
        return ["invalid-after"] * bool(self.invalid) + ["denied-after"] * bool(self.denials)

    @property
    def why(self) -> str:
        """Why the outcome is in doubt; empty if it is not."""
        shown = "; ".join(map(str, self.doubts[:_DOUBTS_SHOWN]))
        more = f"; and {len(self.doubts) - _DOUBTS_SHOWN:,} more fields" if len(self.doubts) > _DOUBTS_SHOWN else ""
        return f"{IN_DOUBT}{shown}{more}" if shown else ""


def judge_later(entered: AdmissionRequest, met: Met, changed: Object, policies: CompiledSet, world: World, minor: int) -> Later:
    """The later refusals of the changed object that the object without the mutations would not have met."""
    changed = as_seen(changed)
    invalid = _wrong_namespace(met.event, changed)
    if not invalid and not isinstance(met.kind, Unknown) and met.kind.custom is not None and not met.event.subresource:
        invalid = _new_errors(entered, changed, met.kind)
    if invalid:
        return Later(invalid)
    before, after = (
        prepared(each, met.name, met.event, met.kind) for each in (entered, replace(entered, object=_known(entered, changed)))
    )
    if policies.entries:
        was, now = (_denials(each, policies, world, met.authorize) for each in (before, after))
        if denials := tuple(text for policy, text in now.items() if policy not in was):
            return Later("", denials)
    try:
        return Later(doubts=tuple(_doubts(entered, met, changed, (before, after), world, minor)))
    except UNFIT:
        # A client sent a part of another type than its kind has; what a server makes of that depends on the part.
        return Later(doubts=(Doubt("", "a part of the object is not of the type that its kind has"),))


def _doubts(
    entered: AdmissionRequest,
    met: Met,
    changed: Object,
    requests: tuple[AdmissionRequest, AdmissionRequest],
    world: World,
    minor: int,
) -> Iterator[Doubt]:
    sent = as_json(entered.object.value) if isinstance(entered.object, Known) and entered.object.value is not None else {}
    changed = as_json(changed)
    if _was_taken(met.event, sent, changed):
        return
    if not isinstance(met.kind, Unknown):
        yield from of_fields(entered, sent, changed, met.kind)
    yield from of_pod_security(requests[1], sent, changed, world, minor)
    yield from of_policies(met.in_force, *requests)


def _was_taken(event: Event, before: Object, changed: Object) -> bool:
    """Whether the recorded answer has these very changes, so that every later stage let them pass."""
    raw = event.written_raw
    return raw is not None and has_changes(before, changed, decode_json(raw))


def of_fields(entered: AdmissionRequest, before: Object, after: Object, kind: KnownKind) -> list[Doubt]:
    """The fields that a mutation changes although they may not, and those that may be refused as it leaves them; each once."""
    found: dict[str, Doubt] = {}
    for each in _of_fields(entered, before, after, kind):
        found.setdefault(each.path, each)
    return list(found.values())


def _of_fields(entered: AdmissionRequest, before: Object, after: Object, kind: KnownKind) -> Iterator[Doubt]:
    resource = (entered.resource.group, entered.resource.resource)
    old = entered.old_object.value if isinstance(entered.old_object, Known) else None
    is_update = entered.operation is Operation.UPDATE and not entered.subresource
    if is_update and old is not None:
        yield from frozen(resource, old, before, after)
    elif is_update and (touched := list(frozen(resource, {}, before, after))):
        yield from (Doubt(each.path, "no update may change it, and the object before this one is not known") for each in touched)
    yield from _of_metadata(resource, old or {}, before, after)
    if kind.custom is not None:
        parts = [{name: value for name, value in each.items() if name != "metadata"} for each in (before, after)]
        if entered.subresource and parts[0] != parts[1]:
            yield Doubt(entered.subresource, UNCHECKED)
        elif is_update and old is None and parts[0] != parts[1]:
            yield Doubt("spec", "rules of its schema may compare with the object before this one, which is not known")
        yield from doubts(before.get("metadata") or {}, after.get("metadata") or {}, _METADATA, "metadata")
        return
    rule = rule_of(resource, entered.subresource)
    yield from doubts(before, after, {**rule, "metadata": _METADATA})
    if resource == ("", "pods"):
        yield from pod_doubts(before.get("spec") or {}, after.get("spec") or {}, "spec")
    elif resource[0] == "apps":
        yield from _of_template(before.get("spec") or {}, after.get("spec") or {})


# `_of_metadata`, `frozen` and the server itself are for these.
_OWN = ("name", "namespace", "uid", "creationTimestamp", "finalizers", "generation", "managedFields", "resourceVersion")
_METADATA: dict[str, Any] = {
    **METADATA,
    **dict.fromkeys(_OWN, lambda value: True),
}


def _of_metadata(resource: tuple[str, str], old: Object, before: Object, after: Object) -> Iterator[Doubt]:
    was, now = (each.get("metadata") or {} for each in (before, after))
    if was.get("annotations") != now.get("annotations"):
        yield from annotation_doubts(now.get("annotations") or {}, "metadata.annotations")
    labels = now.get("labels") or {}
    levels = [key for key in labels if key.startswith(PREFIX) and (was.get("labels") or {}).get(key) != labels[key]]
    if levels and resource == ("", "namespaces"):
        yield Doubt("metadata.labels", "Pod Security checks the labels of levels")
    if was.get("finalizers") != now.get("finalizers") and (old.get("metadata") or {}).get("deletionTimestamp"):
        yield Doubt("metadata.finalizers", "an object that is being deleted gets no new finalizer")
    if was.get("name") != now.get("name"):
        yield Doubt("metadata.name", UNCHECKED)


def _of_template(before: Object, after: Object) -> Iterator[Doubt]:
    was, now = (each.get("template") or {} for each in (before, after))
    yield from pod_doubts(was.get("spec") or {}, now.get("spec") or {}, "spec.template.spec")
    labels = [(each.get("metadata") or {}).get("labels") or {} for each in (was, now)]
    selector = after.get("selector") or {}
    if labels[0] != labels[1]:
        wanted: Iterable[tuple[str, str]] = (selector.get("matchLabels") or {}).items()
        if selector.get("matchExpressions") or any(labels[1].get(key) != value for key, value in wanted):
            yield Doubt("spec.template.metadata.labels", "the selector has to match them")


def _known(entered: AdmissionRequest, changed: Object) -> Known[Object | None]:
    grade = entered.object.grade if isinstance(entered.object, Known) else Grade.PARTIAL
    return Known(copied(changed), "the object after mutating policies", grade)


def _wrong_namespace(event: Event, changed: Object) -> str:
    """A mutation must not move an object (apiserver pkg/registry/rest/meta.go, EnsureObjectNamespaceMatchesRequestNamespace)."""
    namespace = (changed.get("metadata") or {}).get("namespace") or ""
    if event.namespace and event.resource.resource != "namespaces" and namespace not in ("", event.namespace):
        return "the namespace of the provided object does not match the namespace sent on the request"
    return ""


def _new_errors(entered: AdmissionRequest, changed: Object, kind: KnownKind) -> str:
    found = errors_of_schema(entered, changed, kind)
    if isinstance(found, Unknown) or not found:
        return ""
    before = entered.object.value if isinstance(entered.object, Known) else None
    return found if before is None or not errors_of_schema(entered, before, kind) else ""


def errors_of_schema(entered: AdmissionRequest, changed: Object, kind: KnownKind) -> str | Unknown:
    """The server's words where the schema of a custom resource refuses an object; empty if it takes it."""
    assert kind.custom is not None
    old = entered.old_object.value if isinstance(entered.old_object, Known) else None
    operation = Write.CREATE if entered.operation is Operation.CREATE else Write.UPDATE
    operation = Write.STATUS if entered.subresource == "status" else operation
    if operation is not Write.CREATE and old is None:
        return Unknown("rules of its schema may compare with the object before this one, which is not known")
    found = write(kind.custom, operation, _named(changed), old)
    return found.message(kind.custom) if found.errors else ""


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
    value = copied(found.value)
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
