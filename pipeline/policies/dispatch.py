"""Evaluates one request with all policies.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go (Dispatch).

This is the hot path of a replay. CompiledPolicy computes once the results that depend on the policy alone. Results that depend on
the target, namespace and state of the cluster are computed once per combination of these (`due.py`). Rows that say `admit` are made
once per (policy, binding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..authorization import AuthorizeUser
from ..cel import ReadSet
from ..cel.defects import defect_of
from ..cel.minors import DEFAULT
from ..given import GivenObjects
from ..matching import Matcher, Target, is_excluded, is_review, labels_of
from ..request import AdmissionRequest, Grade, Known, Object, Unknown, worst
from ..world import World
from .compile import CompiledPolicy, compile_policy
from .decide import Rows, Subject
from .due import Bound, Due, Entry, Prepared, prepare
from .evaluate import Case, evaluate_policy
from .inputs import Inputs, NamespaceNotFoundError
from .model import Binding, Policy, PolicySet
from .outcome import Evaluation
from .verdict import Decision, PolicyVerdict

# The evaluations that were computed before, by the values that they read: see `_Run._evaluation`. Their rows are cached with them,
# by binding, param and grades.
Labels: TypeAlias = tuple[object, ...]
KnownRows: TypeAlias = dict[tuple[object, ...], Rows]
Memory: TypeAlias = dict[tuple[int, bytes], tuple[Evaluation, KnownRows]]
# Above this size the cache is cleared, and its results are computed again when they are needed.
MEMORY_MAX = 50_000
_encode = msgspec.json.Encoder().encode
# Above this size the cache is cleared. It has one entry per namespace and moment at which the state of the cluster changed.
PREPARED_MAX = 20_000
_ABSENT = object()


class Candidate(NamedTuple):
    """A policy that may match a target, and the object labels that decide it; None if other parts of the object decide it too."""

    entry: Entry
    label_keys: tuple[str, ...] | None


class CompiledSet:
    """Policies with their bindings, ready for many requests. Not safe for several threads at once."""

    def __init__(self, entries: Iterable[Entry], given: GivenObjects, memory: Memory | None = None) -> None:
        """`memory` may be shared with other sets of the same compiled policies; the policies must outlive it."""
        self.entries = tuple(entries)
        self.given = given
        self.memory: Memory = {} if memory is None else memory
        self.reads_managed_fields = any(entry.policy.reads_managed_fields for entry in self.entries)
        self._by_target: dict[Target, tuple[Candidate, ...]] = {}
        # The cache keeps the world as well as its results: otherwise another world could get the same identity.
        self._prepared: dict[tuple[Target, str, int], tuple[World, dict[tuple[int, Labels], Prepared]]] = {}

    @property
    def policies(self) -> tuple[CompiledPolicy, ...]:
        """The policies in their given order."""
        return tuple(entry.policy for entry in self.entries)

    @property
    def reads(self) -> ReadSet:
        """The parts of a request that any of the policies may read."""
        return ReadSet.union(*(policy.reads for policy in self.policies))

    def candidates(self, target: Target) -> tuple[Candidate, ...]:
        """The policies that may match a target."""
        found = self._by_target.get(target)
        if found is None:
            found = self._by_target[target] = tuple(Candidate(entry, _label_keys(entry, target)) for entry in self._find(target))
        return found

    def _find(self, target: Target) -> Iterable[Entry]:
        resource = target.resource
        for entry in self.entries:
            is_static = entry.policy.policy.is_static
            if is_review(resource.group, resource.resource) or (is_excluded(resource) and not is_static):
                continue
            if entry.bound and (entry.matcher is None or entry.matcher.is_candidate(target)):
                yield entry

    def prepared(self, request: AdmissionRequest, world: World) -> Iterator[Prepared]:
        """The matches and errors of a request, policy by policy; computed once for all requests with the same key."""
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
    """As `prepare`. A defect that one policy brings out costs no other policy its verdict."""
    try:
        return prepare(entry, request, target, world)
    except RecursionError:
        raise  # The caller tries again on a larger stack.
    except Exception as problem:
        return tuple(bound.subject.unknown(defect_of(problem)) for bound in entry.bound)


def _label_keys(entry: Entry, target: Target) -> tuple[str, ...] | None:
    # A request that writes a namespace uses the labels of that object.
    if target.resource.resource == "namespaces" or any(matcher.has_resource_names for matcher in entry.matchers):
        return None
    return tuple(sorted({key for matcher in entry.matchers for key in matcher.object_label_keys}))


def _labels(request: AdmissionRequest, keys: tuple[str, ...] | None) -> Labels | None:
    """The values of these object labels, as a cache key; None where they are not sure to be plain and the only ones."""
    if not keys:
        return None if keys is None else ()
    new, old = request.object, request.old_object
    if (
        isinstance(new, Unknown)
        or new.is_redacted
        or not (isinstance(old, Unknown) or (old.__class__ is Known and old.value is None))
    ):
        return None
    labels = labels_of(new.value)
    if labels is None:
        return None
    values = [labels.get(key, _ABSENT) for key in keys]
    is_plain = all(value.__class__ is str or value is _ABSENT for value in values)
    return (new.grade, old.reason if isinstance(old, Unknown) else "", *values) if is_plain else None


def compile_set(
    policies: PolicySet,
    version: tuple[int, int] = DEFAULT,
    *,
    unbound: bool = True,
    unbound_params: Mapping[str, Sequence[Object | None]] | None = None,
    compiler: Callable[[Policy, tuple[int, int]], CompiledPolicy] = compile_policy,
) -> CompiledSet:
    """Compiles every policy for one Kubernetes minor version. Never raises for errors in a policy; such errors become decisions.

    A policy without bindings does nothing in a cluster. With `unbound` it is evaluated without a binding, with the params that
    `unbound_params` has for its name. None there is the null of a binding without paramRef; without an entry the params are
    unknown. Given objects replace recorded ones.
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
    """The verdicts of every policy whose rules cover the request's resource and operation.

    A policy whose rules are for other resources has no row. A selector, match condition or binding that does not match has a row. A
    defect that one policy brings out makes that policy unknown and no other. `world` is the state of the cluster at the time of the
    request. Without `authorize`, all results that depend on an authorization check are unknown.
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
                raise  # The caller tries again on a larger stack.
            except Exception as problem:
                run.rows.append(item.subject.unknown(defect_of(problem), item.param))
        else:
            run.rows.append(item)
    return run.rows


def input_key(inputs: Inputs, policy: CompiledPolicy, param: Any) -> tuple[int, bytes] | None:
    """The key of all values that a policy reads of a request and a param; None where some are unknown. The policy must be pure."""
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
        # By identity of policy and param, which both outlive this object.
        self._known: dict[tuple[int, int], tuple[Evaluation, KnownRows]] = {}

    def evaluate(self, due: Due) -> None:
        """Evaluates a policy for one param; bindings of one policy that share a param share the evaluation."""
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
            rows = due.subject.rows(due.param, evaluation, grades)
            rows = known_rows[whose] = due.subject.unsure(rows) if due.may_be_missing else rows
        self.rows += rows

    def _evaluation(self, due: Due) -> tuple[Evaluation, KnownRows]:
        """The evaluation, computed once for all requests with equal values in everything that the expressions read.

        Values, errors and costs all depend on these values alone. Raises NamespaceNotFoundError.
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
            # Then every part of the evaluation is exact too.
            return policy.even_grades[floor]
        # Where one outcome stands for all, no other outcomes exist.
        read = (
            denied if outcome.decision is Decision.DENY else checked
            for outcome, checked, denied in zip(
                evaluation.outcomes, policy.roots_by_validation, policy.roots_by_denial, strict=False
            )
        )
        return (worst(floor, whole), *(worst(floor, self.inputs.grade(roots)) for roots in read))
