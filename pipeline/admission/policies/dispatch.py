"""One request through all policies. Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go (Dispatch).

This is the hot path of a replay. What depends on the policy alone is computed once (CompiledPolicy), what depends on the target,
namespace and state of the cluster once per such (`due.py`), and rows that say `admit` once per (policy, binding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ...cel import ReadSet
from ...matching import Matcher, Target, is_excluded
from ...matching.rules import EXCLUDED_REVIEWS
from ...request import AdmissionRequest, Grade, Object, worst
from ...world import World
from .compile import CompiledPolicy, compile_policy
from .decide import Rows, Subject
from .due import Bound, Due, Entry, Prepared, prepare
from .evaluate import Case, evaluate_policy
from .inputs import AuthorizeUser, Inputs, NamespaceNotFoundError
from .model import Binding, PolicySet
from .outcome import Evaluation
from .params import GivenObjects
from .verdict import Decision, PolicyVerdict

# What expressions were found to say, by what they read: see `_Run._evaluation`. The rows of an evaluation, by binding, param and
# grades, are made once with it.
KnownRows: TypeAlias = dict[tuple[object, ...], Rows]
Memory: TypeAlias = dict[tuple[int, bytes], tuple[Evaluation, KnownRows]]
# Beyond it everything is forgotten, and what comes again is found out again.
MEMORY_MAX = 50_000
_encode = msgspec.json.Encoder().encode
# Beyond it all are forgotten. There are as many as namespaces, times the moments at which the state of the cluster changed.
PREPARED_MAX = 20_000


class Candidate(NamedTuple):
    """A policy that may be for a target. `is_steady` says that no name and no label of an object decides whether it matches."""

    entry: Entry
    is_steady: bool


class CompiledSet:
    """Policies with their bindings, ready for many requests. Not for several threads at once."""

    def __init__(self, entries: Iterable[Entry], given: GivenObjects) -> None:
        self.entries = tuple(entries)
        self.given = given
        self.memory: Memory = {}
        self._by_target: dict[Target, tuple[Candidate, ...]] = {}
        # The world is kept with what was found in it, or another one could get the same identity.
        self._prepared: dict[tuple[Target, str, int], tuple[World, list[Prepared | None]]] = {}

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
            found = self._by_target[target] = tuple(Candidate(entry, _is_steady(entry, target)) for entry in self._find(target))
        return found

    def _find(self, target: Target) -> Iterable[Entry]:
        resource = target.resource
        for entry in self.entries:
            is_static = entry.policy.policy.is_static
            if (resource.group, resource.resource) in EXCLUDED_REVIEWS or (is_excluded(resource) and not is_static):
                continue
            if entry.bound and (entry.matcher is None or entry.matcher.is_candidate(target)):
                yield entry

    def prepared(self, request: AdmissionRequest, world: World) -> Iterable[Prepared]:
        """What a request meets, policy by policy; found out once for all requests that meet the same."""
        target = Target.of(request)
        candidates = self.candidates(target)
        if not candidates:
            return ()
        seen = self.given.over(world)
        key = (target, request.namespace, id(world))
        found = self._prepared.get(key)
        if found is None:
            if len(self._prepared) > PREPARED_MAX:
                self._prepared.clear()
            steady = [prepare(each.entry, request, target, seen) if each.is_steady else None for each in candidates]
            found = self._prepared[key] = (world, steady)
        return [
            prepare(candidate.entry, request, target, seen) if known is None else known
            for known, candidate in zip(found[1], candidates, strict=True)
        ]


def _is_steady(entry: Entry, target: Target) -> bool:
    # The labels of a namespace that is being written are those of the object.
    reads_object = any(matcher.has_resource_names or matcher.object_label_keys for matcher in entry.matchers)
    return not reads_object and target.resource.resource != "namespaces"


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
                tuple(Bound(Subject(compiled, binding), _binding_matcher(binding)) for binding in bindings),
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
    prepared = policies.prepared(request, world)
    if not prepared:
        return []
    if len(policies.memory) > MEMORY_MAX:
        policies.memory.clear()
    run = _Run(Inputs(request, policies.given.over(world), authorize), policies.memory)
    for item in chain.from_iterable(prepared):
        if isinstance(item, Due):
            run.evaluate(item)
        else:
            run.rows.append(item)
    return run.rows


class _Run:
    """The evaluations that are due for one request."""

    def __init__(self, inputs: Inputs, memory: Memory) -> None:
        self.inputs = inputs
        self.rows: list[PolicyVerdict] = []
        self._memory = memory
        # By identity of policy and param, which both outlive this.
        self._known: dict[tuple[int, int], tuple[Evaluation, KnownRows]] = {}

    def evaluate(self, due: Due) -> None:
        """Bindings of one policy that share a param share what the expressions say."""
        key = (id(due.policy), id(due.value))
        found = self._known.get(key)
        if found is None:
            try:
                found = self._known[key] = self._evaluation(due)
            except NamespaceNotFoundError as error:
                self.rows.append(due.subject.not_found(str(error)))
                return
        evaluation, known_rows = found
        grades = self._grades(due.policy, due.floor, evaluation)
        whose = (id(due.subject), due.param.namespace, due.param.name, grades)
        rows = known_rows.get(whose)
        if rows is None:
            rows = known_rows[whose] = due.subject.rows(due.param, evaluation, grades)
        self.rows += rows

    def _evaluation(self, due: Due) -> tuple[Evaluation, KnownRows]:
        """What the expressions say, found out once for all requests that are alike in what these read.

        Values, errors and costs all follow from what is read. Raises NamespaceNotFoundError.
        """
        policy = due.policy
        key = self._key(policy, due.value) if due.match is None and policy.is_pure else None
        found = self._memory.get(key) if key else None
        if found is None:
            evaluation = evaluate_policy(Case(policy, self.inputs, due.match, due.value))
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

    def _grades(self, policy: CompiledPolicy, floor: Grade, evaluation: Evaluation) -> tuple[Grade, ...]:
        """The grade of the whole, then of each validation."""
        whole = self.inputs.grade(policy.all_roots)
        if whole is Grade.EXACT:
            # Then every part of it is exact too.
            return policy.even_grades[floor]
        # Where one outcome stands for all, there is no other.
        read = (
            denied if outcome.decision is Decision.DENY else checked
            for outcome, checked, denied in zip(
                evaluation.outcomes, policy.roots_by_validation, policy.roots_by_denial, strict=False
            )
        )
        return (worst(floor, whole), *(worst(floor, self.inputs.grade(roots)) for roots in read))
