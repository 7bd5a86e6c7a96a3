"""The values that the expressions of a policy see. Follows kubernetes/apiserver pkg/admission/plugin/cel/{activation,condition}.go.

Objects may be decoded on first use, so nothing here touches a value before an expression needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any

from ..authorization import AuthorizeUser
from ..cel.library.authorizer import Answer, Attributes, Authorizer, request_resource
from ..cel.values import SparseMap
from ..cel.values import Unknown as CelUnknown
from ..matching import Conversion, Match
from ..request import (
    AdmissionRequest,
    Evidence,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
    worst,
)
from ..world import World
from .conversions import convert
from .declarations import NAMESPACE_METADATA
from .invented import with_invented
from .limits import Doubts, Limits, Measured, Together
from .reads import MANAGED_FIELDS
from .redacted import without_placeholders

NULL_PARAM = Measured("params", None)


class View(Enum):
    """The step that reads the values: the steps of an evaluation see slightly different values."""

    PLAIN = "validations and messages"
    CONDITIONS = "match conditions: never a namespaceObject"
    RAW = "audit annotations: the namespace as it is stored"


class NamespaceNotFoundError(Exception):
    """The stored namespace of the request is gone. The API server then answers 404 under every failurePolicy."""


class Inputs:
    """The values of one request, each made at most once. `authorize` is None where the authorization decisions are unknown.

    `managed_fields` says that an expression reads metadata.managedFields, which stored objects have and audit logs leave out.
    `is_mutating`: mutating admission reads the values, before the server gives a new object its name and its uid.
    """

    def __init__(
        self,
        request: AdmissionRequest,
        world: World,
        authorize: AuthorizeUser | None = None,
        *,
        managed_fields: bool = False,
        is_mutating: bool = False,
    ) -> None:
        self.request = request
        self._managed_fields = managed_fields
        self._is_mutating = is_mutating
        self.world = world
        self._authorize = authorize or _nobody_knows
        self._plain: dict[str, Any] = {}
        self._measures: dict[str, Measured] = {}
        self._measured: dict[frozenset[str], Together] = {}
        self._values: dict[object, Any] = {}
        self._grades: dict[str, Grade] = {}
        self._namespace: Evidence[Object | None] | None = None

    def of(self, request: AdmissionRequest) -> Inputs:
        """The values of another request, with the same state of the cluster and the same authorizer."""
        return Inputs(request, self.world, self._authorize, managed_fields=self._managed_fields, is_mutating=self._is_mutating)

    def plain(self, names: frozenset[str]) -> dict[str, Any]:
        """Values by name of a request that matched under its own kind; there may be more. Copy the mapping before adding."""
        plain = self._plain
        for name in names:
            if name not in plain:
                plain[name] = self._value(name, None, View.PLAIN)
        return plain

    def seen(self, names: frozenset[str], match: Match | None, view: View) -> dict[str, Any]:
        """Values by name as a step sees them, in a new dictionary. Raises NamespaceNotFoundError."""
        return {name: self._value(name, match, view) for name in names}

    def _value(self, name: str, match: Match | None, view: View) -> Any:
        match name:
            case "object":
                return self._object(name, self.request.object, match)
            case "oldObject":
                return self._object(name, self.request.old_object, match)
            case "request":
                return self._request(match, view)
        return None if view is View.CONDITIONS else self._namespace_object(view is View.RAW)

    def grade(self, names: Iterable[str]) -> Grade:
        """The grade of the weakest piece of evidence behind some roots."""
        weakest = Grade.EXACT
        for name in names:
            found = self._grades.get(name)
            if found is None:
                pieces = self._evidence(name)
                found = self._grades[name] = worst(*[piece.grade for piece in pieces if isinstance(piece, Known)])
            if found is not Grade.EXACT:
                weakest = worst(weakest, found)
        return weakest

    def namespace(self) -> Evidence[Object | None]:
        """The stored namespace; Known(None) for cluster-scoped requests and for Namespaces themselves."""
        if self._namespace is None:
            kind, name = self.request.kind, self.request.namespace
            is_namespace = isinstance(kind, Known) and kind.value == GroupVersionKind("", "v1", "Namespace")
            if not name or is_namespace:
                self._namespace = Known(None, "cluster-scoped")
            else:
                found = self.world.namespace(name)
                if isinstance(found, Known) and found.value is None:
                    raise NamespaceNotFoundError(f'namespaces "{name}" not found')
                self._namespace = found
        return self._namespace

    def doubts(self, limits: Limits, names: frozenset[str], param: Any) -> Doubts:
        """The expressions over these roots and this param that may exceed their cost limits."""
        found = self._measured.get(names)
        if found is None:
            found = self._measured[names] = Together([NULL_PARAM, *(self._measure(name) for name in names)])
        if param is not None and param.__class__ is not CelUnknown:
            found = found.and_also(Measured("params", param))
        return limits.doubts(found)

    def _measure(self, name: str) -> Measured:
        found = self._measures.get(name)
        if found is None:
            value = self.plain(frozenset([name]))[name]
            # Looking at an unknown value costs nothing.
            found = self._measures[name] = Measured(name, None if value.__class__ is CelUnknown else value)
        return found

    def authorizer_values(self) -> dict[str, Any]:
        """`authorizer` and `authorizer.requestResource`, which always asks about the resource that the server received."""
        return self._once("authorizer", self._make_authorizer)  # type: ignore[no-any-return]

    def _make_authorizer(self) -> dict[str, Any]:
        request = self.request
        authorizer = Authorizer(partial(self._authorize, request.user))
        if isinstance(request.name, Unknown):
            check: Any = CelUnknown(f"request.name: {request.name.reason}")
        else:
            resource = request.resource
            check = request_resource(
                authorizer, resource.group, resource.resource, request.subresource, request.namespace, request.name.value
            )
        return {"authorizer": authorizer, "authorizer.requestResource": check}

    def _evidence(self, name: str) -> tuple[Evidence[object], ...]:
        request = self.request
        match name:
            case "object":
                return (request.object,)
            case "oldObject":
                return (request.old_object,)
            case "request":
                return (request.kind, request.name, request.options)
            case "namespaceObject":
                return (self.namespace(),)
            case "authorizer":
                # Logs do not record these checks: the answer follows from the roles and bindings at that time.
                return (Known(None, "authorizer", Grade.INFERRED),)
        return ()

    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]

    def _object(self, name: str, evidence: Evidence[Object | None], match: Match | None) -> Any:
        if isinstance(evidence, Unknown):
            return CelUnknown(f"{name}: {evidence.reason}")
        value = evidence.value
        if name == "object" and self.request.operation is Operation.CREATE and not self._is_mutating:
            value = self._once((name, "invented"), lambda: with_invented(evidence.value, self.request))
        if evidence.is_redacted:
            shown = value
            value = self._once((name, "redacted"), lambda: without_placeholders(name, shown))
        if self._managed_fields:
            whole = value
            value = self._once((name, MANAGED_FIELDS), lambda: with_managed_fields(name, whole))
        if match is None or match.conversion is Conversion.NONE:
            return value
        kind = match.matched_kind
        if value is None or not isinstance(kind, Known):
            return value
        return self._once((name, kind.value), lambda: convert(name, value, kind.value, match.conversion))

    def _request(self, match: Match | None, view: View) -> dict[str, Any]:
        # Match conditions see the original resource together with the matched kind.
        is_original = match is None or view is View.CONDITIONS
        resource = self.request.resource if is_original else match.matched_resource  # type: ignore[union-attr]
        kind = self.request.kind if match is None else match.matched_kind
        assert resource is not None
        assert kind is not None
        key = "request" if match is None else (resource, kind.value if isinstance(kind, Known) else None)
        return self._once(key, lambda: request_value(self.request, resource, kind))  # type: ignore[no-any-return]

    def _namespace_object(self, raw: bool) -> Any:
        evidence = self.namespace()
        if isinstance(evidence, Unknown):
            return self._once(("namespaceObject", raw), lambda: named_namespace(self.request.namespace, evidence.reason))
        value = evidence.value
        if value is None:
            return None
        return self._once(("namespaceObject", raw), lambda: self._shown_namespace(evidence, raw))

    def _shown_namespace(self, evidence: Known[Object | None], raw: bool) -> dict[str, Any]:
        shown = namespace_value(evidence.value or {}, raw)
        return without_placeholders("namespaceObject", shown) if evidence.is_redacted else shown


def _nobody_knows(user: UserInfo, attributes: Attributes) -> Answer:
    return Answer(None)


def request_value(request: AdmissionRequest, resource: GroupVersionResource, kind: Evidence[GroupVersionKind]) -> dict[str, Any]:
    """The `request` variable. Fields that Go omits when empty are absent here too: reading one is the error `no such key`."""
    value: dict[str, Any] = {
        "kind": _kind(kind),
        "resource": _resource(resource),
        "requestKind": _kind(request.kind),
        "requestResource": _resource(request.resource),
        "operation": str(request.operation),
        "userInfo": _user_info(request),
        "dryRun": _dry_run(request.dry_run),
        "options": _options(request.options),
    }
    if request.subresource:
        value["subResource"] = value["requestSubResource"] = request.subresource
    if isinstance(request.name, Unknown):
        value["name"] = CelUnknown(f"request.name: {request.name.reason}")
    elif request.name.value:
        value["name"] = request.name.value
    if request.namespace:
        value["namespace"] = request.namespace
    return value


def with_managed_fields(name: str, value: Object | None) -> Object | None:
    """The object `name` with the managedFields that every stored object has: unknown where the record leaves them out."""
    metadata = (value or {}).get("metadata")
    if value is None or metadata.__class__ is not dict or MANAGED_FIELDS in metadata:
        return value
    left_out = CelUnknown(f"{name}.metadata.{MANAGED_FIELDS}: left out of the record")
    return {**value, "metadata": {**metadata, MANAGED_FIELDS: left_out}}


def namespace_value(namespace: Mapping[str, Any], raw: bool) -> dict[str, Any]:
    """The `namespaceObject` variable: without type, and without managedFields and ownerReferences unless `raw`.

    Audit annotations get the raw namespace (kubernetes/apiserver validating/validator.go passes another variable there). Both forms
    are a typed Namespace: metadata, spec and status are structs, which are present even where a record leaves them out.
    """
    value = {key: item for key, item in namespace.items() if key not in ("apiVersion", "kind")}
    for part in ("metadata", "spec", "status"):
        value[part] = value.get(part) or {}
    if not raw:
        hidden = ("managedFields", "ownerReferences", "selfLink")
        value["metadata"] = {key: item for key, item in value["metadata"].items() if key not in hidden}
    return value


def named_namespace(name: str, reason: str) -> Any:
    """The `namespaceObject` variable where only the name of the namespace is known, from the URL of the request."""
    missing = CelUnknown(f"namespaceObject: {reason}")
    if not name:
        return missing
    # A Namespace is in no namespace.
    metadata = SparseMap({field: missing for field in NAMESPACE_METADATA.fields if field != "namespace"} | {"name": name})
    return {"metadata": metadata, "spec": missing, "status": missing}


def _kind(kind: Evidence[GroupVersionKind]) -> Any:
    if isinstance(kind, Unknown):
        return CelUnknown(f"request.kind: {kind.reason}")
    return {"group": kind.value.group, "version": kind.value.version, "kind": kind.value.kind}


def _resource(resource: GroupVersionResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


def _user_info(request: AdmissionRequest) -> dict[str, Any]:
    user = request.user
    fields = {"username": user.username, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    # Only authenticators and redaction write these values.
    known = {name: without_placeholders(f"request.userInfo.{name}", value) for name, value in fields.items() if value}
    if user.is_whole:
        return known
    recorded = "only the user's name was recorded" if user.username else "the user was not recorded"
    missing = {name: CelUnknown(f"request.userInfo.{name}: {recorded}") for name in fields}
    return SparseMap(missing | known)


def _dry_run(dry_run: bool | Unknown) -> Any:
    return CelUnknown(f"request.dryRun: {dry_run.reason}") if isinstance(dry_run, Unknown) else dry_run


def _options(options: Evidence[Object | None]) -> Any:
    if isinstance(options, Unknown):
        return CelUnknown(f"request.options: {options.reason}")
    return without_placeholders("request.options", options.value) if options.is_redacted else options.value
