"""One request through all policies. Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go (Dispatch).

This is the hot path of a replay. What depends on the policy alone is computed once (CompiledPolicy), what depends on the resource
and operation once per such target, and rows that say `admit` are made once per (policy, binding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ...cel import ReadSet
from ...cel import Unknown as CelUnknown
from ...matching import Conversion, Match, Matcher, Target, is_excluded
from ...matching.rules import EXCLUDED_REVIEWS
from ...matching.selectors import LabelSelector, labels_of
from ...request import AdmissionRequest, Grade, Known, Object, Unknown, worst
from ...world import World
from .compile import CompiledPolicy, compile_policy
from .decide import Rows, Subject
from .evaluate import Case, evaluate_policy
from .inputs import AuthorizeUser, Inputs, NamespaceNotFoundError
from .model import Binding, ParamKind, PolicySet
from .outcome import Evaluation
from .params import NULL_PARAM, ConfigurationError, GivenObjects, NoParams, Param, Params, collect_params, kind_error, param_of
from .verdict import PolicyVerdict

NO_CONSTRAINTS = "policy contained no match constraints, a required field"


class Unread:
    """Nothing was looked up yet, or what was found is for the slow way."""


UNREAD = Unread()
# What expressions were found to say, by what they read: see `_Run._evaluation`. The rows of an evaluation, by binding, param and
# grades, are made once with it.
KnownRows: TypeAlias = dict[tuple[object, ...], Rows]
Memory: TypeAlias = dict[tuple[int, bytes], tuple[Evaluation, KnownRows]]
# Beyond it everything is forgotten, and what comes again is found out again.
MEMORY_MAX = 50_000
# By identity of the param: the param, and what the expressions of one policy say with it.
Evaluations: TypeAlias = dict[int, tuple[object, Evaluation, KnownRows]]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class _BoundPolicy:
    """A binding, or the absence of one, with the rows that never change."""

    subject: Subject
    matcher: Matcher | None  # None: matches everything that the policy matches


@dataclass(frozen=True)
class Entry:
    policy: CompiledPolicy
    matcher: Matcher | None  # None: a policy without matchConstraints, which is a configuration error
    bound: tuple[_BoundPolicy, ...]
    unbound_params: Sequence[Object | None] | None


class Shortcuts(NamedTuple):
    """Selectors of namespaces that alone decide, for one target: whether the policy matches, and whether each binding does."""

    policy: LabelSelector | None
    bindings: tuple[tuple[_BoundPolicy, LabelSelector | None], ...]


class Candidate(NamedTuple):
    """A policy that may be for a target."""

    entry: Entry
    shortcuts: Shortcuts


class CompiledSet:
    """Policies with their bindings, ready for many requests. Not for several threads at once."""

    def __init__(self, entries: Iterable[Entry], given: GivenObjects) -> None:
        self.entries = tuple(entries)
        self.given = given
        self.memory: Memory = {}
        self._by_target: dict[Target, tuple[Candidate, ...]] = {}

    @property
    def policies(self) -> tuple[CompiledPolicy, ...]:
        """The policies, in the order in which they were given."""
        return tuple(entry.policy for entry in self.entries)

    @property
    def reads(self) -> ReadSet:
        """What any of the policies may read of a request."""
        return ReadSet.union(*(policy.reads for policy in self.policies))

    def candidates(self, target: Target) -> tuple[Candidate, ...]:
        """The policies that may be for a target."""
        found = self._by_target.get(target)
        if found is None:
            found = self._by_target[target] = tuple(self._find(target))
        return found

    def _find(self, target: Target) -> Iterable[Candidate]:
        resource = target.resource
        for entry in self.entries:
            is_static = entry.policy.policy.is_static
            if (resource.group, resource.resource) in EXCLUDED_REVIEWS or (is_excluded(resource) and not is_static):
                continue
            matcher = entry.matcher
            if entry.bound and (matcher is None or matcher.is_candidate(target)):
                bound = tuple((each, each.matcher.decided_by(target) if each.matcher else None) for each in entry.bound)
                yield Candidate(entry, Shortcuts(matcher.decided_by(target) if matcher else None, bound))


def compile_set(
    policies: PolicySet,
    version: tuple[int, int] = (1, 36),
    *,
    unbound: bool = True,
    unbound_params: Mapping[str, Sequence[Object | None]] | None = None,
) -> CompiledSet:
    """Compiles every policy for one Kubernetes minor version. Never raises for what a policy says; such errors are decisions.

    A policy without bindings does nothing in a cluster; with `unbound` it is evaluated nevertheless, without a binding and with the
    params that `unbound_params` has for its name (None for the null of a binding without paramRef; unknown if there are none).
    Objects given with the policies win over recorded ones.
    """
    chosen = unbound_params or {}
    entries = []
    for policy in policies.policies:
        compiled = compile_policy(policy, version)
        bindings: Sequence[Binding | None] = policies.bindings_of(policy) or ((None,) if unbound else ())
        constraints = policy.match_constraints
        entries.append(
            Entry(
                compiled,
                Matcher(constraints) if constraints else None,
                tuple(_BoundPolicy(Subject(compiled, binding), _binding_matcher(binding)) for binding in bindings),
                chosen.get(policy.name),
            )
        )
    return CompiledSet(entries, GivenObjects(policies.objects))


def _binding_matcher(binding: Binding | None) -> Matcher | None:
    if binding is None or binding.match_resources is None:
        return None
    matcher = Matcher(binding.match_resources)
    return None if matcher.is_trivial else matcher


def evaluate_request(
    policies: CompiledSet, request: AdmissionRequest, world: World, authorize: AuthorizeUser | None = None
) -> list[PolicyVerdict]:
    """What every policy that the request's resource and operation concern makes of it.

    No row says that a policy's rules are for other resources; selectors, match conditions and bindings that do not match have one.
    `world` is the state of the cluster as of the request. Without `authorize`, what depends on an authorization check is unknown.
    """
    target = Target.of(request)
    candidates = policies.candidates(target)
    if not candidates:
        return []
    if len(policies.memory) > MEMORY_MAX:
        policies.memory.clear()
    run = _Run(request, target, policies.given.over(world), authorize, policies.memory)
    for entry, shortcuts in candidates:
        run.policy(entry, shortcuts)
    return run.rows


class _Run:
    """The walk of one request over its candidates."""

    def __init__(
        self, request: AdmissionRequest, target: Target, world: World, authorize: AuthorizeUser | None, memory: Memory
    ) -> None:
        self.request = request
        self.target = target
        self.world = world
        self.inputs = Inputs(request, world, authorize)
        self.rows: list[PolicyVerdict] = []
        self._memory = memory
        self._labels: Mapping[str, str] | Unread | None = UNREAD

    def policy(self, entry: Entry, shortcuts: Shortcuts) -> None:
        """First the constraints, then errors of the policy itself, then each binding."""
        match, floor = None, Grade.EXACT
        if not self._is_selected(shortcuts.policy):
            match = self._match(entry)
            if match is None:
                return
            floor = match.grade
            if match.conversion is Conversion.NONE and match.matched_resource == self.request.resource:
                match = None
        kind = entry.policy.policy.param_kind
        error = kind_error(kind, self.world) if kind else None
        if error is not None:
            self.rows.append(Subject(entry.policy, None).configuration_error(error))
            return
        evaluations: Evaluations = {}
        for bound, decided_by in shortcuts.bindings:
            if bound.matcher is None or self._is_selected(decided_by):
                self._binding(entry, bound, match, floor, evaluations)
            elif (grade := self._binding_matches(bound.matcher, bound.subject)) is not None:
                self._binding(entry, bound, match, worst(floor, grade), evaluations)

    def _is_selected(self, decided_by: LabelSelector | None) -> bool:
        """Whether the plainly known labels of the namespace settle that something matches. False says nothing."""
        if decided_by is None:
            return False
        if not decided_by.requirements:
            return True
        labels = self._labels
        if isinstance(labels, Unread):
            labels = self._labels = self._plain_labels()
        return labels is None or (not isinstance(labels, Unread) and decided_by.selects(labels))

    def _plain_labels(self) -> Mapping[str, str] | Unread | None:
        """The labels that namespace selectors look at, where nothing about them is out of the ordinary."""
        request = self.request
        if request.resource.resource == "namespaces":
            return UNREAD
        if not request.namespace:
            return None
        evidence = self.world.namespace(request.namespace)
        if isinstance(evidence, Unknown) or evidence.value is None or evidence.grade is not Grade.EXACT:
            return UNREAD
        return labels_of(evidence.value) or {}

    def _match(self, entry: Entry) -> Match | None:
        """The match of a policy's constraints; None (and a row) if the request is not meant or nobody can tell."""
        subject = Subject(entry.policy, None)
        if entry.matcher is None:
            self.rows.append(subject.configuration_error(ConfigurationError(NO_CONSTRAINTS, of_policy=True)))
            return None
        match = entry.matcher.match(self.request, self.target, self.world)
        if match.matched is True:
            return match
        if match.error:
            self.rows.append(subject.configuration_error(ConfigurationError(match.error, of_policy=True)))
        elif isinstance(match.matched, Unknown):
            self.rows += [bound.subject.unknown(match.why) for bound in entry.bound]
        else:
            self.rows.append(subject.nomatch(match.why, evidence=match.grade))
        return None

    def _binding_matches(self, matcher: Matcher, subject: Subject) -> Grade | None:
        """How well it is known that a binding matches; None (and a row) if it does not or nobody can tell."""
        match = matcher.match(self.request, self.target, self.world)
        if match.matched is True:
            return match.grade
        if match.error:
            self.rows.append(subject.configuration_error(ConfigurationError(match.error)))
        elif isinstance(match.matched, Unknown):
            self.rows.append(subject.unknown(f"matchResources: {match.why}"))
        else:
            self.rows.append(subject.nomatch(f"matchResources: {match.why}", evidence=match.grade))
        return None

    def _binding(self, entry: Entry, bound: _BoundPolicy, match: Match | None, floor: Grade, evaluations: Evaluations) -> None:
        kind = entry.policy.policy.param_kind
        if kind is None:
            self._evaluate(entry.policy, bound, match, floor, NULL_PARAM, evaluations)
            return
        params = self._params(entry, bound, kind)
        if isinstance(params, ConfigurationError):
            self.rows.append(bound.subject.configuration_error(params))
        elif isinstance(params, NoParams):
            self.rows.append(bound.subject.nomatch("no params, parameterNotFoundAction Allow"))
        else:
            for param in params:
                self._evaluate(entry.policy, bound, match, floor, param, evaluations)

    def _params(self, entry: Entry, bound: _BoundPolicy, kind: ParamKind) -> Params:
        binding = bound.subject.binding
        if binding is not None:
            return collect_params(kind, binding.param_ref, self.request.namespace, self.world)
        if entry.unbound_params is None:
            return (Param(Unknown(f"policy {entry.policy.policy.name} has no binding that says which {kind.kind} to use")),)
        return [NULL_PARAM if obj is None else param_of(obj, "given") for obj in entry.unbound_params]

    def _evaluate(
        self, policy: CompiledPolicy, bound: _BoundPolicy, match: Match | None, floor: Grade, param: Param, known: Evaluations
    ) -> None:
        evidence = param.object
        value = evidence.value if isinstance(evidence, Known) else CelUnknown(f"params: {evidence.reason}")
        # Bindings of one policy that share a param share what the expressions say. Objects are told apart by identity, and kept
        # with their evaluation, or another object could get the same identity.
        key = id(value)
        found = known.get(key)
        if found is None:
            try:
                found = known[key] = (value, *self._evaluation(policy, match, value))
            except NamespaceNotFoundError as error:
                self.rows.append(bound.subject.not_found(str(error)))
                return
        _, evaluation, known_rows = found
        if isinstance(evidence, Known):
            floor = worst(floor, evidence.grade)
        grades = self._grades(policy, floor)
        whose = (id(bound), param.namespace, param.name, grades)
        rows = known_rows.get(whose)
        if rows is None:
            rows = known_rows[whose] = bound.subject.rows(param, evaluation, grades)
        self.rows += rows

    def _evaluation(self, policy: CompiledPolicy, match: Match | None, param: Any) -> tuple[Evaluation, KnownRows]:
        """What the expressions say, found out once for all requests that are alike in what these read.

        Values, errors and costs all follow from what is read. Raises NamespaceNotFoundError.
        """
        key = self._key(policy, param) if match is None and policy.is_pure else None
        found = self._memory.get(key) if key else None
        if found is None:
            evaluation = evaluate_policy(Case(policy, self.inputs, match, param))
            found = (evaluation, policy.constant_rows.get(id(evaluation), {}))
            if key:
                self._memory[key] = found
        return found

    def _key(self, policy: CompiledPolicy, param: Any) -> tuple[int, bytes] | None:
        """What a policy reads of this request and a param; None where parts of it are unknown."""
        try:
            return id(policy), _encode(policy.reads.project({**self.inputs.plain(policy.pure_roots), "params": param}))
        except (TypeError, ValueError, NamespaceNotFoundError):
            return None

    def _grades(self, policy: CompiledPolicy, floor: Grade) -> tuple[Grade, ...]:
        """The grade of the whole, then of each validation."""
        whole = self.inputs.grade(policy.all_roots)
        if whole is Grade.EXACT:
            # Then every part of it is exact too.
            return policy.even_grades[floor]
        return (worst(floor, whole), *(worst(floor, self.inputs.grade(roots)) for roots in policy.roots_by_validation))
