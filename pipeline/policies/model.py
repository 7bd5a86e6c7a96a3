"""ValidatingAdmissionPolicies and their bindings, with the defaults of the API applied.

Follows k8s.io/api admissionregistration/v1/types.go. Every noun that a person wrote keeps its `source`, `file:line`, so that a
message can name it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ..given import GivenObject
from ..matching import LabelSelector, MatchResources
from ..request import Object


class FailurePolicy(StrEnum):
    FAIL = "Fail"
    IGNORE = "Ignore"


class Action(StrEnum):
    DENY = "Deny"
    WARN = "Warn"
    AUDIT = "Audit"


class NotFoundAction(StrEnum):
    """parameterNotFoundAction: the action of a binding without a param."""

    ALLOW = "Allow"
    DENY = "Deny"


@dataclass(frozen=True, slots=True)
class Validation:
    """One entry of spec.validations. An empty `reason` was not given; evaluation takes Invalid for it."""

    expression: str
    message: str = ""
    reason: str = ""
    message_expression: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """A variable, a match condition or an audit annotation: `name` is its name or key."""

    name: str
    expression: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class ParamKind:
    api_version: str
    kind: str

    @property
    def group_version_kind(self) -> str:
        """As Go prints a GroupVersionKind: `apps/v1, Kind=Deployment`, and `/v1, Kind=ConfigMap` for the core group."""
        group, _, version = self.api_version.rpartition("/")
        return f"{group}/{version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class ParamRef:
    """The params that a binding uses: exactly one of `name` and `selector`. An empty `namespace` means that of the request."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    not_found_action: NotFoundAction | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A ValidatingAdmissionPolicy."""

    name: str
    match_constraints: MatchResources | None
    validations: tuple[Validation, ...] = ()
    variables: tuple[NamedExpression, ...] = ()
    match_conditions: tuple[NamedExpression, ...] = ()
    audit_annotations: tuple[NamedExpression, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    param_kind: ParamKind | None = None
    resource_version: str = ""
    source: str = ""

    @property
    def is_static(self) -> bool:
        """Whether the API server loaded it from a file. From 1.36, such a policy also sees policies and bindings."""
        return self.name.endswith(".static.k8s.io")


@dataclass(frozen=True, slots=True)
class Binding:
    """A ValidatingAdmissionPolicyBinding. With `match_resources` None it matches everything that the policy matches."""

    name: str
    policy_name: str
    validation_actions: tuple[Action, ...]
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    resource_version: str = ""
    source: str = ""


def look_at_namespaces(policies: Iterable[Policy], bindings: Iterable[Binding], written: object = ()) -> bool:
    """Whether a selector or an expression reads namespaces. `written` has further expressions."""
    policies = tuple(policies)
    criteria = [*(each.match_constraints for each in policies), *(each.match_resources for each in bindings)]
    selectors = [each.namespace_selector for each in criteria if each is not None]
    return any(each and each.requirements for each in selectors) or "namespaceObject" in repr((policies, written))


@dataclass(frozen=True)
class PolicySet:
    """Policies with their bindings in their given order, and the objects that were given with them.

    `unreadable` names recorded policies and bindings that cannot be read, each with the reason. `written` are policies and bindings
    as their manifests have them, where they were read from manifests.
    """

    policies: tuple[Policy, ...] = ()
    bindings: tuple[Binding, ...] = ()
    objects: tuple[GivenObject, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    written: tuple[Object, ...] = field(default=(), repr=False, compare=False)
    _bindings_by_policy: dict[str, list[Binding]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for binding in self.bindings:
            self._bindings_by_policy.setdefault(binding.policy_name, []).append(binding)

    @property
    def param_kinds(self) -> frozenset[ParamKind]:
        """The kinds of params that its policies use."""
        return frozenset(policy.param_kind for policy in self.policies if policy.param_kind is not None)

    def without_secrets(self) -> PolicySet:
        """Without the Secrets that no policy takes as params: the kept files of a replay must hold no credential."""
        asked = {policy.param_kind.kind for policy in self.policies if policy.param_kind is not None}
        kept = tuple(given for given in self.objects if given.object.get("kind") != "Secret" or "Secret" in asked)
        return self if len(kept) == len(self.objects) else replace(self, objects=kept)

    def bindings_of(self, policy: Policy) -> tuple[Binding, ...]:
        """The bindings that name a policy. A binding that names a missing policy does nothing."""
        return tuple(self._bindings_by_policy.get(policy.name, ()))
