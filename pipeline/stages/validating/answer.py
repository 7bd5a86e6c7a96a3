"""The server's answer to one request, as proof about its policies where the inputs of admission were not recorded.

If the request was admitted, no binding with Deny rejected it. If no failure is recorded, no binding with Audit failed. A denial
names the binding that denied. A row that rests on this has the evidence RECORDED: it repeats the server's own record, so it is not
a prediction, and calibration does not count it as one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter

import msgspec

from ingest.redaction.redact import is_withheld
from ingest.server.wordings import DENIAL_PREFIX

from ...history.event import Event
from ...history.outcome import Admission, outcome_of
from ...history.world import LogHistory
from ...policies.compile import CompiledPolicy
from ...policies.decide import Subject
from ...policies.evaluate import OUT_OF_BUDGET
from ...policies.messages import REASON_INVALID, code_of
from ...policies.model import Action, FailurePolicy
from ...policies.params import ConfigurationError
from ...policies.reads import reads_of
from ...policies.verdict import NO_ANNOTATIONS, Decision, PolicyVerdict
from ...runs.verdict import RECORDED
from .told import ALL_FAILURES_SINCE, FAILURE_ANNOTATION, RECORDED_FAILURES_MAX, policy_annotations

DECISION_ANNOTATION = "authorization.k8s.io/decision"
_DENIAL = re.compile(
    DENIAL_PREFIX + r"ValidatingAdmissionPolicy '(?P<policy>[^']*)'(?: with binding '(?P<binding>[^']*)')? "
    r"denied request: (?P<message>.*)$",
    re.DOTALL,
)
# What depends on the server's knowledge of kinds, and not on the state of the cluster alone (kubernetes/apiserver
# pkg/admission/plugin/policy/generic/policy_source.go and policy_matcher.go).
_NOT_YET_KNOWN = re.compile(
    r"failed to configure (?:policy|binding): "
    r"(?:failed to find resource referenced by paramKind: |paramKind kind `.*` not known|.* not yet synced to use for admission)",
    re.DOTALL,
)
# The API server reads which kinds there are again after this time (pkg/controlplane/apiserver, restMapper.Reset).
_LEARNT_WITHIN = timedelta(seconds=31)
# The wording of an expression's error (kubernetes/apiserver pkg/admission/plugin/policy/validating/validator.go). A false
# validation can have these words only from its messageExpression.
_ERROR = re.compile(r"expression '.*' resulted in error: |compilation error: |failed messageExpression: ", re.DOTALL)


class Failure(msgspec.Struct, rename="camel", frozen=True):
    """One entry of the failure annotation."""

    policy: str = ""
    binding: str = ""
    message: str = ""
    expression_index: int = 0
    validation_actions: tuple[str, ...] = ()


_FAILURES = msgspec.json.Decoder(tuple[Failure, ...], strict=False)


@dataclass(frozen=True)
class Answer:
    """The answer to one request of a server of this minor version."""

    event: Event
    version: tuple[int, int]

    @cached_property
    def is_admitted(self) -> bool:
        """Whether validating policies admitted the request."""
        return outcome_of(self.event).admission is Admission.ADMITTED

    @cached_property
    def is_plain(self) -> bool:
        """Whether the answer covers a single pass of admission as a whole: a deletecollection has a pass for each object."""
        return self.event.verb != "deletecollection" and "redacted" not in self.event.flags

    @cached_property
    def keeps_annotations(self) -> bool:
        """Whether annotations were recorded at all: the authorizer leaves one on every request; some exports drop them."""
        return DECISION_ANNOTATION in self.event.annotations

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The recorded failures: up to 1.36 the first alone."""
        try:
            return _FAILURES.decode(self.event.annotations.get(FAILURE_ANNOTATION, "[]"))
        except msgspec.DecodeError:
            return ()

    @cached_property
    def denial(self) -> re.Match[str] | None:
        """The policy and binding that denied the request, and the message."""
        return _DENIAL.search(self.event.message)

    def failures_of(self, policy: str, binding: str | None) -> list[Failure]:
        """The recorded failures of one binding."""
        return [failure for failure in self.failures if (failure.policy, failure.binding) == (policy, binding)]

    def denied_by(self, policy: str, binding: str | None) -> str | None:
        """The message of the denial if it was this binding's."""
        found = self.denial
        return found["message"] if found and (found["policy"], found["binding"]) == (policy, binding) else None

    def shows_no_failure(self, row: PolicyVerdict) -> bool:
        """Whether a failure of this row's binding would have been recorded, and was not."""
        if not self.is_admitted and self.denial is None:
            return False
        if Action.DENY in row.actions and self.is_admitted:
            return True
        if Action.AUDIT not in row.actions or not self.keeps_annotations or self.failures_of(row.policy, row.binding):
            return False
        return not self.failures or (self.version >= ALL_FAILURES_SINCE and len(self.failures) < RECORDED_FAILURES_MAX)

    def contradicts(self, rows: Sequence[PolicyVerdict], policy: str) -> bool:
        """Whether these rows, all of one policy, contradict the server's answer."""
        by_binding = {name: list(group) for name, group in groupby(_sorted(rows), key=lambda row: row.binding)}
        if any(self._contradicts(group) for group in by_binding.values()):
            return True
        if not self.is_plain:
            return False
        speaking = {failure.binding for failure in self.failures if failure.policy == policy}
        if self.denial and self.denial["policy"] == policy:
            speaking.add(self.denial["binding"])
        if any(binding not in by_binding for binding in speaking):
            return True
        if not self.keeps_annotations or any(row.decision is Decision.UNKNOWN for row in rows):
            return False
        prefix = f"{policy}/"
        recorded = {key: value for key, value in self.event.annotations.items() if key.startswith(prefix)}
        wanted = policy_annotations(rows)
        # A redacted value is not a contradiction: the record still shows that a value existed.
        return wanted != {key: wanted.get(key) if is_withheld(value) else value for key, value in recorded.items()}

    def _contradicts(self, rows: list[PolicyVerdict]) -> bool:
        """The same for the rows of one binding."""
        first = rows[0]
        failed = [row for row in rows if _fails(row)]
        if any(row.rejects for row in failed) and self.is_admitted:
            return True
        if any(not row.bypasses_actions for row in failed) and Action.AUDIT in first.actions and self.shows_no_failure(first):
            return True
        if not self.is_plain or any(row.decision is Decision.UNKNOWN for row in rows):
            return False
        own = self.failures_of(first.policy, first.binding)
        if any(failure.validation_actions != tuple(map(str, first.actions)) for failure in own):
            return True
        is_denier = self.denied_by(first.policy, first.binding) is not None
        return (bool(own) and not failed) or (is_denier and not any(row.rejects for row in failed))


def unconfigured(
    rows: Sequence[PolicyVerdict], policies: Mapping[str, CompiledPolicy], answer: Answer, history: LogHistory
) -> Sequence[PolicyVerdict]:
    """The rows, with the server's refusal in the place of those that it never came to.

    A server learns of a new kind within half a minute. Until then it denies every request that a policy with params of the kind
    matches, whatever the actions. Only its refusals say until when: this request's own, or one that came soon after, because a
    server tells its client one denial alone. A replay that denies for the same reason keeps its own row.
    """
    if answer.is_admitted or not answer.is_plain:
        return rows
    for name, binding, message in _refusals(rows, answer, history):
        own = [row for row in rows if row.policy == name and (binding is None or row.binding == binding)]
        if own and not any(row.why == "configuration" and row.message == message for row in own):
            refused = _unconfigured(policies[name], binding, message)._replace(actions=own[0].actions if binding else ())
            rows = [*(row for row in rows if row not in own), refused]
    return rows


def _refusals(rows: Sequence[PolicyVerdict], answer: Answer, history: LogHistory) -> Iterator[tuple[str, str | None, str]]:
    """The policies and bindings that the server could not configure at the time of a request, with its words."""
    denial = answer.denial
    if denial is not None and _NOT_YET_KNOWN.match(denial["message"]):
        yield denial["policy"], denial["binding"], denial["message"]
    if not history.unconfigured:
        return
    matched = {row.policy for row in rows if row.decision is not Decision.NOMATCH}
    for name in sorted(matched - ({denial["policy"]} if denial is not None else set())):
        refused = history.unconfigured.get((answer.event.cluster, name), ())
        at = bisect_left(refused, answer.event.ts, key=itemgetter(0))
        if at < len(refused) and refused[at][0] - answer.event.ts <= _LEARNT_WITHIN:
            yield name, None, refused[at][1]


def _unconfigured(policy: CompiledPolicy, binding: str | None, message: str) -> PolicyVerdict:
    row = Subject(policy, None).configuration_error(ConfigurationError(message, of_policy=True), RECORDED)
    return row._replace(message=message, binding=binding)


def needs_answer(rows: Iterable[PolicyVerdict]) -> bool:
    """Whether a row is unknown that the answer to the request may settle."""
    return any(row.decision is Decision.UNKNOWN or "auditAnnotation " in row.why for row in rows)


def settled(rows: Iterable[PolicyVerdict], policy: CompiledPolicy, answer: Answer) -> list[PolicyVerdict]:
    """The rows of one policy; rows that the answer proves replace unknown ones."""
    found = list(rows)
    if not needs_answer(found):
        return found
    if "redacted" in answer.event.flags and not answer.event.annotations:
        return found
    evaluations = groupby(found, key=lambda row: (row.binding, row.param_namespace, row.param_name))
    return [row for _, group in evaluations for row in _settled(list(group), policy, answer, found)]


def _settled(
    rows: list[PolicyVerdict], policy: CompiledPolicy, answer: Answer, all_rows: Sequence[PolicyVerdict]
) -> Iterator[PolicyVerdict]:
    """The rows of one (policy, binding, param): that of the whole, then one for each validation."""
    whole, singles = rows[0], rows[1:]
    # If params are not known, their number is not known either; there may have been none.
    lacks_params = any("params: " in row.why for row in rows)
    # The server's answer must not hide a defect.
    if lacks_params or any(row.is_defect for row in rows):
        yield from rows
        return
    if whole.expression_index is not None or (not singles and not _lacks_annotation(whole)):
        yield from rows
        return
    evaluations = {(row.param_namespace, row.param_name) for row in all_rows if row.binding == whole.binding}
    is_alone = answer.is_plain and len(evaluations) == 1
    singles = [_single(row, singles, policy, answer, is_alone) for row in singles]
    if whole.decision is Decision.UNKNOWN and not _lacks_annotation(whole):
        whole = _summed_up(whole, singles)
    if _lacks_annotation(whole) and answer.is_plain:
        whole = _annotated(whole, singles, policy, answer, all_rows)
    yield whole
    yield from singles


def _single(
    row: PolicyVerdict, rows: Sequence[PolicyVerdict], policy: CompiledPolicy, answer: Answer, is_alone: bool
) -> PolicyVerdict:
    """The row of one validation. `is_alone`: a failure of its binding can be of no other param, nor of another pass."""
    if row.decision is not Decision.UNKNOWN:
        return row
    own = answer.failures_of(row.policy, row.binding) if is_alone else []
    for failure in own:
        if failure.expression_index == row.expression_index and OUT_OF_BUDGET not in failure.message:
            return _failed(row, failure.message, policy)
    denial = answer.denied_by(row.policy, row.binding) if is_alone else None
    if denial is not None and not own and not any(other is not row and _may_fail(other) for other in rows):
        return _failed(row, denial, policy)
    if policy.policy.failure_policy is not FailurePolicy.FAIL:
        return row  # an error would not be recorded
    # Failures are recorded in the order of the validations.
    precedes = any((row.expression_index or 0) < failure.expression_index for failure in own[:1])
    if precedes or answer.shows_no_failure(row):
        return row._replace(decision=Decision.ADMIT, effect=Decision.ADMIT, message="", why="", evidence=RECORDED)
    return row


def _failed(row: PolicyVerdict, message: str, policy: CompiledPolicy) -> PolicyVerdict:
    decision, reason = Decision.ERROR, ""
    if not _ERROR.match(message):
        decision, reason = Decision.DENY, policy.validations[row.expression_index or 0].reason or REASON_INVALID
    row = row._replace(decision=decision, effect=Decision.DENY, message=message, reason=reason)
    return row._replace(code=code_of(reason), why="", evidence=RECORDED)


def _summed_up(whole: PolicyVerdict, singles: Sequence[PolicyVerdict]) -> PolicyVerdict:
    """The row of the whole, if every validation is settled."""
    effects = {row.effect for row in singles}
    if None in effects and Decision.DENY not in effects:
        return whole
    effect = Decision.DENY if Decision.DENY in effects else Decision.ADMIT
    is_error = any(row.decision is Decision.ERROR and row.effect is effect for row in singles)
    return whole._replace(decision=Decision.ERROR if is_error else effect, effect=effect, why="", evidence=RECORDED)


def _annotated(
    whole: PolicyVerdict,
    singles: Sequence[PolicyVerdict],
    policy: CompiledPolicy,
    answer: Answer,
    all_rows: Sequence[PolicyVerdict],
) -> PolicyVerdict:
    """The row of the whole with recorded audit annotations. Unrecorded ones were empty: an error would have denied."""
    recorded = answer.event.annotations
    several = len({(row.binding, row.param_namespace, row.param_name) for row in all_rows if _was_evaluated(row)}) > 1
    values = dict(whole.audit_annotations)
    for annotation in policy.audit_annotations:
        value = recorded.get(f"{whole.policy}/{annotation.name}")
        if annotation.name in values or f"auditAnnotation {annotation.name}: " not in whole.why:
            continue
        if value is None and not (answer.is_admitted and answer.keeps_annotations):
            return whole
        if value is not None:
            if is_withheld(value):
                return whole
            if several and _reads_params(policy, annotation.name):
                return whole  # the values of several params are joined
            values[annotation.name] = value
    whole = whole._replace(audit_annotations=values or NO_ANNOTATIONS, evidence=RECORDED)
    return _summed_up(whole._replace(decision=Decision.UNKNOWN), singles) if whole.decision is Decision.UNKNOWN else whole


@lru_cache(maxsize=1024)
def _reads_params(policy: CompiledPolicy, annotation: str) -> bool:
    variables = {name: each.program for name, each in policy.variables.items() if each.program}
    programs = [each.program for each in policy.audit_annotations if each.name == annotation and each.program]
    return "params" in reads_of(programs, variables).roots


def _lacks_annotation(row: PolicyVerdict) -> bool:
    return row.why.startswith("auditAnnotation ") and row.effect is not Decision.DENY


def _was_evaluated(row: PolicyVerdict) -> bool:
    return row.decision is not Decision.NOMATCH


def _fails(row: PolicyVerdict) -> bool:
    return row.effect is Decision.DENY and not row.is_summary


def _may_fail(row: PolicyVerdict) -> bool:
    return row.effect is not Decision.ADMIT


def _sorted(rows: Iterable[PolicyVerdict]) -> list[PolicyVerdict]:
    return sorted(rows, key=lambda row: row.binding or "")
