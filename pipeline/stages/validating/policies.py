"""The policies that a request meets: the same for all (a what-if), or those that the log shows in force then (calibration)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol, TypeAlias

from queries import LakeReader

from ...authorization import AuthorizeUser
from ...cel.minors import DEFAULT
from ...cel.readset import ReadSet
from ...given import GivenObjects
from ...history.event import Event
from ...history.in_force import CHANGE_DELAY
from ...history.world import BINDINGS, POLICIES, LogHistory
from ...matching import Target
from ...policies.compile import CompiledPolicy, compile_policy
from ...policies.dispatch import CompiledSet, Memory, compile_set, evaluate_request
from ...policies.model import Binding, Policy, PolicySet
from ...policies.verdict import Decision, PolicyVerdict
from ...request import AdmissionRequest, GroupVersionResource, Object, Unknown
from ...requests.judge import RecordJudge
from ...requests.lanes import Lane, LaneName, reads_version
from ...requests.past import load_history
from ...row import INSUFFICIENT
from ...rules.in_force import RecordedRules, combinations
from ...runs.verdict import RECORDED
from ...runs.window import Window
from ...world import World
from .answer import Answer, needs_answer, settled, unconfigured
from .decode import POLICY, binding_from_object, policy_from_object

IN_FLIGHT = "the policy or a binding of it was changed just before, and either version may have been in force"
# The recorded versions of a policy or binding: the settled one first; None where it did not exist.
_Versions: TypeAlias = Sequence[Policy | Binding | Unknown | None]


class Policies(RecordJudge[PolicyVerdict], Protocol):
    """The policies of a replay."""

    @property
    def considered(self) -> CompiledSet:
        """All policies that some request may meet; names are not unique in it if policies changed."""
        ...

    def met_by(self, request: AdmissionRequest) -> Sequence[CompiledSet]:
        """The policies that one request met. A policy with several versions that may have been in force has sets of its own."""
        ...

    def lane(self, name: LaneName) -> Lane | None:
        """See RecordJudge."""
        return lane_of(name, self.considered)

    def has_failed(self, verdicts: Sequence[PolicyVerdict]) -> bool:
        """See RecordJudge."""
        return any(verdict.decision is Decision.ERROR or verdict.is_defect for verdict in verdicts)

    def is_open(self, verdicts: Sequence[PolicyVerdict]) -> bool:
        """See RecordJudge."""
        return any(verdict.decision is Decision.UNKNOWN for verdict in verdicts)


class GivenPolicies(Policies):
    """The same policies for every request."""

    def __init__(self, considered: CompiledSet) -> None:
        self._considered = considered

    @property
    def considered(self) -> CompiledSet:
        """See Policies."""
        return self._considered

    def met_by(self, request: AdmissionRequest) -> Sequence[CompiledSet]:
        """See Policies."""
        return (self._considered,)

    def apart(self) -> Sequence[Policies]:
        """See RecordJudge."""
        every = self._considered
        return [GivenPolicies(CompiledSet([entry], every.given, every.memory)) for entry in every.entries]

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[PolicyVerdict]:
        """See RecordJudge."""
        return evaluate_request(self._considered, request, world, authorize)

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[PolicyVerdict]:
        """See RecordJudge."""
        return evaluate_request(self._considered, request, world, authorize)


class _InForce(NamedTuple):
    """The sets of each policy that may have been in force; and one set of all policies if each has a single set."""

    variants: tuple[tuple[CompiledSet, ...], ...]
    together: CompiledSet | None


class RecordedPolicies(RecordedRules[Policy | Binding], Policies):
    """The policies that were bound at each moment, from the log and snapshots.

    A change is in force some time after it was written. For a request in between every version is tried; if their verdicts differ,
    the verdict is unknown.
    """

    def __init__(self, history: LogHistory, version: tuple[int, int], change_delay: timedelta = CHANGE_DELAY) -> None:
        super().__init__(history, (POLICIES, BINDINGS), change_delay)
        self._version = version
        self._epochs: dict[tuple[str, int], _InForce] = {}
        self._compiled: dict[tuple[int, ...], CompiledSet] = {}
        self._programs: dict[int, CompiledPolicy] = {}
        self._memory: Memory = {}

    @cached_property
    def considered(self) -> CompiledSet:
        """See Policies."""
        return compile_set(self.every_version(), self._version, compiler=self._compile_policy)

    def every_version(self) -> PolicySet:
        """Every version of every policy and binding in the history, one after the other. Names are not unique in it."""
        return self._set(self.recorded_rules())

    def rule_of(self, value: Object, source: str) -> Policy | Binding:
        """See RecordedRules. It accepts every object that the server accepted."""
        return policy_from_object(value, source) if value["kind"] == POLICY else binding_from_object(value, source)

    def _set(self, rules: Iterable[Policy | Binding | None]) -> PolicySet:
        found = tuple(rules)
        policies = tuple(each for each in found if isinstance(each, Policy))
        return PolicySet(policies, tuple(each for each in found if isinstance(each, Binding)), unreadable=self.unreadable)

    def met_by(self, request: AdmissionRequest) -> Sequence[CompiledSet]:
        """See Policies."""
        in_force = self._in_force(request)
        return (in_force.together,) if in_force.together is not None else tuple(chain.from_iterable(in_force.variants))

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[PolicyVerdict] | None:
        """See Policies. Verdicts that a request's own answer may settle are left to `answer`."""
        in_force = self._in_force(request)
        if in_force.together is None:
            return None
        found = evaluate_request(in_force.together, request, world, authorize)
        return None if needs_answer(found) else found

    def apart(self) -> Sequence[Policies]:
        """See Policies."""
        return (self,)

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[PolicyVerdict]:
        """See Policies."""
        in_force, answer = self._in_force(request), Answer(event, self._version)
        if in_force.together is not None:
            together = evaluate_request(in_force.together, request, world, authorize)
            found = self._settled(together, in_force.together, answer) if needs_answer(together) else together
            return unconfigured(found, _by_name([in_force.together]), answer, self._history)
        rows: list[PolicyVerdict] = []
        for variants in in_force.variants:
            tried = []
            for variant in variants:
                verdicts = evaluate_request(variant, request, world, authorize)
                tried.append(settled(verdicts, variant.policies[0], answer) if verdicts else verdicts)
            rows += tried[0] if len(tried) == 1 else _agreed(tried, answer)
        return unconfigured(rows, _by_name(chain.from_iterable(in_force.variants)), answer, self._history)

    def _settled(self, rows: Iterable[PolicyVerdict], compiled: CompiledSet, answer: Answer) -> list[PolicyVerdict]:
        policies = _by_name([compiled])
        by_policy = groupby(rows, key=lambda row: row.policy)
        return [row for name, of_policy in by_policy for row in settled(of_policy, policies[name], answer)]

    def _in_force(self, request: AdmissionRequest) -> _InForce:
        epoch = (request.cluster, self.epoch(request.cluster, request.ts))
        found = self._epochs.get(epoch)
        if found is None:
            met = list(self.in_force(request.cluster, request.ts))
            bindings = [versions for key, versions in met if key.resource == BINDINGS.resource]
            policies = [(key.name, versions) for key, versions in met if key.resource == POLICIES.resource]
            tried = tuple(self._variants(name, versions, bindings) for name, versions in policies)
            found = self._epochs[epoch] = _InForce(tried, self._together(tried))
        return found

    def _together(self, variants: Sequence[Sequence[CompiledSet]]) -> CompiledSet | None:
        """One set of all policies, if each is known: they read the same request, and share the values decoded from it."""
        if any(len(versions) != 1 for versions in variants):
            return None
        entries = chain.from_iterable(versions[0].entries for versions in variants)
        return CompiledSet(entries, GivenObjects(()), self._memory)

    def _variants(self, name: str, versions: _Versions, others: Sequence[_Versions]) -> tuple[CompiledSet, ...]:
        """One compiled set for each combination of versions of one policy and its bindings."""
        choices: list[_Versions] = [versions]
        for each in others:
            named = [rule if isinstance(rule, Binding) and rule.policy_name == name else None for rule in each]
            if any(named):
                choices.append(named)
        return tuple(dict.fromkeys(self._compile(combination) for combination in combinations(choices)))

    def _compile(self, combination: tuple[Policy | Binding | Unknown | None, ...]) -> CompiledSet:
        key = tuple(id(item) for item in combination)
        if key not in self._compiled:
            rules = (None if isinstance(item, Unknown) else item for item in combination)
            self._compiled[key] = compile_set(self._set(rules), self._version, unbound=False, compiler=self._compile_policy)
        return self._compiled[key]

    def _compile_policy(self, policy: Policy, version: tuple[int, int]) -> CompiledPolicy:
        """Compile a policy once, for all versions of its bindings."""
        found = self._programs.get(id(policy))
        if found is None:
            found = self._programs[id(policy)] = compile_policy(policy, version)
        return found


def _by_name(compiled: Iterable[CompiledSet]) -> dict[str, CompiledPolicy]:
    return {policy.policy.name: policy for each in compiled for policy in each.policies}


def _agreed(answers: list[list[PolicyVerdict]], answer: Answer) -> Iterator[PolicyVerdict]:
    """The common verdicts of all versions of one policy that may have been in force; unknown for each binding where they differ.

    The answer of the server may rule versions out.
    """
    policy = next((rows[0].policy for rows in answers if rows), "")
    possible = [rows for rows in answers if not answer.contradicts(rows, policy)] or answers
    every, grouped = [_by_binding(rows) for rows in answers], [_by_binding(rows) for rows in possible]
    for name in dict.fromkeys(name for groups in grouped for name in groups):
        found = [groups.get(name, []) for groups in grouped]
        rows = next(filter(None, reversed(found)))
        if not all(_say_the_same(rows, others) for others in found):
            actions = rows[0].actions
            yield PolicyVerdict(
                policy, name, None, None, None, Decision.UNKNOWN, why=IN_FLIGHT, evidence=INSUFFICIENT, actions=actions
            )
        elif all(_say_the_same(rows, groups.get(name, [])) for groups in every):
            yield from rows
        else:
            yield from (row._replace(evidence=RECORDED) for row in rows)


def _by_binding(rows: Iterable[PolicyVerdict]) -> dict[str | None, list[PolicyVerdict]]:
    groups: dict[str | None, list[PolicyVerdict]] = {}
    for row in rows:
        groups.setdefault(row.binding, []).append(row)
    return groups


def _say_the_same(left: Sequence[PolicyVerdict], right: Sequence[PolicyVerdict]) -> bool:
    """Whether both have the same effect: a binding's actions matter only after a failure, and reasons for no match never do."""
    if all(row.decision is Decision.NOMATCH for row in (*left, *right)):
        return True
    return len(left) == len(right) and all(
        one == other or (one.effect is not Decision.DENY and one._replace(actions=other.actions) == other)
        for one, other in zip(left, right, strict=True)
    )


def recorded_policy_set(history: LogHistory) -> PolicySet:
    """Every version of every policy and binding in a history, for a plan over all of them."""
    return RecordedPolicies(history, DEFAULT).every_version()


def judged_by(
    reader: LakeReader, policies: PolicySet | None, version: tuple[int, int], window: Window, change_delay: timedelta
) -> tuple[LogHistory, Policies]:
    """The history that some policies need (None: those that were bound at the time), and the policies ready for requests."""
    if policies is not None:
        history = load_history(reader, policies.param_kinds, window)
        return history, GivenPolicies(compile_set(policies, version))
    recorded = recorded_policy_set(load_history(reader, (), window))
    history = load_history(reader, recorded.param_kinds, window)
    return history, RecordedPolicies(history, version, change_delay)


def lane_of(name: LaneName, compiled: CompiledSet) -> Lane | None:
    """The lane of some requests; None if policies read more than object and request, or see another version of the object."""
    if (
        name.verb not in ("create", "update", "patch")
        or name.resource == "namespaces"
        or (name.verb == "create" and name.subresource)
    ):
        return None
    entries = list({id(entry): entry for target in _targets(name) for entry, _ in compiled.candidates(target)}.values())
    matchers = [matcher for entry in entries for matcher in entry.matchers]
    if not entries or any(matcher.may_convert(target) for matcher in matchers for target in _targets(name)):
        return None
    reads = ReadSet.union(*(entry.policy.reads for entry in entries))
    if "oldObject" in reads.variables() or (name.verb != "create" and reads_version(reads.of("object"))):
        return None
    if any(entry.policy.reads_authorizer for entry in entries):
        reads.root.at("request").whole = True
    if any(matcher.has_resource_names for matcher in matchers):
        reads.root.at("request").at("name")
    keys = {key for matcher in matchers for key in matcher.object_label_keys}
    for key in keys:
        reads.root.at("object").at("metadata").at("labels").at(key)
    return Lane(name, reads, bool(keys))


def _targets(name: LaneName) -> Iterator[Target]:
    resource = GroupVersionResource(name.api_group, name.api_version, name.resource)
    for operation in ("CREATE",) if name.verb == "create" else ("CREATE", "UPDATE"):
        for has_namespace in (True, False):
            yield Target(operation, resource, name.subresource, has_namespace)
