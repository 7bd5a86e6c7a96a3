"""Exemptions for the manifests of stages other than validating policies: the same search, and the same proof by replay.

The exemptions are put into the manifests as they were given. What is printed is read again, and replayed: a text is never trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...authorization import RecordedRbac
from ...requests.past import load_history
from ...runs.window import Window
from ...stages.readiness import Excluded, StageReadiness, keep_counted
from ..counting.units import find_units_unless_found
from ..sql import statement
from .barred import Barred
from .exclusions import Exclusion, Kind
from .exemptions import Choice
from .manifests import Manifests, annotate, key_of
from .proposal import Left, Proposal
from .search import Search, find_exposed
from .usable import who_can_use

# What the server of a webhook or a later stage reads is not known, so that a label may be what they forbid.
_BARRED = Barred(labels=None)
# If the replay disagrees with the choice, the choice is made again without the kinds that could be the cause.
_RETREATS: tuple[tuple[Kind, ...], ...] = ((), (Kind.NAMESPACE,))
# Above this number of exemptions no replay without each one is made: no verdict stands on so many.
_TRIED_MAX = 10
# A replay of rules: the path of its verdicts, while the context lasts.
Trial = Callable[[Any], AbstractContextManager[Path]]


@dataclass(frozen=True)
class Things:
    """How the judged things of a stage are named in a proposal: a webhook by configuration and name, a policy by its name."""

    readiness: StageReadiness[Any, Any]

    def name(self, policy: str, binding: str | None) -> str:
        """The name of what has match conditions of its own."""
        return f"{policy}/{binding}" if self.readiness.conditions_per_binding and binding else policy

    def excluded(self, exclusion: Exclusion) -> Excluded:
        """An exclusion as the stage puts it into its manifests."""
        policy, binding = exclusion.policy, exclusion.binding
        if self.readiness.conditions_per_binding:
            policy, _, binding = exclusion.policy.partition("/")
        if exclusion.kind is Kind.NAMESPACE:
            return Excluded(policy, binding, exclusion.words, namespace=exclusion.subject)
        return Excluded(policy, binding, exclusion.words, expression=exclusion.expression)


class StageExemptions:
    """Looks for exemptions of one finished run. The table `verdicts` of the run must be in the connection (assess.judge_units)."""

    def __init__(self, reader: LakeReader, readiness: StageReadiness[Any, Any], rules: Any, trial: Trial) -> None:
        self._reader = reader
        self._readiness = readiness
        self._rules = rules
        self._trial = trial
        self.things = Things(readiness)
        self._search = self._searching()

    def _searching(self) -> Search:
        connection = self._reader.connection
        connection.execute(statement("exposed_stage"))
        find_units_unless_found(connection)
        find_exposed(connection)
        if self._readiness.conditions_per_binding:
            connection.execute("UPDATE exposed SET policy = policy || '/' || binding WHERE binding <> ''")
        return Search(connection)

    def propose(
        self,
        review_by: date | None,
        names: frozenset[str] | None = None,
        is_worth_replaying: Callable[[Choice], bool] = lambda choice: True,
        confidence: float = 0.95,
    ) -> Proposal:
        """Exemptions for each thing with new denials, or for these, replayed with all applied and without each one."""
        choices: dict[str, Choice] = {}
        left: dict[str, Left] = {}
        pending = [name for name in self._search.policies if names is None or name in names]
        for without in _RETREATS:
            choices |= self._search.choose_validated(dict.fromkeys(pending, _BARRED.and_kinds(without)), confidence)
            pending = [name for name in pending if is_worth_replaying(choices[name])]
            if not pending:
                break
            left |= self._left(self._with(choices.values()), pending)
            pending = [name for name in pending if left[name].denied > choices[name].left]
            if not pending:
                break
        choices = self._needed(choices, left)
        found = tuple(choices[name] for name in sorted(choices))
        before = self._manifests(self._rules)
        return Proposal(found, before, self._noted(found, review_by), review_by, left, self._users(found), self._targets(before))

    def _with(self, choices: Iterable[Choice]) -> Any:
        excluded = [self.things.excluded(item.exclusion) for choice in choices for item in choice.chosen]
        return self._readiness.excluding(self._rules, excluded)

    def _needed(self, choices: Mapping[str, Choice], left: Mapping[str, Left]) -> dict[str, Choice]:
        """The choices without the exclusions that turn out needless: without one of these, a replay has no more denials.

        Denials are counted for each thing alone, so one replay tries an exclusion less of each thing at once.
        """
        waiting = {
            name: sorted(choices[name].chosen, key=lambda each: -each.width.passing_units)
            for name in left
            if 1 < len(choices[name].chosen) <= _TRIED_MAX
        }
        found = dict(choices)
        for index in range(max(map(len, waiting.values()), default=0)):
            less = {name: self._search.minus(found[name], items[index]) for name, items in waiting.items() if index < len(items)}
            after = self._left(self._with({**found, **less}.values()), less)
            found |= {name: choice for name, choice in less.items() if after[name].denied <= left[name].denied}
        return found

    def _left(self, rules: Any, names: Iterable[str]) -> dict[str, Left]:
        """The remaining denials and unknowns of some things in a replay of rules."""
        connection = self._reader.connection
        with self._trial(rules) as verdicts:
            keep_counted(connection, "tried", self._readiness.counted, str(verdicts))
        counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for policy, binding, denied, unknown in connection.execute(statement("left_stage")).fetchall():
            found = counts[self.things.name(policy, binding)]
            found[0], found[1] = found[0] + denied, found[1] + unknown
        return {name: Left(*counts[name]) for name in names}

    def _manifests(self, rules: Any) -> Manifests:
        return Manifests({key_of(each): each for each in self._readiness.written(rules) or ()})

    def _targets(self, manifests: Manifests) -> dict[str, tuple[str, str]]:
        """The manifest with the conditions of each thing."""
        named = {name: (kind, name) for kind, name in manifests.objects if not kind.endswith("Binding")}
        return {name: named[name.partition("/")[0]] for name in self._search.policies if name.partition("/")[0] in named}

    def _noted(self, choices: Sequence[Choice], review_by: date | None) -> Manifests:
        """The manifests with all exemptions, and with their review dates in annotations."""
        after = self._manifests(self._with(choices))
        targets = self._targets(after)
        for choice in choices:
            for item in choice.chosen:
                on_binding = item.exclusion.kind is Kind.NAMESPACE and not self._readiness.conditions_per_binding
                policy, kind = targets[choice.policy][1], targets[choice.policy][0]
                key = (f"{kind}Binding", str(item.exclusion.binding)) if on_binding else (kind, policy)
                annotate(after.objects[key], item.exclusion.words, review_by)
        return after

    def _users(self, choices: Iterable[Choice]) -> dict[Exclusion, str]:
        """Who can use each exclusion, by the roles at the end of the log."""
        chosen = [item.exclusion for choice in choices for item in choice.chosen]
        if not chosen:
            return {}
        ((last,),) = self._reader.connection.execute("SELECT max(ts) FROM events").fetchall()
        rbac = RecordedRbac(load_history(self._reader, (), Window()), None)
        return who_can_use(self._search.places(chosen), rbac, last)
