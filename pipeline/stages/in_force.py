"""The rules that requests meet: the given ones, or those that the log shows in force at the time of each request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from ..history.snapshots import ResourceName
from ..history.world import LogHistory
from ..request import Unknown
from ..rules.in_force import RecordedRules, combinations

ChainT = TypeVar("ChainT")
Chain_co = TypeVar("Chain_co", covariant=True)
RuleT = TypeVar("RuleT")


class Chains(Protocol[Chain_co]):
    """The rules of one stage that requests meet. A chain holds all rules that one request meets."""

    @property
    def every(self) -> Sequence[Chain_co]:
        """All chains that some request may meet."""
        ...

    def at(self, cluster: str, ts: datetime) -> Sequence[Chain_co] | Unknown:
        """The chain at a moment; several where a rule was changed just then; Unknown where the log lacks a rule."""
        ...


class GivenChain(Generic[ChainT]):
    """The same chain for every request."""

    def __init__(self, chain: ChainT) -> None:
        self.every: Sequence[ChainT] = (chain,)

    def at(self, cluster: str, ts: datetime) -> Sequence[ChainT]:
        """See Chains."""
        return self.every


class RecordedChains(RecordedRules[RuleT], Generic[RuleT, ChainT]):
    """The chain of each moment, from the log and snapshots; see RecordedRules."""

    def __init__(self, history: LogHistory, resources: Sequence[ResourceName], delay: timedelta) -> None:
        super().__init__(history, resources, delay)
        self._chains: dict[tuple[int, ...], ChainT] = {}
        self._epochs: dict[tuple[str, int], Sequence[ChainT] | Unknown] = {}

    @property
    @abstractmethod
    def every(self) -> Sequence[ChainT]:
        """See Chains."""

    @abstractmethod
    def chain_of(self, rules: tuple[RuleT, ...]) -> ChainT:
        """The chain of the rules that are in force together."""

    def at(self, cluster: str, ts: datetime) -> Sequence[ChainT] | Unknown:
        """See Chains."""
        epoch = (cluster, self.epoch(cluster, ts))
        found = self._epochs.get(epoch)
        if found is None:
            found = self._epochs[epoch] = self._chains_at(cluster, ts)
        return found

    def made(self, rules: tuple[RuleT, ...]) -> ChainT:
        """The chain of some rules; the same rules have the same chain, so that what it remembers is found again."""
        key = tuple(map(id, rules))
        if key not in self._chains:
            self._chains[key] = self.chain_of(rules)
        return self._chains[key]

    def _chains_at(self, cluster: str, ts: datetime) -> Sequence[ChainT] | Unknown:
        choices: list[list[RuleT | None]] = []
        for _, versions in self.in_force(cluster, ts):
            known: list[RuleT | None] = []
            for rule in versions:
                if isinstance(rule, Unknown):
                    return rule
                known.append(rule)
            choices.append(known)
        return tuple(self.made(tuple(each for each in rules if each is not None)) for rules in combinations(choices))
