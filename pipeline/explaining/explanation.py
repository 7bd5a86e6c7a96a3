"""The parts of an explanation of one verdict: the request as it was judged, and for each policy the parts that decided.

Plain data, with JSON values where objects stand: renderers and the HTTP API show it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from .missing import UnknownReason


@dataclass(frozen=True, slots=True)
class Piece:
    """One input of the judgement: `object`, `oldObject`, `params`, `namespaceObject`.

    `source` and `grade` say where the value is from and how good that evidence is. If it is unknown, `missing` says why and
    `remedy` says how to make it known. `value` is then None, as it is for a null.
    """

    name: str
    value: Any
    source: str = ""
    grade: str = ""
    missing: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression and its result. `state` is value, error or unknown; for the last two `value` is the message or the reason."""

    expression: str
    state: str
    value: Any


@dataclass(frozen=True, slots=True)
class DecidingPart:
    """A part of an expression that decided: its result, its operands, its loop variables and the fields it read."""

    expression: str
    state: str
    value: Any
    operands: tuple[Operand, ...] = ()
    variables: tuple[Operand, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedExpression:
    """One expression; `field` is its place in the policy. `decision` is empty for a variable, and true or false for a condition."""

    field: str
    expression: str
    source: str
    decision: str
    state: str
    value: Any
    message: str = ""
    why: str = ""
    parts: tuple[DecidingPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A step of a decision, in words: `name` is a rule, a selector, a round or what the log says."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ExplainedPolicy:
    """The verdict of one policy, binding and param on the request. For a webhook these are its configuration and its name.

    `decision` is that of the verdict table, and `nomatch` if the policy does not match the request; then `why` names the rule, the
    selector or the condition. `effect` is the decision after failurePolicy; `rejects` says whether the client gets the rejection.
    `fields` decided. `nearest` is one change with which the request passes (empty if no single change is enough);
    `there` is the same as the writer of the outermost object makes it.
    """

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    decision: str
    effect: str
    rejects: bool
    message: str
    why: str
    evidence: str
    param: Piece | None = None
    conditions: tuple[ExplainedExpression, ...] = ()
    validations: tuple[ExplainedExpression, ...] = ()
    variables: tuple[ExplainedExpression, ...] = ()
    fields: tuple[str, ...] = ()
    missing: tuple[UnknownReason, ...] = ()
    nearest: str = ""
    there: str = ""
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Responsible:
    """Whom a request comes back to. `chain` is its object and the controllers above it, as `Kind/name`, the outermost last.

    A label or an annotation at `team_source` names the `team`. `writer` is the person or pipeline that last wrote the outermost
    object. Both are empty where the log does not show them.
    """

    chain: tuple[str, ...]
    team: str = ""
    team_source: str = ""
    writer: str = ""
    written_ts: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pass of one request through the policies. A request that deletes a collection has a pass for each object."""

    cluster: str
    audit_id: str
    ts: datetime
    pass_index: int
    passes: int
    verb: str
    operation: str
    kind: str
    resource: str
    namespace: str
    name: str
    user: Mapping[str, Any]
    user_agent: str
    code: int
    answer: str
    pieces: tuple[Piece, ...]
    policies: tuple[ExplainedPolicy, ...]
    stage: str = "validating"
    responsible: Responsible | None = None

    def piece(self, name: str) -> Piece | None:
        """The input of this name."""
        return next((piece for piece in self.pieces if piece.name == name), None)


@dataclass(frozen=True, slots=True)
class NotExplained:
    """A request that no policy judges here, why, and how to change that for later requests."""

    cluster: str
    audit_id: str
    ts: datetime
    reason: str
    remedy: str = ""


class InOwnWords(Protocol):
    """An explanation that a stage words itself, because it is not about rules that match or do not match."""

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        ...

    def lines(self) -> Iterable[str]:
        """For a terminal."""
        ...


Told: TypeAlias = Explanation | NotExplained | InOwnWords
