"""The rules of every stage of the chain that some manifests hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...manifests.documents import Document
from ...request import Object
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


def chain_rules(documents: Sequence[Document]) -> ChainRules:
    """The rules among some manifests. Raises InputError with file and line."""
    return ChainRules(rules_of(documents), given_of(documents), tuple(each.value for each in documents))
