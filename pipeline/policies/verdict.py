"""The result of an evaluation: one row per (policy, binding, param, expression), with fact and consequence apart."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ..cel.defects import DEFECT
from ..request import Grade
from ..row import Row
from .model import Action

STAGE = "validating"  # validating admission: the stage of the policies
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})


class Decision(StrEnum):
    """The fact that an evaluation found."""

    ADMIT = "admit"
    DENY = "deny"
    ERROR = "error"
    NOMATCH = "nomatch"
    UNKNOWN = "unknown"


class PolicyVerdict(NamedTuple):
    """One row of the verdict table (without the columns of the request).

    `expression_index` None is the row of the whole (policy, binding, param): there is exactly one. Its decision is the worst of the
    other rows, unless it stands alone: a non-match, a match condition, a configuration error, an exhausted budget. Then it has its
    own `message` or `why`. `decision` is the fact; `effect` is the consequence under failurePolicy (None without one). `actions`
    decide whether the effect reaches the client, except where `bypasses_actions`. Configuration errors and errors of audit
    annotations deny under all actions of the binding (kubernetes/apiserver validating/dispatcher.go, addConfigError).
    """

    policy: str
    binding: str | None
    param_namespace: str | None
    param_name: str | None
    expression_index: int | None
    decision: Decision
    effect: Decision | None = None
    message: str | None = ""
    reason: str = ""
    code: int | None = None
    why: str = ""
    evidence: str = Grade.EXACT
    actions: tuple[Action, ...] = ()
    audit_annotations: Mapping[str, str] = NO_ANNOTATIONS
    bypasses_actions: bool = False

    @property
    def rejects(self) -> bool:
        """Whether this row alone makes the API server reject the request."""
        return self.effect is Decision.DENY and (self.bypasses_actions or Action.DENY in self.actions)

    @property
    def is_defect(self) -> bool:
        """Whether the verdict is unknown because Hindcast failed, not because evidence is missing."""
        return self.decision is Decision.UNKNOWN and DEFECT in self.why

    @property
    def is_summary(self) -> bool:
        """Whether this row only sums up the rows of single expressions."""
        return self.expression_index is None and not self.message and self.decision is not Decision.NOMATCH

    @property
    def row(self) -> Row:
        """See row.py. A field that kube-apiserver leaves empty is null: empty strings carry no information.

        `rule_ref` and what the log recorded follow from the policy, the binding and the request; see runs.export.
        """
        return Row(
            self.policy,
            self.binding,
            self.param_namespace,
            self.param_name,
            self.expression_index,
            str(self.decision),
            str(self.effect) if self.effect else None,
            self.message or None,
            self.reason or None,
            self.code,
            self.why or None,
            str(self.evidence),
            [str(action) for action in self.actions],
            list(self.audit_annotations.items()),
            self.bypasses_actions,
            STAGE,
        )
