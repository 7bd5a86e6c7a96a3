"""The mutating policies that the log shows in force at the time of each request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

from ...history.in_force import CHANGE_DELAY
from ...history.snapshots import ResourceName
from ...history.world import LogHistory
from ...policies.model import Binding, ParamKind
from ...request import Object
from ..in_force import RecordedChains
from ..validating.decode import GROUP
from .chain import Chain
from .decode import BINDING, POLICY, binding_from_object, policy_from_object
from .model import MutatingPolicy, MutatingRules

_RESOURCES = (
    ResourceName(GROUP, "mutatingadmissionpolicies"),
    ResourceName(GROUP, "mutatingadmissionpolicybindings"),
)
KINDS = tuple(ParamKind(f"{GROUP}/v1", kind) for kind in (POLICY, BINDING))
_Rule: TypeAlias = MutatingPolicy | Binding


class RecordedPolicies(RecordedChains[_Rule, Chain]):
    """The policies and bindings of each moment. `history` must hold KINDS."""

    def __init__(
        self,
        history: LogHistory,
        version: tuple[int, int],
        delay: timedelta = CHANGE_DELAY,
        over: MutatingRules | None = None,
    ) -> None:
        """With `over`, these rules are laid over those of the log: they take the place of what has their names."""
        super().__init__(history, _RESOURCES, delay)
        self._version = version
        self._over = over

    @property
    def every(self) -> Sequence[Chain]:
        """See Chains: one chain of every version of each policy, each with every binding."""
        return (self.made(tuple({id(each): each for each in self.recorded_rules()}.values())),)

    def rule_of(self, value: Object, source: str) -> _Rule:
        """See RecordedChains."""
        return policy_from_object(value, source) if value.get("kind") == POLICY else binding_from_object(value, source)

    def chain_of(self, rules: tuple[_Rule, ...]) -> Chain:
        """See RecordedChains."""
        policies = tuple(each for each in rules if isinstance(each, MutatingPolicy))
        bindings = tuple(each for each in rules if isinstance(each, Binding))
        if self._over is None:
            return Chain(MutatingRules(policies, bindings), self._version, unbound=False)
        return Chain(laid_over(self._over, policies, bindings), self._version)


def laid_over(given: MutatingRules, policies: Sequence[MutatingPolicy], bindings: Sequence[Binding]) -> MutatingRules:
    """Given rules with those in force that they leave. A policy in force that nothing binds does nothing."""
    named, bound = {each.name for each in given.policies}, {each.name for each in given.bindings}
    kept = tuple(each for each in bindings if each.name not in bound)
    every = (*given.bindings, *kept)
    in_use = {each.policy_name for each in every}
    left = tuple(each for each in policies if each.name not in named and each.name in in_use)
    return MutatingRules((*given.policies, *left), every, given.objects)
