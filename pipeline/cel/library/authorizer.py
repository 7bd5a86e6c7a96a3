"""Authorization checks: apiserver pkg/cel/library/authz.go.

The library only builds the question. The caller passes `Authorize`, a function from `Attributes` to `Answer`. An answer that was
not recorded makes the check `Unknown`, and so every expression that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

from ..functions import Library
from ..types import BOOL, STRING, Type, opaque
from ..values import CelError, Opaque, Unknown, Value, no_such_overload
from .costs import selector
from .declare import function, member
from .formats import dns_label, dns_subdomain

CHECK_COST = 350_000


class Attributes(NamedTuple):
    """The question: may the user do `verb` to a path, or to a resource?

    `service_account` is (namespace, name) if the question is about a service account and not about the user of the request.
    Selectors are as the expression spells them; a server ignores a selector that it cannot parse. Those of a recorded request are
    None where the log does not show them. `is_redacted`: redaction replaced the name, or a part of the path.
    """

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str | None = ""
    label_selector: str | None = ""
    service_account: tuple[str, str] | None = None
    is_redacted: bool = False

    @property
    def is_resource_request(self) -> bool:
        return not self.path

    def __str__(self) -> str:
        """Such as `create deployments.apps/status test/backend`."""
        if self.path:
            target = self.path
        else:
            resource = f"{self.resource}.{self.group}" if self.group else self.resource
            resource += f"/{self.subresource}" if self.subresource else ""
            instance = "/".join(part for part in (self.namespace, self.name) if part)
            target = f"{resource} {instance}".rstrip()
        whose = f" as system:serviceaccount:{':'.join(self.service_account)}" if self.service_account else ""
        return f"{self.verb} {target}{whose}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an authorizer. `allowed` is None if it is unknown; `reason` then says why. `error` is empty without an error.

    `reason` is None where the decision is known but several reasons are possible.
    """

    allowed: bool | None
    reason: str | None = ""
    error: str = ""


Authorize: TypeAlias = Callable[[Attributes], Answer]


class _Receiver(Opaque):
    """Upstream rejects every comparison of these values, even with themselves."""

    __slots__ = ()

    def equals(self, other: Value) -> bool:
        raise no_such_overload()


@dataclass(slots=True, eq=False)
class Authorizer(_Receiver):
    """The variable `authorizer`, or `authorizer.serviceAccount(...)`."""

    cel_type: ClassVar[Type] = opaque("kubernetes.authorization.Authorizer")
    authorize: Authorize = field(repr=False)
    service_account: tuple[str, str] | None = None

    def check(self, attributes: Attributes) -> Value:
        if self.service_account is not None:
            attributes = attributes._replace(service_account=self.service_account)
        answer = self.authorize(attributes)
        if answer.allowed is None:
            return Unknown(f"authorizer: {attributes}" + (f" ({answer.reason})" if answer.reason else ""))
        return Decision(answer)


@dataclass(slots=True, eq=False)
class PathCheck(_Receiver):
    """`authorizer.path(...)`"""

    cel_type: ClassVar[Type] = opaque("kubernetes.authorization.PathCheck")
    authorizer: Authorizer
    path: str


@dataclass(slots=True, eq=False)
class GroupCheck(_Receiver):
    """`authorizer.group(...)`"""

    cel_type: ClassVar[Type] = opaque("kubernetes.authorization.GroupCheck")
    authorizer: Authorizer
    group: str


@dataclass(slots=True, eq=False)
class ResourceCheck(_Receiver):
    """`authorizer.group(...).resource(...)`, or the variable `authorizer.requestResource`. Its `attributes` have no verb."""

    cel_type: ClassVar[Type] = opaque("kubernetes.authorization.ResourceCheck")
    authorizer: Authorizer
    attributes: Attributes


@dataclass(slots=True, eq=False)
class Decision(_Receiver):
    """The answer to a check."""

    cel_type: ClassVar[Type] = opaque("kubernetes.authorization.Decision")
    answer: Answer


def request_resource(
    authorizer: Authorizer, group: str, resource: str, subresource: str = "", namespace: str = "", name: str = ""
) -> ResourceCheck:
    """The variable `authorizer.requestResource`: a check of the resource of the request."""
    return ResourceCheck(authorizer, Attributes("", "", group, resource, subresource, namespace, name))


def path(authorizer: Authorizer, text: str) -> PathCheck:
    if not text.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer, text)


def service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain(name):
        raise CelError("Invalid service account name")
    if dns_label(namespace):
        raise CelError("Invalid service account namespace")
    return Authorizer(authorizer.authorize, (namespace, name))


def resource(check: GroupCheck, text: str) -> ResourceCheck:
    if not text.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.authorizer, Attributes("", "", check.group, text))


def _setter(attribute: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def with_attribute(check: ResourceCheck, text: str) -> ResourceCheck:
        return ResourceCheck(check.authorizer, check.attributes._replace(**{attribute: text}))  # type: ignore[arg-type]

    return with_attribute


def check_path(check: PathCheck, verb: str) -> Value:
    return check.authorizer.check(Attributes(verb, check.path))


def check_resource(check: ResourceCheck, verb: str) -> Value:
    return check.authorizer.check(check.attributes._replace(verb=verb))


def _reason(decision: Decision) -> Value:
    reason = decision.answer.reason
    return Unknown("authorizer: the reason of its decision") if reason is None else reason


def _check_cost(arguments: tuple[Value, ...], result: Value) -> int:
    """The cost of a check: one expression can pay for two checks."""
    return CHECK_COST


_SETTER = (ResourceCheck, STRING)

LIBRARY = Library(
    "authorizer",
    (
        function("path", member("authorizer_path", (Authorizer, STRING), PathCheck, path)),
        function("group", member("authorizer_group", (Authorizer, STRING), GroupCheck, GroupCheck)),
        function("serviceAccount", member("authorizer_serviceaccount", (Authorizer, STRING, STRING), Authorizer, service_account)),
        function("resource", member("groupcheck_resource", (GroupCheck, STRING), ResourceCheck, resource)),
        function("subresource", member("resourcecheck_subresource", _SETTER, ResourceCheck, _setter("subresource"))),
        function("namespace", member("resourcecheck_namespace", _SETTER, ResourceCheck, _setter("namespace"))),
        function("name", member("resourcecheck_name", _SETTER, ResourceCheck, _setter("name"))),
        function(
            "check",
            member("pathcheck_check", (PathCheck, STRING), Decision, check_path),
            member("resourcecheck_check", (ResourceCheck, STRING), Decision, check_resource),
            cost=_check_cost,
        ),
        function("allowed", member("decision_allowed", (Decision,), BOOL, lambda decision: decision.answer.allowed)),
        function("reason", member("decision_reason", (Decision,), STRING, _reason)),
        function("errored", member("decision_errored", (Decision,), BOOL, lambda decision: bool(decision.answer.error))),
        function("error", member("decision_error", (Decision,), STRING, lambda decision: decision.answer.error)),
    ),
    introduced=(1, 27),
)
LIBRARY_SELECTORS = Library(
    "authorizer selectors",
    (
        function(
            "fieldSelector",
            member("authorizer_fieldselector", _SETTER, ResourceCheck, _setter("field_selector")),
            cost=selector,
        ),
        function(
            "labelSelector",
            member("authorizer_labelselector", _SETTER, ResourceCheck, _setter("label_selector")),
            cost=selector,
        ),
    ),
    introduced=(1, 31),
)
