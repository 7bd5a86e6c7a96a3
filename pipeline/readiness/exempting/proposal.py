"""Proposals: exemptions put into the manifests, with the replay that shows their effect.

The choice is made from the log's events, and a replay of the changed manifests checks it. A policy is clean with its exemptions
only after a replay with them. A second replay says which exemptions are needed: see needed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from queries import LakeReader

from ...cel import ReadSet
from ...request import Object
from ...runs import RunStore, RunSummary
from ...stages.validating.decode import BINDING, POLICY
from ...stages.validating.judges import Judges
from ...stages.validating.plan import ReplayPlan
from ...stages.validating.planning import plan_replay
from ..explaining.expression_reads import ExpressionReads
from ..sql import rows_of, statement
from .barred import Barred, barred_by
from .exclusions import Exclusion, Kind
from .exemptions import Choice, Chosen
from .manifests import Key, Manifests, key_of, merge_patches, with_exclusions
from .measures import Exemption, ExemptionKind
from .needed import Probes
from .search import NOTHING, Search, search_of_run
from .trial import Note, ignored, trial_run
from .usable import who_can_use

_KINDS: Mapping[Kind, ExemptionKind] = {
    Kind.NAMESPACE: ExemptionKind.NAMESPACE_EXCLUSION,
    Kind.LABEL: ExemptionKind.MATCH_CONDITION,
    Kind.OBJECT: ExemptionKind.MATCH_CONDITION,
    Kind.WORKLOAD: ExemptionKind.MATCH_CONDITION,
    Kind.USER_IN_NAMESPACE: ExemptionKind.SUBJECT,
    Kind.USER: ExemptionKind.SUBJECT,
    Kind.CONTROLLER: ExemptionKind.SUBJECT,
    Kind.GROUP: ExemptionKind.SUBJECT,
}


@dataclass(frozen=True, slots=True)
class Left:
    """The denials and unknowns of one policy in a replay with the exemptions applied; `None` figures were not replayed."""

    denied: int
    unknown: int


@dataclass(frozen=True)
class Proposal:
    """Exemptions for some policies, put into their manifests, and the result of the replay with them.

    `left` has the remaining denials and unknowns of each policy with exemptions; a policy that is not in it was not replayed again.
    `who` says who can use each exclusion. `targets` names the manifest of each thing that is not a validating policy: its name is
    that of its policy, or for a webhook CONFIGURATION/WEBHOOK.
    """

    choices: tuple[Choice, ...]
    before: Manifests
    after: Manifests
    review_by: date | None
    left: Mapping[str, Left] = field(default_factory=dict)
    who: Mapping[Exclusion, str] = field(default_factory=dict)
    targets: Mapping[str, Key] = field(default_factory=dict)

    def target_of(self, exclusion: Exclusion) -> Key:
        """The manifest that an exclusion changes."""
        kind, name = self.targets.get(exclusion.policy, (POLICY, exclusion.policy))
        if exclusion.binding is None or "/" in exclusion.policy:
            return kind, name
        return f"{kind}Binding", exclusion.binding

    @property
    def denies_nothing(self) -> bool:
        """Whether the replay with everything applied had no would-be denial."""
        return not any(left.denied for left in self.left.values()) and not any(choice.left for choice in self.choices)

    @property
    def fits_later(self) -> bool:
        """Whether exemptions from the earlier half of the time leave no denial in the later half, for every policy."""
        return not any(choice.later.workloads_denied for choice in self.choices if choice.later is not None)

    @property
    def is_clean(self) -> bool:
        """Whether the replay also left nothing unknown: an unknown request may be a denial."""
        return self.denies_nothing and not any(left.unknown for left in self.left.values())

    def exemptions_of(self, policy: str, binding: str | None) -> tuple[Exemption, ...]:
        """The report's exemptions: those on the binding, and those on its policy.

        The patch of an object stands with the first exemption on it and holds all of them, because lists are patched as a whole.
        """
        patches = {key_of(patch): patch for patch in merge_patches(self.before, self.after)}
        return tuple(
            _exemption(item, self.target_of(item.exclusion), patches, self.review_by, self.who.get(item.exclusion, ""))
            for choice in self.choices
            if choice.policy == policy
            for item in choice.chosen
            if item.exclusion.binding in (binding, None) or binding is None
        )


def _exemption(item: Chosen, target: Key, patches: dict[Key, Object], review_by: date | None, who: str) -> Exemption:
    """One exemption of the report; it takes its patch out of `patches`."""
    exclusion, width = item.exclusion, item.width
    return Exemption(
        kind=_KINDS[exclusion.kind],
        subject=exclusion.words,
        target="/".join(target),
        patch=patches.pop(target, {}),
        hides_requests=width.requests,
        hides_units=width.units,
        denied_requests=width.denied_requests,
        denied_units=width.denied_units,
        review_by=review_by,
        reason=str(width),
        who=who,
    )


def _bind(search: Search, manifests: Manifests) -> None:
    """Give the policies without bindings the one that they would get: it has the policy's name, unless another has it."""
    taken = {name for kind, name in manifests.objects if kind == BINDING}
    for policy in search.policies:
        # A binding of a policy with params needs a paramRef, which only its owner can choose.
        if not manifests.bindings_of(policy) and not manifests.objects[POLICY, policy]["spec"].get("paramKind"):
            search.bind(policy, policy if policy not in taken else f"{policy}-hindcast")


# A selector may look at an object that the event does not hold (the old object, a deleted namespace). If the replay disagrees
# with the choice, the choice is made again without the kinds that could be the cause.
_RETREATS: tuple[tuple[Kind, ...], ...] = ((), (Kind.LABEL,), (Kind.LABEL, Kind.NAMESPACE))


def propose(
    reader: LakeReader,
    lake: Path,
    plan: ReplayPlan,
    summary: RunSummary,
    manifests: Manifests,
    review_by: date | None,
    workers: int = 1,
    names: frozenset[str] | None = None,
    is_worth_replaying: Callable[[Choice], bool] = lambda choice: True,
    confidence: float = 0.95,
    note: Note = ignored,
) -> Proposal:
    """Exemptions for every policy of a finished run that would have denied something, replayed with the exemptions applied.

    `review_by` is the day by which someone should review them; `names` narrows to some policies. Choices not worth a replay are
    proposed too, but have no entry in the proposal's `left`. `confidence` is that of the bound in `Choice.later`.
    """
    verdicts = RunStore(lake).run(summary.run_id).verdicts
    search = search_of_run(reader, verdicts, names)
    _bind(search, manifests)
    barred = _barred(reader, verdicts, plan)
    reader.connection.execute(
        "CREATE OR REPLACE TEMP TABLE still_denied (policy VARCHAR, cluster VARCHAR, audit_id VARCHAR, ts TIMESTAMPTZ)"
    )
    choices: dict[str, Choice] = {}
    left: dict[str, Left] = {}
    after = manifests
    pending = list(search.policies)
    for without in _RETREATS:
        bars = {name: barred.get(name, NOTHING).and_kinds(without) for name in pending}
        choices |= search.choose_validated(bars, confidence)
        after = apply_choices(manifests, choices.values(), review_by)
        pending = [name for name in pending if is_worth_replaying(choices[name])]
        left |= _replay_again(reader, lake, plan, after, frozenset(pending), workers, note)
        pending = [name for name in pending if not _is_as_chosen(choices[name], left[name])]
        if not pending:
            break
    probes = Probes(manifests, [choices[name] for name in sorted(left)])
    if probes.objects:
        again = Manifests(probes.objects, manifests.others)
        taken_out = reader.connection.execute(statement("taken_out"), {"verdicts": str(verdicts), "names": sorted(left)}).fetchall()
        wanted = tuple(audit_id for (audit_id,) in taken_out)
        with _replayed(reader, lake, plan, again, probes.names, workers, wanted=wanted) as probed:
            for name, items in probes.needless(reader.connection, verdicts, probed):
                for item in items:
                    choices[name] = search.minus(choices[name], item)
        after = apply_choices(manifests, choices.values(), review_by)
    found = tuple(choices[name] for name in sorted(choices))
    return Proposal(found, manifests, after, review_by, left, _users_of(reader, plan, found, search))


def _barred(reader: LakeReader, verdicts: Path, plan: ReplayPlan) -> dict[str, Barred]:
    """For each policy the fields that its denying expressions read, on which no exemption may select."""
    if plan.policies is None:
        return {}
    reads = ExpressionReads(plan.policies, plan.kubernetes_version)
    rows = rows_of(reader.connection, "denying", {"verdicts": str(verdicts)})
    return {
        row["policy"]: barred_by(ReadSet.union(*(reads.of(row["policy"], index) for index in row["expressions"]))) for row in rows
    }


def _users_of(reader: LakeReader, plan: ReplayPlan, choices: Iterable[Choice], search: Search) -> dict[Exclusion, str]:
    """Who can use each exclusion, by the roles at the end of the window."""
    chosen = [item.exclusion for choice in choices for item in choice.chosen]
    if not chosen:
        return {}
    ((last,),) = reader.connection.execute("SELECT max(ts) FROM events").fetchall()
    rbac = Judges(reader, plan).rbac if plan.policies is not None else None
    moment = plan.window.until or last
    return who_can_use(search.places(chosen), rbac, moment)


def apply_choices(manifests: Manifests, choices: Iterable[Choice], review_by: date | None) -> Manifests:
    """The manifests with all chosen exclusions."""
    return with_exclusions(manifests, [(item.exclusion, review_by) for choice in choices for item in choice.chosen])


def _is_as_chosen(choice: Choice, left: Left) -> bool:
    """Whether a replay has only denials that no exclusion reaches, and no more unknown verdicts than before."""
    unknown = choice.exposed.unknown_requests - choice.width.unknown_requests
    return left.denied <= choice.left and left.unknown <= unknown


def _replay_again(
    reader: LakeReader, lake: Path, plan: ReplayPlan, manifests: Manifests, names: frozenset[str], workers: int, note: Note
) -> dict[str, Left]:
    """Replay some policies with their present manifests; count the remaining denials and unknowns of each. `still_denied` has
    these denials."""
    if not names:
        return {}
    with _replayed(reader, lake, plan, manifests, names, workers, note) as verdicts:
        reader.connection.execute("DELETE FROM still_denied WHERE list_contains($names, policy)", {"names": sorted(names)})
        reader.connection.execute(statement("still_denied_of"), {"verdicts": str(verdicts)})
        counted = reader.connection.execute(statement("left"), {"verdicts": str(verdicts)}).fetchall()
    found = {policy: Left(denied, unknown) for policy, denied, unknown in counted}
    return {name: found.get(name, Left(0, 0)) for name in sorted(names)}


@contextmanager
def _replayed(
    reader: LakeReader,
    lake: Path,
    plan: ReplayPlan,
    manifests: Manifests,
    names: frozenset[str],
    workers: int,
    note: Note = ignored,
    wanted: tuple[str, ...] = (),
) -> Iterator[Path]:
    """The verdicts of a replay of some policies with these manifests, over a plan's window. See ReplayPlan.wanted."""
    again = plan_replay(reader, manifests.only(names).policy_set(), plan.window, plan.kubernetes_version)
    again = replace(again, wanted=wanted)
    if again.other_authorizers:
        again = replace(again, other_authorizers=plan.other_authorizers)
    with trial_run(again, lake, workers, note) as verdicts:
        yield verdicts
