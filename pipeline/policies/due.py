"""The steps before any expression runs: the constraints of policies, errors of policies, bindings and params.

Follows kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go (generatePolicyInvocations).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..cel import Unknown as CelUnknown
from ..matching import Conversion, Match, Matcher, Target
from ..request import AdmissionRequest, Grade, Known, Object, Unknown, worst
from ..withheld import has_withheld
from ..world import World
from .compile import CompiledPolicy
from .decide import Subject
from .model import FailurePolicy, NotFoundAction
from .params import NULL_PARAM, ConfigurationError, NoParams, Param, Params, collect_params, kind_error, param_of
from .verdict import PolicyVerdict

NO_CONSTRAINTS = "policy contained no match constraints, a required field"


@dataclass(frozen=True)
class Bound:
    """A binding of a policy, or the absence of one."""

    subject: Subject
    matcher: Matcher | None  # None: matches everything that the policy matches


@dataclass(frozen=True)
class Entry:
    """A policy with its bindings, ready for many requests."""

    policy: CompiledPolicy
    matcher: Matcher | None  # None: a policy without matchConstraints, which is a configuration error
    bound: tuple[Bound, ...]
    unbound_params: Sequence[Object | None] | None

    @property
    def matchers(self) -> Iterator[Matcher]:
        """All matchers that decide whether a request matches."""
        for matcher in (self.matcher, *(bound.matcher for bound in self.bound)):
            if matcher is not None:
                yield matcher


class Due(NamedTuple):
    """An evaluation that is due. `match` is None where the request matched under its own resource and kind."""

    policy: CompiledPolicy
    subject: Subject
    match: Match | None
    floor: Grade  # the grade of the evidence of the match and of the param
    param: Param
    value: Any  # the param: an object, None or a CEL Unknown

    @property
    def may_be_missing(self) -> bool:
        """Whether the param may not exist, which would be an error of the configuration, and a denial for all actions."""
        binding = self.subject.binding
        reference = binding.param_ref if binding is not None else None
        if reference is None or not isinstance(self.param.object, Unknown):
            return False
        denies = reference.not_found_action is NotFoundAction.DENY
        return denies and self.subject.failure_policy is FailurePolicy.FAIL


# In the order of bindings; a row stands for a binding or param without a due evaluation.
Prepared: TypeAlias = tuple[Due | PolicyVerdict, ...]


def prepare(entry: Entry, request: AdmissionRequest, target: Target, world: World) -> Prepared:
    """The rows and due evaluations of one policy for a request. `target` must be Target.of(request)."""
    meeting = _Meeting(request, target, world)
    meeting.policy(entry)
    return tuple(meeting.found)


class _Meeting:
    """The walk of one request over one policy."""

    def __init__(self, request: AdmissionRequest, target: Target, world: World) -> None:
        self.found: list[Due | PolicyVerdict] = []
        self._request = request
        self._target = target
        self._world = world

    def policy(self, entry: Entry) -> None:
        """Tests the constraints first, then errors of the policy itself, then each binding."""
        match = self._match(entry)
        if match is None:
            return
        floor = match.grade
        is_itself = match.conversion is Conversion.NONE and match.matched_resource == self._request.resource
        kind = entry.policy.policy.param_kind
        error = kind_error(kind, self._world) if kind else None
        if error is not None:
            self.found.append(Subject(entry.policy, None).configuration_error(error))
            return
        for bound in entry.bound:
            grade = Grade.EXACT if bound.matcher is None else self._binding_matches(bound.matcher, bound.subject)
            if grade is not None:
                self._binding(entry, bound, None if is_itself else match, worst(floor, grade))

    def _match(self, entry: Entry) -> Match | None:
        """The match of a policy's constraints; None, with a row, if the request does not match or evidence is missing."""
        subject = Subject(entry.policy, None)
        if entry.matcher is None:
            self.found.append(subject.configuration_error(ConfigurationError(NO_CONSTRAINTS, of_policy=True)))
            return None
        match = entry.matcher.match(self._request, self._target, self._world)
        if match.matched is True:
            return match
        if match.error:
            self.found.append(subject.configuration_error(ConfigurationError(match.error, of_policy=True)))
        elif isinstance(match.matched, Unknown):
            self.found += [bound.subject.unknown(match.why) for bound in entry.bound]
        else:
            self.found.append(subject.nomatch(match.why, evidence=match.grade))
        return None

    def _binding_matches(self, matcher: Matcher, subject: Subject) -> Grade | None:
        """The grade of the evidence that a binding matches; None, with a row, if it does not match or evidence is missing."""
        match = matcher.match(self._request, self._target, self._world)
        if match.matched is True:
            return match.grade
        if match.error:
            self.found.append(subject.configuration_error(ConfigurationError(match.error)))
        elif isinstance(match.matched, Unknown):
            self.found.append(subject.unknown(f"matchResources: {match.why}"))
        else:
            self.found.append(subject.nomatch(f"matchResources: {match.why}", evidence=match.grade))
        return None

    def _binding(self, entry: Entry, bound: Bound, match: Match | None, floor: Grade) -> None:
        params = self._params(entry, bound)
        if isinstance(params, ConfigurationError):
            self.found.append(bound.subject.configuration_error(params))
        elif isinstance(params, NoParams):
            self.found.append(bound.subject.nomatch("no params, parameterNotFoundAction Allow"))
        else:
            self.found += [_due(entry.policy, bound.subject, match, floor, param) for param in params]

    def _params(self, entry: Entry, bound: Bound) -> Params:
        kind = entry.policy.policy.param_kind
        if kind is None:
            return (NULL_PARAM,)
        binding = bound.subject.binding
        if binding is not None:
            return collect_params(kind, binding.param_ref, self._request.namespace, self._world)
        if entry.unbound_params is None:
            return (Param(Unknown(f"policy {entry.policy.policy.name} has no binding that says which {kind.kind} to use")),)
        return [NULL_PARAM if obj is None else param_of(obj, "given") for obj in entry.unbound_params]


def _due(policy: CompiledPolicy, subject: Subject, match: Match | None, floor: Grade, param: Param) -> Due:
    evidence = param.object
    if isinstance(evidence, Known):
        if evidence.is_redacted and has_withheld(evidence.value):
            return Due(policy, subject, match, floor, param, CelUnknown("params: values in it were redacted"))
        return Due(policy, subject, match, worst(floor, evidence.grade), param, evidence.value)
    return Due(policy, subject, match, floor, param, CelUnknown(f"params: {evidence.reason}"))
