"""From facts to consequences: failurePolicy turns the outcomes of an evaluation into rows with an effect.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/{validator,dispatcher}.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..request import Grade, Unknown
from ..row import INSUFFICIENT
from .compile import CompiledPolicy
from .messages import code_of, kept
from .model import Action, Binding, FailurePolicy
from .outcome import Annotations, Evaluation, Outcome
from .params import ConfigurationError, Param
from .verdict import NO_ANNOTATIONS, Decision, PolicyVerdict

Rows = tuple[PolicyVerdict, ...]


class Subject:
    """The policy, the binding (None without a binding) and the param names for which rows are made."""

    __slots__ = ("actions", "binding", "failure_policy", "names")

    def __init__(self, policy: CompiledPolicy, binding: Binding | None) -> None:
        self.failure_policy = policy.policy.failure_policy
        self.names = (policy.policy.name, binding.name if binding else None)
        self.binding = binding
        self.actions: tuple[Action, ...] = binding.validation_actions if binding else ()

    def nomatch(self, why: str, param: Param | None = None, evidence: str = Grade.EXACT) -> PolicyVerdict:
        """The row for a request that does not match, or for a skipped binding."""
        return self._row(param, None, Outcome(Decision.NOMATCH, why=why), evidence)

    def unknown(self, missing: Unknown | str, param: Param | None = None) -> PolicyVerdict:
        """The row for a verdict that is unknown because this evidence is missing."""
        reason = missing if isinstance(missing, str) else missing.reason
        return self._row(param, None, Outcome(Decision.UNKNOWN, why=reason), INSUFFICIENT)

    def configuration_error(self, error: ConfigurationError, evidence: str = Grade.EXACT) -> PolicyVerdict:
        """Denies or is skipped as failurePolicy alone says; an error of the policy is reported without a binding."""
        whose = "policy" if error.of_policy else "binding"
        outcome = Outcome(Decision.ERROR, f"failed to configure {whose}: {error.message}", why="configuration")
        row = self._row(None, None, outcome, evidence)._replace(bypasses_actions=True)
        return row._replace(binding=None, actions=()) if error.of_policy else row

    def not_found(self, message: str) -> PolicyVerdict:
        """The row for a request whose namespace is gone: the server answers 404 under every failurePolicy."""
        row = self._row(None, None, Outcome(Decision.ERROR, message, "NotFound", "namespaceObject"), Grade.EXACT)
        return row._replace(effect=Decision.DENY, code=code_of("NotFound"), bypasses_actions=True)

    def rows(self, param: Param | None, evaluation: Evaluation, grades: tuple[Grade, ...]) -> Rows:
        """The row of the whole, then one row per validation. `grades` has the same order."""
        if evaluation.whole is not None:
            return (self._row(param, None, evaluation.whole, grades[0]),)
        singles = [
            self._row(param, index, outcome, grade)
            for index, (outcome, grade) in enumerate(zip(evaluation.outcomes, grades[1:], strict=True))
        ]
        whole = self._row(param, None, _summary(singles), grades[0])._replace(effect=_summary_effect(singles))
        if whole.effect is None:
            whole = whole._replace(code=None, evidence=INSUFFICIENT)
        if evaluation.annotations is not None:
            whole = self._annotated(whole, evaluation.annotations)
        return (whole, *singles)

    def unsure(self, rows: Rows) -> Rows:
        """Rows of a request whose param may not exist. Then it would be refused before any expression, for all actions."""
        whole, *singles = rows
        if whole.effect is Decision.DENY and Action.DENY in self.actions:
            return rows  # it is refused in either case
        why = whole.why or "whether its param exists"
        unknown = whole._replace(decision=Decision.UNKNOWN, effect=None, message="", reason="", code=None, why=why)
        return (unknown._replace(evidence=INSUFFICIENT, bypasses_actions=True), *singles)

    def _row(self, param: Param | None, index: int | None, outcome: Outcome, evidence: str) -> PolicyVerdict:
        decision = outcome.decision
        effect = self._effect(decision)
        is_denied = effect is Decision.DENY and bool(outcome.message or outcome.message is None)
        return PolicyVerdict(
            *self.names,
            param.namespace if param else None,
            param.name if param else None,
            index,
            decision,
            effect,
            outcome.message,
            outcome.reason,
            code_of(outcome.reason) if is_denied else None,
            outcome.why,
            INSUFFICIENT if decision is Decision.UNKNOWN else evidence,
            self.actions,
        )

    def _effect(self, decision: Decision) -> Decision | None:
        match decision:
            case Decision.ADMIT | Decision.DENY:
                # A false validation denies under Ignore too, because Ignore covers errors only.
                return decision
            case Decision.ERROR:
                return Decision.ADMIT if self.failure_policy is FailurePolicy.IGNORE else Decision.DENY
        return None

    def _annotated(self, whole: PolicyVerdict, annotations: Annotations) -> PolicyVerdict:
        """Errors of annotations deny under Fail, for all actions; under Ignore only the annotation is left out."""
        whole = whole._replace(audit_annotations=annotations.values or NO_ANNOTATIONS)
        failed, unknown = annotations.failed, annotations.unknown
        why = kept("; ".join([*_of("auditAnnotation", failed), *_of("auditAnnotation", unknown)]))
        if failed and self.failure_policy is FailurePolicy.FAIL:
            message = next(iter(failed.values()))
            return whole._replace(
                decision=Decision.ERROR,
                effect=Decision.DENY,
                message=message,
                reason="",
                code=code_of(""),
                why=why,
                bypasses_actions=True,
            )
        if unknown and self.failure_policy is FailurePolicy.FAIL and whole.effect is not Decision.DENY:
            # An annotation that cannot be evaluated might have been an error, and an error would have denied.
            return whole._replace(decision=Decision.UNKNOWN, effect=None, code=None, why=why, evidence=INSUFFICIENT)
        return whole._replace(why="; ".join(filter(None, (whole.why, why)))) if why else whole


def _of(what: str, texts: Mapping[str, str]) -> list[str]:
    return [f"{what} {key}: {text}" for key, text in texts.items()]


def _summary(rows: list[PolicyVerdict]) -> Outcome:
    effect = _summary_effect(rows)
    if effect is None:
        reasons = dict.fromkeys(row.why for row in rows if row.decision is Decision.UNKNOWN)
        return Outcome(Decision.UNKNOWN, why=kept("; ".join(reasons)))
    is_error = any(row.decision is Decision.ERROR and row.effect is effect for row in rows)
    return Outcome(Decision.ERROR if is_error else effect)


def _summary_effect(rows: list[PolicyVerdict]) -> Decision | None:
    effects = {row.effect for row in rows}
    if Decision.DENY in effects:
        return Decision.DENY
    return None if None in effects else Decision.ADMIT
