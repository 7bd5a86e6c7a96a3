"""The rules of every stage of the chain that some manifests hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...manifests.documents import Document
from ...matching import Target
from ...request import Object
from ..mutating.chain import Chain
from ..mutating.decode import rules_of
from ..mutating.model import MutatingRules
from ..pod_security.given import Given, given_of


@dataclass(frozen=True)
class ChainRules:
    """What is laid over the rules in force: mutating policies with the validating ones of the same folder, and levels.

    `written` are all manifests: the name of a run follows from them.
    """

    mutating: MutatingRules
    levels: Given
    written: tuple[Object, ...] = ()

    def __bool__(self) -> bool:
        """Whether any manifest is a rule of these stages."""
        policies = self.mutating
        return bool(policies.policies or policies.bindings or policies.later.policies or policies.later.bindings or self.levels)

    @cached_property
    def changers(self) -> frozenset[str]:
        """The mutating policies that the folder changes: by themselves, or by a binding."""
        policies = self.mutating
        return frozenset({each.name for each in policies.policies} | {each.policy_name for each in policies.bindings})

    def may_change(self, chains: Sequence[Chain], target: Target) -> bool:
        """Whether one of these may be for requests with a target."""
        found = (each for chain in chains for each in chain.set.candidates(target))
        return any(each.entry.policy.policy.name in self.changers for each in found)


def chain_rules(documents: Sequence[Document]) -> ChainRules:
    """The rules among some manifests. Raises InputError with file and line."""
    return ChainRules(rules_of(documents), given_of(documents), tuple(each.value for each in documents))
