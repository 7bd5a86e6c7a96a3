"""One request through all policies. Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go (Dispatch).

This is the hot path of a replay. What depends on the policy alone is computed once (CompiledPolicy), what depends on the target,
namespace and state of the cluster once per such (`due.py`), and rows that say `admit` once per (policy, binding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec

from queries.reach_rules import EXEMPT_REVIEWS

from ...cel import ReadSet
from ...cel.defects import defect_of
from ...matching import Matcher, Target, is_excluded, labels_of
from ...request import AdmissionRequest, Grade, Known, Object, Unknown, worst
from ...world import World
from .compile import CompiledPolicy, compile_policy
from .decide import Rows, Subject
from .due import Bound, Due, Entry, Prepared, prepare
from .evaluate import Case, evaluate_policy
from .inputs import AuthorizeUser, Inputs, NamespaceNotFoundError
from .model import Binding, Policy, PolicySet
from .outcome import Evaluation
from .params import GivenObjects
from .verdict import Decision, PolicyVerdict

# What expressions were found to say, by what they read: see `_Run._evaluation`. The rows of an evaluation, by binding, param and
# grades, are made once with it.
Labels: TypeAlias = tuple[object, ...]
KnownRows: TypeAlias = dict[tuple[object, ...], Rows]
Memory: TypeAlias = dict[tuple[int, bytes], tuple[Evaluation, KnownRows]]
# Beyond it everything is forgotten, and what comes again is found out again.
MEMORY_MAX = 50_000
_encode = msgspec.json.Encoder().encode
# Beyond it all are forgotten. There are as many as namespaces, times the moments at which the state of the cluster changed.
PREPARED_MAX = 20_000
_ABSENT = object()


class Candidate(NamedTuple):
    """A policy that may be for a target, and the labels of objects that decide it; None if there is more of an object that does."""

    entry: Entry
    label_keys: tuple[str, ...] | None


class CompiledSet:
    """Policies with their bindings, ready for many requests. Not for several threads at once."""

    def __init__(self, entries: Iterable[Entry], given: GivenObjects, memory: Memory | None = None) -> None:
        """`memory` may be shared with sets of the same compiled policies, all of which outlive it."""
        self.entries = tuple(entries)
        self.given = given
        self.memory: Memory = {} if memory is None else memory
        self.reads_managed_fields = any(entry.policy.reads_managed_fields for entry in self.entries)
        self._by_target: dict[Target, tuple[Candidate, ...]] = {}
        # The world is kept with what was found in it, or another one could get the same identity.
        self._prepared: dict[tuple[Target, str, int], tuple[World, dict[tuple[int, Labels], Prepared]]] = {}

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
            found = self._by_target[target] = tuple(Candidate(entry, _label_keys(entry, target)) for entry in self._find(target))
        return found

    def _find(self, target: Target) -> Iterable[Entry]:
        resource = target.resource
        for entry in self.entries:
            is_static = entry.policy.policy.is_static
            if (resource.group, resource.resource) in EXEMPT_REVIEWS or (is_excluded(resource) and not is_static):
                continue
            if entry.bound and (entry.matcher is None or entry.matcher.is_candidate(target)):
                yield entry

    def prepared(self, request: AdmissionRequest, world: World) -> Iterator[Prepared]:
        """What a request meets, policy by policy; found out once for all requests that meet the same."""
        target = Target.of(request)
        candidates = self.candidates(target)
        if not candidates:
            return
        seen = self.given.over(world)
        place = (target, request.namespace, id(world))
        if place not in self._prepared:
            if len(self._prepared) > PREPARED_MAX:
                self._prepared.clear()
            self._prepared[place] = (world, {})
        known = self._prepared[place][1]
        for index, (entry, label_keys) in enumerate(candidates):
            labels = _labels(request, label_keys)
            found = None if labels is None else known.get((index, labels))
            if found is None:
                found = _prepared(entry, request, target, seen)
                if labels is not None:
                    known[index, labels] = found
            yield found


def _prepared(entry: Entry, request: AdmissionRequest, target: Target, world: World) -> Prepared:
    """As `prepare`. A defect that one policy brings out costs no other its verdict."""
    try:
        return prepare(entry, request, target, world)
    except RecursionError:
        raise  # Others have a larger stack to try it on.
    except Exception as problem:
        return tuple(bound.subject.unknown(defect_of(problem)) for bound in entry.bound)


def _label_keys(entry: Entry, target: Target) -> tuple[str, ...] | None:
    # The labels of a namespace that is being written are those of the object.
    if target.resource.resource == "namespaces" or any(matcher.has_resource_names for matcher in entry.matchers):
        return None
    return tuple(sorted({key for matcher in entry.matchers for key in matcher.object_label_keys}))


def _labels(request: AdmissionRequest, keys: tuple[str, ...] | None) -> Labels | None:
    """What is known of these labels of a request's object; None where its old object may have others, or they are none."""
    if not keys:
        return None if keys is None else ()
    new, old = request.object, request.old_object
    if isinstance(new, Unknown) or not (isinstance(old, Unknown) or (old.__class__ is Known and old.value is None)):
        return None
    labels = labels_of(new.value)
    if labels is None:
        return None
    values = [labels.get(key, _ABSENT) for key in keys]
    is_plain = all(value.__class__ is str or value is _ABSENT for value in values)
    return (new.grade, old.reason if isinstance(old, Unknown) else "", *values) if is_plain else None


def compile_set(
    policies: PolicySet,
    version: tuple[int, int] = (1, 36),
    *,
    unbound: bool = True,
    unbound_params: Mapping[str, Sequence[Object | None]] | None = None,
    compiler: Callable[[Policy, tuple[int, int]], CompiledPolicy] = compile_policy,
) -> CompiledSet:
    """Compiles every policy for one Kubernetes minor version. Never raises for what a policy says; such errors are decisions.

    A policy without bindings does nothing in a cluster; with `unbound` it is evaluated nevertheless, without a binding and with the
    params that `unbound_params` has for its name (None for the null of a binding without paramRef; unknown if there are none).
    Objects given with the policies win over recorded ones.
    """
    chosen = unbound_params or {}
    entries = []
    for policy in policies.policies:
        compiled = compiler(policy, version)
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
    A defect that one policy brings out makes that policy unknown and no other.
    `world` is the state of the cluster as of the request. Without `authorize`, what depends on an authorization check is unknown.
    """
    if len(policies.memory) > MEMORY_MAX:
        policies.memory.clear()
    inputs = Inputs(request, policies.given.over(world), authorize, managed_fields=policies.reads_managed_fields)
    run = _Run(inputs, policies.memory)
    for item in chain.from_iterable(policies.prepared(request, world)):
        if isinstance(item, Due):
            try:
                run.evaluate(item)
            except RecursionError:
                raise  # Others have a larger stack to try it on.
            except Exception as problem:
                run.rows.append(item.subject.unknown(defect_of(problem), item.param))
        else:
            run.rows.append(item)
    return run.rows


def input_key(inputs: Inputs, policy: CompiledPolicy, param: Any) -> tuple[int, bytes] | None:
    """What a policy reads of a request and a param; None where parts of it are unknown. The policy must be pure."""
    try:
        return id(policy), _encode(policy.project({**inputs.plain(policy.pure_roots), "params": param}))
    except (TypeError, ValueError, NamespaceNotFoundError):
        return None


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
        key = input_key(self.inputs, policy, due.value) if due.match is None and policy.is_pure else None
        found = self._memory.get(key) if key else None
        if found is None:
            evaluation = evaluate_policy(Case(policy, self.inputs, due.match, due.value))
            found = (evaluation, policy.constant_rows.get(id(evaluation), {}))
            if key:
                self._memory[key] = found
        return found

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
