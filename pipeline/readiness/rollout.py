"""The rollout to Deny: which action next, for which namespaces first, as steps with the binding to apply for each.

Audit -> Warn -> Deny where nothing would be denied -> Deny everywhere. The evidence supports every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ..request import Object
from ..stages.actions import Actions
from ..stages.waves import label_of
from .exempting.manifests import Manifests
from .exempting.measures import RolloutStep
from .model import Denials, NamespaceCount, PolicyReadiness, Status
from .rules import ReadinessRules
from .verdict import decide

WARN = ("Warn", "Audit")
DENY = ("Deny", "Audit")
# A first step should affect few namespaces, and a selector has to stay readable.
FIRST_NAMESPACES_MAX = 25


def plan_rollout(entry: PolicyReadiness, rules: ReadinessRules, manifests: Manifests, actions: Actions) -> tuple[RolloutStep, ...]:
    """The steps from a binding's present actions to Deny, as far as the verdict allows them; empty if it denies already.

    `manifests` are the policies with their proposed exemptions in place: the bindings of the steps are made from them. `actions`
    are those of their stage.
    """
    return tuple(
        replace(step, manifest=step_manifest(step, entry.policy, entry.binding, manifests, actions))
        for step in _steps(entry, rules)
        if "Deny" not in entry.actions
    )


def _steps(entry: PolicyReadiness, rules: ReadinessRules) -> Iterator[RolloutStep]:
    if "Warn" not in entry.actions:
        yield RolloutStep(WARN, (), "requests pass, and a client gets a warning where Deny would reject")
    elif entry.status is Status.INSUFFICIENT_EVIDENCE:
        yield RolloutStep(WARN, (), f"stay here until there is more evidence: {entry.reasons[0]}")
    if entry.status is Status.INSUFFICIENT_EVIDENCE:
        return
    carries = decide(entry.exposure, Denials(), entry.fidelity, rules)[0] is Status.READY
    first = ready_namespaces(entry.namespaces, rules)
    if first and carries:
        yield RolloutStep(DENY, first, "nothing in these namespaces would have been denied; those with the most traffic come first")
    if entry.status is Status.READY:
        yield RolloutStep(DENY, (), "the policy is ready")
    elif entry.status is Status.READY_WITH_EXEMPTIONS:
        yield RolloutStep(DENY, (), "with the exemptions applied the replay denies nothing")


def ready_namespaces(namespaces: Sequence[NamespaceCount], rules: ReadinessRules) -> tuple[str, ...]:
    """The namespaces in which nothing would have been denied and enough could be judged: most traffic first, the system's never."""
    spared = spared_namespaces(rules)
    ready = [item for item in namespaces if item.namespace not in spared and is_clean(item, rules)]
    ready.sort(key=lambda item: (-item.matched, item.namespace))
    return tuple(item.namespace for item in ready[:FIRST_NAMESPACES_MAX])


class Counted(Protocol):
    """The requests of one namespace: how many matched, and would be denied or unknown."""

    @property
    def matched(self) -> int: ...

    @property
    def denied(self) -> int: ...

    @property
    def unknown(self) -> int: ...


def spared_namespaces(rules: ReadinessRules) -> frozenset[str]:
    """Those where Deny never begins: the system's, the sink's, and none at all."""
    return frozenset({*rules.system_namespaces, *rules.sink_namespaces, ""})


def is_clean(item: Counted, rules: ReadinessRules) -> bool:
    """Whether nothing in a namespace would have been denied, and enough could be judged."""
    return item.denied == 0 and item.unknown <= item.matched * rules.unknown_share_max


def step_manifest(
    step: RolloutStep,
    policy: str,
    binding_name: str | None,
    manifests: Manifests,
    actions: Actions,
    labels: Mapping[str, Mapping[str, str] | None] | None = None,
) -> Object:
    """The binding that a step applies: the policy's own with other actions, or one next to it for the first namespaces.

    With the `labels` of all known namespaces it selects by a label where one fits. Once the whole binding denies, the one next to
    it has no effect and can be deleted.
    """
    own = manifests.binding(binding_name) if binding_name is not None else None
    label = label_of(step.namespaces, labels) if labels and step.namespaces else None
    return actions.bound(own, policy, binding_name or policy, step.actions, step.namespaces, label)
