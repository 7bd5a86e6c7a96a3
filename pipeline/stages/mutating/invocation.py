"""What became of policies in one request, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from ...policies.evaluate import Case
from ...policies.model import FailurePolicy
from ...request import Evidence, Grade, Object
from .applying import Applied, Failed, Patch, Refusal, Undecided

Key: TypeAlias = tuple[str, str | None, str | None, str | None]  # policy, binding, namespace and name of the param


class Ran(StrEnum):
    """What became of one policy, binding and param in one round."""

    NOMATCH = "nomatch"
    SKIPPED = "skipped"  # not due in the second round
    APPLIED = "applied"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Invocation:
    """One policy, binding and param in one round. `before` and `after` are the objects around its mutations."""

    key: Key
    round: int
    ran: Ran
    why: str = ""
    errors: tuple[str, ...] = ()
    before: Object | None = None
    after: Object | None = None
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    evidence: Grade = Grade.EXACT
    is_settled: bool = True  # false where a mutation changes its own result again
    is_due: bool = True  # false where constraints, a binding or the absence of params kept it out
    patches: tuple[Patch, ...] = ()
    is_converted: bool = False  # its mutations see a copy of the object in another version


@dataclass(frozen=True)
class Outcome:
    """What a chain makes of one request in one order. `object` is that after all rounds, where nothing refuses the request.

    `rounds` are the objects that the policies of each round left.
    """

    object: Evidence[Object | None]
    refusal: Refusal | None
    invocations: tuple[Invocation, ...]
    rounds: tuple[Object, ...] = ()


class Noticed(NamedTuple):
    """One step of a policy, binding and param: its match conditions, or one mutation with its result.

    `case` has the values that its expressions see, and `before` is the object of a mutation.
    """

    key: Key
    round: int
    case: Case
    mutation: int | None = None
    before: Object | None = None
    result: Applied | Failed | Undecided | Refusal | None = None
