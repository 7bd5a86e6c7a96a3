"""The search for exemptions of a finished run of any stage, with the proof by replay.

The choice is made from the log's events, and a replay of the changed manifests checks it: a thing is clean with its exemptions only
after a replay with them. What is printed is read again, and replayed: a text is never trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...authorization import RecordedRbac
from ...cel import ReadSet
from ...requests.past import load_history
from ...stages.exempting import Excluded, Exemptions, Probes
from ...stages.readiness import keep_counted
from ..counting.units import find_units_unless_found
from ..run import Note, StageRun, StageWalk, ignored, trial
from ..sql import rows_of, statement
from .barred import Barred, barred_by
from .exclusions import Exclusion, Kind
from .exemptions import Choice
from .manifests import Key, Manifests, annotate, is_binding
from .needed import needless_of
from .proposal import Left, Proposal
from .search import NOTHING, Search, find_exposed
from .usable import who_can_use

# What decides is not known, for example to the server of a webhook, so that a label may be what it forbids.
_UNKNOWN = Barred(NOTHING.kinds | {Kind.LABEL}, None)
# A selector may look at an object that the event does not hold (the old object, a deleted namespace). If the replay disagrees
# with the choice, the choice is made again without the kinds that could be the cause.
_RETREATS: tuple[tuple[Kind, ...], ...] = ((), (Kind.LABEL,), (Kind.LABEL, Kind.NAMESPACE))
# Above this number of exemptions no replay without each one is made: no verdict stands on so many.
_TRIED_MAX = 10


@dataclass(frozen=True)
class Things:
    """The names of judged things in a proposal: a webhook has that of its configuration and its own, a policy has its name."""

    hooks: Exemptions[Any]

    def name(self, policy: str, binding: str | None) -> str:
        """The name of what has match conditions of its own."""
        return f"{policy}/{binding}" if self.hooks.conditions_per_binding and binding else policy

    def excluded(self, exclusion: Exclusion) -> Excluded:
        """An exclusion as the stage puts it into its manifests."""
        policy, binding = exclusion.policy, exclusion.binding
        if self.hooks.conditions_per_binding:
            policy, _, binding = exclusion.policy.partition("/")
        if exclusion.kind is Kind.NAMESPACE:
            return Excluded(policy, binding, exclusion.words, namespace=exclusion.subject)
        return Excluded(policy, binding, exclusion.words, expression=exclusion.expression)

    def excluding(self, rules: Any, exclusions: Iterable[Exclusion]) -> Any:
        """Rules with these exclusions."""
        return self.hooks.excluding(rules, [self.excluded(each) for each in sorted(exclusions, key=lambda each: each.order)])


def proposing_of(lake: Path, run: StageRun, reader: LakeReader, walk: StageWalk, note: Note = ignored) -> Proposing | None:
    """The search for exemptions of a run; None if its rules know none. `note` gets what Hindcast failed to judge in a replay."""
    hooks = run.stage.readiness.exemptions
    written = hooks.written(run.rules) if hooks is not None and run.rules is not None else None
    if hooks is None or written is None:
        return None
    return Proposing(lake, run, reader, hooks, walk, note)


class Proposing:
    """Looks for exemptions of one finished run. The table `verdicts` of the run must be in the connection: assess.keep_verdicts."""

    def __init__(self, lake: Path, run: StageRun, reader: LakeReader, hooks: Exemptions[Any], walk: StageWalk, note: Note) -> None:
        self.things = Things(hooks)
        self._lake = lake
        self._run = run
        self._reader = reader
        self._walk = walk
        self._note = note
        self._hooks = hooks

    def nothing(self, review_by: date | None) -> Proposal:
        """The proposal to leave all as it is."""
        before = self._manifests(self._run.rules)
        return Proposal((), before, before, review_by)

    def propose(
        self,
        review_by: date | None,
        names: frozenset[str] | None = None,
        is_worth_replaying: Callable[[Choice], bool] = lambda choice: True,
        confidence: float = 0.95,
    ) -> Proposal:
        """Exemptions for each thing with new denials, or for these, replayed with all applied.

        `review_by` is the day by which someone should review them. Choices not worth a replay are proposed too, but have no entry
        in the proposal's `left`. `confidence` is that of the bound in `Choice.later`.
        """
        search = self._searching(names)
        choices: dict[str, Choice] = {}
        left: dict[str, Left] = {}
        barred_of, tried = self._barred(), dict[str, Barred]()
        pending = [name for name in search.policies if names is None or name in names]
        for without in _RETREATS:
            bars = {name: barred_of(name).and_kinds(without) for name in pending}
            if bars != tried:
                tried = bars
                choices |= search.choose_validated(bars, confidence)
                pending = [name for name in pending if is_worth_replaying(choices[name])]
                left |= self._left(self._with(choices.values()), pending)
                pending = [name for name in pending if not _is_as_chosen(choices[name], left[name])]
                tried = {name: bar for name, bar in bars.items() if name in pending}
            if not pending:
                break
        choices = self._needed(search, choices, left)
        found = tuple(choices[name] for name in sorted(choices))
        before = self._manifests(self._run.rules)
        who = self._users(search, found)
        return Proposal(found, before, self._noted(found, review_by), review_by, left, who, _targets(before, choices))

    def _searching(self, names: Collection[str] | None) -> Search:
        connection = self._reader.connection
        connection.execute(statement("exposed_things"))
        connection.execute(statement("still_denied_table"))
        find_units_unless_found(self._reader)
        find_exposed(connection, None if names is None else {name.partition("/")[0] for name in names})
        if self._hooks.conditions_per_binding:
            connection.execute("UPDATE exposed SET policy = policy || '/' || binding WHERE binding <> ''")
        search = Search(connection)
        unbound = self._hooks.unbound(self._run.rules)
        for policy in search.policies:
            if policy in unbound:
                search.bind(policy, unbound[policy])
        return search

    def _barred(self) -> Callable[[str], Barred]:
        """For each thing the fields that its denying expressions read, on which no exemption may select."""
        denying = {row["policy"]: row["expressions"] for row in rows_of(self._reader.connection, "denying")}
        reads = self._run.stage.readiness.expression_reads(self._run.rules, self._run.plan.kubernetes_version)
        if reads is None:
            return lambda thing: _UNKNOWN
        barred = {name: barred_by(ReadSet.union(*(reads(name, index) for index in each))) for name, each in denying.items()}
        return lambda thing: barred.get(thing, NOTHING)

    def _with(self, choices: Iterable[Choice]) -> Any:
        return self.things.excluding(self._run.rules, [item.exclusion for choice in choices for item in choice.chosen])

    @contextmanager
    def _tried(self, rules: Any, note: Note = ignored, wanted: Sequence[str] = ()) -> Iterator[Path]:
        """The verdicts of a replay of rules as that of the run was; with `wanted`, of these requests alone."""
        stage, own = self._run.stage, self._run.plan
        plan = stage.plan(self._reader, rules, self._run.asked)
        if plan.other_authorizers:
            plan = replace(plan, other_authorizers=own.other_authorizers)
        if wanted:
            plan = replace(plan, wanted=tuple(wanted))
        with trial(self._lake, stage, plan, self._walk, note) as verdicts:
            yield verdicts

    def _left(self, rules: Any, names: Sequence[str]) -> dict[str, Left]:
        """The remaining denials and unknowns of some things in a replay of rules. `still_denied` has these denials."""
        if not names:
            return {}
        connection, hooks = self._reader.connection, self._hooks
        with self._tried(hooks.narrowed(rules, {name.partition("/")[0] for name in names}), self._note) as verdicts:
            keep_counted(connection, "tried", self._run.stage.readiness.counted, str(verdicts))
        per_binding = {"per_binding": hooks.conditions_per_binding}
        connection.execute("DELETE FROM still_denied WHERE list_contains($names, thing)", {"names": list(names)})
        connection.execute(statement("still_denied_of"), per_binding)
        counts = {
            thing: Left(denied, unknown) for thing, denied, unknown in connection.execute(statement("left"), per_binding).fetchall()
        }
        return {name: counts.get(name, Left(0, 0)) for name in names}

    def _needed(self, search: Search, choices: Mapping[str, Choice], left: Mapping[str, Left]) -> dict[str, Choice]:
        """The choices without the exclusions that turn out needless: without one of these, a replay has no more denials."""
        several = {name: choices[name] for name in sorted(left) if len(choices[name].chosen) > 1}
        excluded = [self.things.excluded(item.exclusion) for choice in several.values() for item in choice.chosen]
        probes = self._hooks.probes(self._run.rules, excluded) if several else None
        if probes is None:
            return self._needed_one_by_one(search, choices, left, several)
        return self._needed_by_probes(search, choices, probes, several)

    def _needed_by_probes(
        self, search: Search, choices: Mapping[str, Choice], probes: Probes[Any], several: Mapping[str, Choice]
    ) -> dict[str, Choice]:
        connection, found = self._reader.connection, dict(choices)
        taken_out = connection.execute(statement("taken_out"), {"names": list(several)}).fetchall()
        with self._tried(probes.rules, wanted=[audit_id for (audit_id,) in taken_out]) as probed:
            for name, items in needless_of(connection, several, probes.rows, probed):
                for item in items:
                    found[name] = search.minus(found[name], item)
        return found

    def _needed_one_by_one(
        self, search: Search, choices: Mapping[str, Choice], left: Mapping[str, Left], several: Mapping[str, Choice]
    ) -> dict[str, Choice]:
        """Denials are counted for each thing alone, so one replay tries an exclusion less of each thing at once."""
        waiting = {
            name: sorted(choice.chosen, key=lambda each: -each.width.passing_units)
            for name, choice in several.items()
            if len(choice.chosen) <= _TRIED_MAX
        }
        found = dict(choices)
        for index in range(max(map(len, waiting.values()), default=0)):
            less = {name: search.minus(found[name], items[index]) for name, items in waiting.items() if index < len(items)}
            after = self._left(self._with({**found, **less}.values()), list(less))
            found |= {name: choice for name, choice in less.items() if after[name].denied <= left[name].denied}
        return found

    def _manifests(self, rules: Any) -> Manifests:
        return Manifests.of(self._hooks.written(rules) or (), self._run.stage.kinds)

    def _noted(self, choices: Sequence[Choice], review_by: date | None) -> Manifests:
        """The manifests with all exemptions, and with their review dates in annotations."""
        after = self._manifests(self._with(choices))
        targets = _targets(after, [choice.policy for choice in choices])
        for choice in choices:
            for item in choice.chosen:
                on_binding = item.exclusion.kind is Kind.NAMESPACE and not self._hooks.conditions_per_binding
                kind, name = targets[choice.policy]
                key = (f"{kind}Binding", str(item.exclusion.binding)) if on_binding else (kind, name)
                annotate(after.objects[key], item.exclusion.words, review_by)
        return after

    def _users(self, search: Search, choices: Iterable[Choice]) -> dict[Exclusion, str]:
        """Who can use each exclusion, by the roles at the end of the window."""
        chosen = [item.exclusion for choice in choices for item in choice.chosen]
        if not chosen:
            return {}
        window = self._run.plan.window
        ((last,),) = self._reader.connection.execute("SELECT max(ts) FROM events").fetchall()
        rbac = RecordedRbac(load_history(self._reader, (), window), None)
        return who_can_use(search.places(chosen), rbac, window.until or last)


def _targets(manifests: Manifests, things: Iterable[str]) -> dict[str, Key]:
    """The manifest with the conditions of each thing."""
    named = {name: (kind, name) for kind, name in manifests.objects if not is_binding(kind)}
    return {name: named[name.partition("/")[0]] for name in things if name.partition("/")[0] in named}


def _is_as_chosen(choice: Choice, left: Left) -> bool:
    """Whether a replay has only denials that no exclusion reaches, and no more unknown verdicts than before."""
    unknown = choice.exposed.unknown_requests - choice.width.unknown_requests
    return left.denied <= choice.left and left.unknown <= unknown
