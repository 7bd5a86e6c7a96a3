"""What a conditional decision becomes when its conditions are evaluated.

Follows kubernetes/apiserver pkg/authorization/authorizer/evaluate.go and pkg/authorization/union/union.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ....cel.library.gotext import quote
from ..model import (
    FAILED_CLOSED,
    Condition,
    ConditionsMap,
    Decision,
    Effect,
    Plain,
    aggregated,
    conditions_map,
    failure_of,
    possible,
)

EVALUATION_ERRORS = "one or more conditional evaluation errors occurred"
NO_MATCH = "no conditions matched"
_MATCHED = {Effect.DENY: "denied the request", Effect.NO_OPINION: "evaluated to NoOpinion", Effect.ALLOW: "allowed the request"}


class Truth(Enum):
    """What a condition evaluates to."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"
    OPEN = "unevaluatable"  # this evaluator cannot tell


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one condition, with the words of an error, or of the reason why it is open."""

    truth: Truth
    text: str = ""


TRUE, FALSE, OPEN = Result(Truth.TRUE), Result(Truth.FALSE), Result(Truth.OPEN)

Evaluate: TypeAlias = Callable[[Condition], Result]


def evaluate_map(conditions: ConditionsMap, evaluate: Evaluate) -> Decision:
    """The decision of three lists: Deny before NoOpinion before Allow; in each list true > error > unevaluatable > false."""
    left: list[tuple[Condition, ...]] = [found for _, found in conditions.lists()]
    for place, (effect, found) in enumerate(conditions.lists()):
        results = [(each, evaluate(each)) for each in found]
        if (matched := next((each for each, result in results if result.truth is Truth.TRUE), None)) is not None:
            return Plain(effect, _reason(matched, effect))
        errors = [
            f"condition {quote(each.id)} with effect={effect} evaluated to an error: {result.text}"
            for each, result in results
            if result.truth is Truth.ERROR
        ]
        if errors:
            failed = Effect.DENY if effect is Effect.DENY else Effect.NO_OPINION
            return Plain(failed, EVALUATION_ERRORS, aggregated(errors))
        left[place] = tuple(each for each, result in results if result.truth is Truth.OPEN)
        if left[place]:
            return conditions_map(*left)
    return Plain(Effect.NO_OPINION, NO_MATCH)


def decide(decision: Decision, evaluate: Evaluate) -> Plain | None:
    """The final decision: the first Allow or Deny of a chain wins. None where a condition that matters is unevaluatable."""
    if isinstance(decision, Plain):
        return decision
    if isinstance(decision, ConditionsMap):
        evaluated = evaluate_map(decision, evaluate)
        return evaluated if isinstance(evaluated, Plain) else None
    reasons, errors = [], []
    for name, each in decision.members:
        found = decide(each, evaluate)
        if found is None or found.effect is not Effect.NO_OPINION:
            return found
        reasons += [f"{name}: {found.reason}"] if found.reason else []
        errors += [found.error] if found.error else []
    return Plain(Effect.NO_OPINION, "\n".join(reasons), aggregated(errors))


def folded(decision: Decision) -> Plain:
    """What a decision becomes for a request that no condition may decide, such as a read where only writes are conditional."""
    if isinstance(decision, Plain):
        return decision
    effect, outcomes = failure_of(decision), " ".join(sorted(possible(decision)))
    words = f"conditional decision (with possible outcomes [{outcomes}]) to {effect} during unconditional authorization"
    return Plain(effect, f"{FAILED_CLOSED} from {words}")


def _reason(condition: Condition, effect: Effect) -> str:
    description = f" with description {quote(condition.description)}" if condition.description else ""
    return f"condition {quote(condition.id)} {_MATCHED[effect]}{description}"
