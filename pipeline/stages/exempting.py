"""The answers of a stage to the search for exemptions: its manifests, and how they leave requests out. Reports are elsewhere.

A stage that knows exemptions has such an object in `StageReadiness.exemptions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from ..request import Object

RulesT = TypeVar("RulesT")


class Excluded(NamedTuple):
    """Requests to take out of one judged thing: those of `namespace`, or those for which the CEL `expression` is false.

    `policy` and `binding` are the thing as in the verdict table. `words` name the requests.
    """

    policy: str
    binding: str | None
    words: str
    namespace: str = ""
    expression: str = ""


class Probed(NamedTuple):
    """Which exclusion a denial of a probe stands for: the verdicts of `probe` and `probe_binding` deny what it takes out.

    `item` is the exclusion's place among the given ones; it is one of `policy` and `binding` (empty: without). With an
    `expression_index` only denials by this expression count.
    """

    probe: str
    probe_binding: str
    policy: str
    binding: str
    expression_index: int | None
    item: int


class Probes(NamedTuple, Generic[RulesT]):
    """Rules that deny what exclusions take out, and no request that they spare."""

    rules: RulesT
    rows: Sequence[Probed]


class Exemptions(ABC, Generic[RulesT]):
    """The answers of a stage to the questions of the search. The manifests are objects as they were given."""

    # Whether each (policy, binding) has match conditions of its own; otherwise they belong to the policy.
    conditions_per_binding = False

    @abstractmethod
    def written(self, rules: RulesT) -> Sequence[Object] | None:
        """The manifests that exemptions change, and the objects given with them; None if these rules know no exemptions."""

    @abstractmethod
    def excluding(self, rules: RulesT, excluded: Sequence[Excluded]) -> RulesT:
        """The rules as read from manifests with exemptions. Raises InputError where the API server would reject such manifests."""

    def narrowed(self, rules: RulesT, names: Collection[str]) -> RulesT:
        """Rules that judge the things of these names as the given ones do, and may lack others, so that a replay costs less."""
        return rules

    def unbound(self, rules: RulesT) -> Mapping[str, str]:
        """The things without a binding: each with the name of the binding that `excluding` gives it for a namespace."""
        return {}

    def probes(self, rules: RulesT, excluded: Sequence[Excluded]) -> Probes[RulesT] | None:
        """Rules that show in one replay what each of these exclusions takes out; None if the stage has no such rules.

        The plans of such a stage know `wanted` requests.
        """
        return None
