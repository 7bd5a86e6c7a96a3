"""Admission webhooks with the defaults of their API version, ready to be matched with requests.

Follows k8s.io/api admissionregistration/{v1,v1beta1}/types.go. The order of configurations follows kubernetes/apiserver
pkg/admission/configuration/mutating_webhook_manager.go: by name; the webhooks of one keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import cached_property
from typing import TypeAlias

from queries.reach_rules import EXEMPT_CONFIGURATION, EXEMPT_REVIEWS

from ...cel.minors import DEFAULT
from ...given import GivenObject, GivenObjects
from ...matching import Matcher, MatchResources, Target
from ...policies.compile import CompiledPolicy, compile_policy
from ...policies.model import FailurePolicy, NamedExpression, Policy
from ...request import GroupVersionResource, Object

GROUP = "admissionregistration.k8s.io"
# Up to 1.36 webhooks receive reviews; later versions never send these (kubernetes pkg/features/kube_features.go,
# ExcludeAdmissionWebhookVirtualResources).
_LAST_WITH_REVIEWS = (1, 36)
_NEVER_SENT = EXEMPT_CONFIGURATION | {(GROUP, "mutatingwebhookconfigurations"), (GROUP, "validatingwebhookconfigurations")}


class Phase(StrEnum):
    """The two admission plugins that call webhooks."""

    MUTATING = "mutating"
    VALIDATING = "validating"

    @property
    def kind(self) -> str:
        """The kind of its configurations."""
        return f"{self.value.capitalize()}WebhookConfiguration"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One entry of `webhooks`. `side_effects` is empty where it is not set, which only old objects are."""

    name: str
    criteria: MatchResources
    match_conditions: tuple[NamedExpression, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    side_effects: str = "None"
    reinvocation: str = "Never"
    timeout_seconds: int = 10
    service: tuple[str, str] | None = None  # namespace and name; None for a URL
    source: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration. `written` is its manifest."""

    name: str
    phase: Phase
    webhooks: tuple[Webhook, ...]
    source: str = ""
    written: Object = field(default_factory=dict, compare=False, repr=False)
    # The Namespaces among the same manifests, which stand in for recorded ones.
    namespaces: tuple[GivenObject, ...] = ()


class AsRecorded(Enum):
    """In place of configurations: each request meets those that the log shows in force at its time."""

    RULES = "as recorded"


Rules: TypeAlias = tuple[Configuration, ...] | AsRecorded


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a webhook stands in the order of calls: by the name of its configuration, then by its position in it."""

    configuration: str
    position: int


def conditions_of(configuration: Configuration, webhook: Webhook) -> Policy:
    """The match conditions of a webhook. The API server has one thing for those of webhooks and policies, so a policy of conditions
    alone holds them."""
    return Policy(
        f"{configuration.name}/{webhook.name}",
        webhook.criteria,
        match_conditions=webhook.match_conditions,
        failure_policy=webhook.failure_policy,
    )


class CompiledWebhook:
    """A webhook ready for many requests."""

    def __init__(self, configuration: Configuration, position: int, version: tuple[int, int]) -> None:
        self.webhook = configuration.webhooks[position]
        self.configuration = configuration.name
        self.phase = configuration.phase
        self.place = Place(configuration.name, position)
        self.matcher = Matcher(self.webhook.criteria)
        self.conditions: CompiledPolicy = compile_policy(conditions_of(configuration, self.webhook), version)

    @cached_property
    def selects_objects(self) -> bool:
        """Whether the labels of objects decide."""
        selector = self.webhook.criteria.object_selector
        return bool(selector and selector.requirements)

    @property
    def rule_ref(self) -> str:
        """The place of the webhook, as `KIND/CONFIGURATION/WEBHOOK`."""
        return f"{self.phase.kind}/{self.configuration}/{self.webhook.name}"

    @cached_property
    def looks_inside(self) -> bool:
        """Whether objects, users or options decide, whatever the resource is."""
        return bool(self.webhook.match_conditions) or self.selects_objects

    def reads_record(self, target: Target) -> bool:
        """Whether the decision on a request with this target depends on its objects, its user or its options."""
        if self.looks_inside:
            return True
        namespaces = self.webhook.criteria.namespace_selector
        return bool(namespaces and namespaces.requirements) and target.resource.resource == "namespaces"


class Chain:
    """Webhooks in the order of calls."""

    def __init__(self, configurations: Sequence[Configuration], version: tuple[int, int] = DEFAULT) -> None:
        ordered = sorted(configurations, key=lambda each: each.name)
        self.version = version
        self.configurations = tuple(ordered)
        self.given = GivenObjects({id(given): given for each in ordered for given in each.namespaces}.values())
        self.webhooks = tuple(
            CompiledWebhook(each, position, version) for each in ordered for position in range(len(each.webhooks))
        )
        self._named = {(hook.phase, hook.configuration, hook.webhook.name): hook for hook in self.webhooks}
        self._words = {(hook.phase, hook.configuration, _unplaced(hook.webhook)) for hook in self.webhooks}
        self._by_target: dict[Target, tuple[CompiledWebhook, ...]] = {}

    def place_of(self, phase: Phase, configuration: str, webhook: str) -> Place | None:
        """The place of a webhook; None if it is not of this chain."""
        found = self.named(phase, configuration, webhook)
        return found.place if found else None

    def named(self, phase: Phase, configuration: str, webhook: str) -> CompiledWebhook | None:
        """The webhook of this name; None if it is not of this chain."""
        return self._named.get((phase, configuration, webhook))

    def has_named(self, phase: Phase, webhook: str) -> bool:
        """Whether some configuration has a webhook of this name; names are unique in one configuration only."""
        return any((hook.phase, hook.webhook.name) == (phase, webhook) for hook in self.webhooks)

    def has(self, phase: Phase, configuration: str) -> bool:
        """Whether some webhook is of this configuration."""
        return any((hook.phase, hook.configuration) == (phase, configuration) for hook in self.webhooks)

    def holds(self, hook: CompiledWebhook) -> bool:
        """Whether a webhook of another chain is registered here in the same words."""
        return (hook.phase, hook.configuration, _unplaced(hook.webhook)) in self._words

    def candidates(self, target: Target) -> tuple[CompiledWebhook, ...]:
        """The webhooks whose rules may match a target."""
        found = self._by_target.get(target)
        if found is None:
            never = is_never_sent(target.resource, self.version)
            # A webhook without rules matches nothing; a binding without rules would match everything.
            able = () if never else (hook for hook in self.webhooks if hook.webhook.criteria.resource_rules)
            found = self._by_target[target] = tuple(hook for hook in able if hook.matcher.is_candidate(target))
        return found


def _unplaced(webhook: Webhook) -> str:
    """A webhook as text, without the places in files, which do not change its meaning."""
    conditions = tuple((each.name, each.expression) for each in webhook.match_conditions)
    return repr(replace(webhook, source="", match_conditions=())) + repr(conditions)


def is_never_sent(resource: GroupVersionResource, version: tuple[int, int]) -> bool:
    """Whether the server sends no request for a resource to any webhook (kubernetes/apiserver
    pkg/admission/plugin/webhook/generic/webhook.go, kubernetes pkg/kubeapiserver/admission/exclusion/resources.go)."""
    place = (resource.group, resource.resource)
    return place in _NEVER_SENT or (version > _LAST_WITH_REVIEWS and place in EXEMPT_REVIEWS)
