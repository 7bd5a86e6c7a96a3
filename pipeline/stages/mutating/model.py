"""MutatingAdmissionPolicies and their bindings, with the defaults of the API applied.

Follows k8s.io/api admissionregistration/v1/types.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ...given import GivenObject
from ...policies.model import Binding, Policy, PolicySet
from ...request import Object


class PatchType(StrEnum):
    JSON_PATCH = "JSONPatch"
    APPLY_CONFIGURATION = "ApplyConfiguration"


class ReinvocationPolicy(StrEnum):
    NEVER = "Never"
    IF_NEEDED = "IfNeeded"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One entry of spec.mutations."""

    patch_type: PatchType
    expression: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class MutatingPolicy:
    """`rules` holds what it shares with a validating policy: constraints, params, variables and match conditions."""

    rules: Policy
    mutations: tuple[Mutation, ...]
    reinvocation: ReinvocationPolicy

    @property
    def name(self) -> str:
        """Its name."""
        return self.rules.name


@dataclass(frozen=True, slots=True)
class MutatingRules:
    """Policies with their bindings, and the manifests that were given with them.

    `objects` are candidates for params; `later` are validating policies, which see the changed object. `written` are the manifests
    of the policies and bindings.
    """

    policies: tuple[MutatingPolicy, ...] = ()
    bindings: tuple[Binding, ...] = ()
    objects: tuple[GivenObject, ...] = ()
    later: PolicySet = field(default_factory=PolicySet)
    written: tuple[Object, ...] = field(default=(), compare=False, repr=False)

    def bindings_of(self, policy: MutatingPolicy) -> tuple[Binding, ...]:
        """The bindings that name a policy, in their given order."""
        return tuple(each for each in self.bindings if each.policy_name == policy.name)
