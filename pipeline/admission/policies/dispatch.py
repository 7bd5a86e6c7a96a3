"""One request through all policies. Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go (Dispatch).

This is the hot path of a replay. What depends on the policy alone is computed once (CompiledPolicy), what depends on the resource
and operation once per such target, and rows that say `admit` are made once per (policy, binding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...cel.values import Unknown as CelUnknown
from ...matching import Match, Matcher, Target, is_excluded
from ...matching.rules import EXCLUDED_REVIEWS
from ...request import AdmissionRequest, Grade, Known, Object, Unknown, worst
from ...world import World
from .compile import CompiledPolicy, compile_policy
from .decide import Rows, Subject
from .evaluate import Case, evaluate_policy
from .inputs import AuthorizeUser, Inputs, NamespaceNotFoundError
from .model import Binding, Policy, PolicySet
from .outcome import Evaluation
from .params import NULL_PARAM, ConfigurationError, GivenObjects, NoParams, Param, Params, collect_params, kind_error, param_of
from .reads import Reads
from .verdict import PolicyVerdict

NO_CONSTRAINTS = "policy contained no match constraints, a required field"


@dataclass(frozen=True)
class _BoundPolicy:
    """A binding, or the absence of one, with the rows that never change."""

    subject: Subject
    matcher: Matcher | None  # None: matches everything that the policy matches
    constant: dict[tuple[int, tuple[Grade, ...]], Rows] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    policy: CompiledPolicy
    matcher: Matcher | None  # None: a policy without matchConstraints, which is a configuration error
    bound: tuple[_BoundPolicy, ...]
    unbound_params: Sequence[Object | None] | None


class CompiledSet:
    """Policies with their bindings, ready for many requests. Not for several threads at once."""

    def __init__(self, entries: Iterable[Entry], given: GivenObjects) -> None:
        self.entries = tuple(entries)
        self.given = given
        self._by_target: dict[Target, tuple[tuple[Entry, bool], ...]] = {}

    @property
    def policies(self) -> tuple[CompiledPolicy, ...]:
        """The policies, in the order in which they were given."""
        return tuple(entry.policy for entry in self.entries)

    @property
    def reads(self) -> Reads:
        """What any of the policies may read of a request."""
        return Reads.union(policy.reads for policy in self.policies)

    def candidates(self, target: Target) -> tuple[tuple[Entry, bool], ...]:
        """The policies that may be for a target, and whether they certainly are: then nothing else needs to be asked."""
        found = self._by_target.get(target)
        if found is None:
            found = self._by_target[target] = tuple(self._find(target))
        return found

    def _find(self, target: Target) -> Iterable[tuple[Entry, bool]]:
        resource = target.resource
        for entry in self.entries:
            is_static = entry.policy.policy.is_static
            if (resource.group, resource.resource) in EXCLUDED_REVIEWS or (is_excluded(resource) and not is_static):
                continue
            if entry.matcher is None:
                yield entry, False
            elif entry.bound and entry.matcher.is_candidate(target):
                yield entry, entry.matcher.is_certain(target)


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
    run = _Run(request, target, policies.given.over(world), authorize)
    for entry, is_certain in candidates:
        run.policy(entry, is_certain)
    return run.rows


class _Run:
    """The walk of one request over its candidates."""

    def __init__(self, request: AdmissionRequest, target: Target, world: World, authorize: AuthorizeUser | None) -> None:
        self.request = request
        self.target = target
        self.world = world
        self.inputs = Inputs(request, world, authorize)
        self.rows: list[PolicyVerdict] = []

    def policy(self, entry: Entry, is_certain: bool) -> None:
        """First the constraints, then errors of the policy itself, then each binding."""
        match = None
        if not is_certain:
            match = self._match(entry)
            if match is None:
                return
            if match.conversion == "none" and match.matched_resource == self.request.resource and match.grade is Grade.EXACT:
                match = None
        kind = entry.policy.policy.param_kind
        error = kind_error(kind, self.world) if kind else None
        if error is not None:
            self.rows.append(Subject(entry.policy, None).configuration_error(error))
            return
        evaluations: dict[int, tuple[object, Evaluation]] = {}
        for bound in entry.bound:
            if bound.matcher is None or self._binding_matches(bound):
                self._binding(entry, bound, match, evaluations)

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

    def _binding_matches(self, bound: _BoundPolicy) -> bool:
        assert bound.matcher is not None
        match = bound.matcher.match(self.request, self.target, self.world)
        if match.matched is True:
            return True
        if match.error:
            self.rows.append(bound.subject.configuration_error(ConfigurationError(match.error)))
        elif isinstance(match.matched, Unknown):
            self.rows.append(bound.subject.unknown(f"matchResources: {match.why}"))
        else:
            self.rows.append(bound.subject.nomatch(f"matchResources: {match.why}", evidence=match.grade))
        return False

    def _binding(
        self, entry: Entry, bound: _BoundPolicy, match: Match | None, evaluations: dict[int, tuple[object, Evaluation]]
    ) -> None:
        params = self._params(entry, bound)
        if isinstance(params, ConfigurationError):
            self.rows.append(bound.subject.configuration_error(params))
        elif isinstance(params, NoParams):
            self.rows.append(bound.subject.nomatch("no params, parameterNotFoundAction Allow"))
        else:
            for param in params:
                self._evaluate(entry.policy, bound, match, param, evaluations)

    def _params(self, entry: Entry, bound: _BoundPolicy) -> Params:
        kind = entry.policy.policy.param_kind
        if kind is None:
            return (NULL_PARAM,)
        binding = bound.subject.binding
        if binding is not None:
            return collect_params(kind, binding.param_ref, self.request.namespace, self.world)
        if entry.unbound_params is None:
            return (Param(Unknown(f"policy {entry.policy.policy.name} has no binding that says which {kind.kind} to use")),)
        return [NULL_PARAM if obj is None else param_of(obj, "given") for obj in entry.unbound_params]

    def _evaluate(
        self,
        policy: CompiledPolicy,
        bound: _BoundPolicy,
        match: Match | None,
        param: Param,
        evaluations: dict[int, tuple[object, Evaluation]],
    ) -> None:
        evidence = param.object
        value = evidence.value if isinstance(evidence, Known) else CelUnknown(f"params: {evidence.reason}")
        # Bindings of one policy that share a param share what the expressions say. Objects are told apart by identity.
        key = id(evidence.value) if isinstance(evidence, Known) else id(evidence)
        known = evaluations.get(key)
        if known is None:
            try:
                known = (evidence, evaluate_policy(Case(policy, self.inputs, match, value)))
            except NamespaceNotFoundError as error:
                self.rows.append(bound.subject.not_found(str(error)))
                return
            # The evidence is kept with its evaluation, or another object could get the same identity.
            evaluations[key] = known
        evaluation = known[1]
        grades = self._grades(policy, match, evidence)
        if param is not NULL_PARAM or id(evaluation) not in policy.constants:
            self.rows += bound.subject.rows(param, evaluation, grades)
            return
        key_rows = (id(evaluation), grades)
        rows = bound.constant.get(key_rows)
        if rows is None:
            rows = bound.constant[key_rows] = bound.subject.rows(param, evaluation, grades)
        self.rows += rows

    def _grades(self, policy: CompiledPolicy, match: Match | None, param: Known[Object | None] | Unknown) -> tuple[Grade, ...]:
        """The grade of the whole, then of each validation."""
        whole = self.inputs.grade(policy.all_roots)
        if match is not None or param.__class__ is not Known or param.grade is not Grade.EXACT or whole is not Grade.EXACT:
            floor = worst(match.grade if match else Grade.EXACT, param.grade if isinstance(param, Known) else Grade.EXACT)
            singles = [worst(floor, self.inputs.grade(roots)) for roots in policy.roots_by_validation]
            return (worst(floor, whole), *singles)
        return policy.exact_grades


def compile_policies(policies: Iterable[Policy], version: tuple[int, int] = (1, 36)) -> CompiledSet:
    """A set of policies that are all evaluated without bindings."""
    return compile_set(PolicySet(tuple(policies)), version)
