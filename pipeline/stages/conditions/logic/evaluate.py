"""What a conditional decision becomes when its conditions are evaluated.

Follows kubernetes/apiserver pkg/authorization/authorizer/evaluate.go and pkg/authorization/union/union.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    OPEN = "unevaluatable"  # only the authorizer's own evaluator can tell
    UNKNOWN = "unknown"  # the server could tell, but what it saw was not recorded


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one condition, with the words of an error, or of the reason why it is open."""

    truth: Truth
    text: str = ""


TRUE, FALSE, OPEN = Result(Truth.TRUE), Result(Truth.FALSE), Result(Truth.OPEN)

Evaluate: TypeAlias = Callable[[Condition], Result]
Outcomes: TypeAlias = tuple[Plain, ...]

# A request that is refused in each of several ways; and one where it is also open whether an error makes the answer 500.
REFUSED = Plain(Effect.NO_OPINION, "no authorizer can allow it")
REFUSED_SOMEHOW = Plain(Effect.NO_OPINION, "no authorizer can allow it, and a condition may err")


def evaluate_map(conditions: ConditionsMap, evaluate: Evaluate) -> Decision:
    """The decision of three lists: Deny before NoOpinion before Allow; in each list true > error > unevaluatable > false."""
    left: list[tuple[Condition, ...]] = [found for _, found in conditions.lists()]
    for place, (effect, found) in enumerate(conditions.lists()):
        results = [(each, evaluate(each)) for each in found]
        if (matched := next((each for each, result in results if result.truth is Truth.TRUE), None)) is not None:
            return Plain(effect, _reason(matched, effect))
        if errors := _errors(effect, results):
            failed = Effect.DENY if effect is Effect.DENY else Effect.NO_OPINION
            return Plain(failed, EVALUATION_ERRORS, errors)
        left[place] = tuple(each for each, result in results if result.truth is Truth.OPEN)
        if left[place]:
            return conditions_map(*left)
    return Plain(Effect.NO_OPINION, NO_MATCH)


def decide(decision: Decision, evaluate: Evaluate) -> Plain | None:
    """The final decision: the first Allow or Deny of a chain wins. None where a condition that it depends on is not known."""
    found = outcomes_of(decision, evaluate)
    return found[0] if len(found) == 1 else None


def outcomes_of(decision: Decision, evaluate: Evaluate) -> Outcomes:
    """Every way in which a decision may end, whatever the conditions that are not known evaluate to."""
    if isinstance(decision, Plain):
        return (decision,)
    if isinstance(decision, ConditionsMap):
        return tuple(_distinct(_ends(decision, evaluate)))
    return in_order((name, outcomes_of(each, evaluate)) for name, each in decision.members)


def in_order(members: Iterable[tuple[str, Outcomes]]) -> Outcomes:
    """Every way in which a chain may end. It asks a member only while no earlier one is sure to allow or deny."""
    ends: list[Plain] = []
    carried: list[Plain] = [Plain(Effect.NO_OPINION)]
    for name, found in members:
        ends += (each for each in found if each.effect is not Effect.NO_OPINION)
        onward = [each for each in found if each.effect is Effect.NO_OPINION]
        carried = _distinct(_joined(before, name, each) for before in carried for each in onward)
        if not carried:
            break
    return tuple(_distinct([*ends, *carried]))


def settled(outcomes: Outcomes) -> Plain | None:
    """The one decision among outcomes, if they agree on whether the request is allowed; None if they do not."""
    if len(outcomes) == 1:
        return outcomes[0]
    effects = {each.effect for each in outcomes}
    if Effect.ALLOW not in effects:
        return REFUSED if len({bool(each.error) for each in outcomes}) == 1 else REFUSED_SOMEHOW
    return Plain(Effect.ALLOW) if len(effects) == 1 else None


def _ends(conditions: ConditionsMap, evaluate: Evaluate) -> Iterator[Plain]:
    """As `evaluate_map`, for each value that what is not known may have."""
    for effect, found in conditions.lists():
        results = [(each, evaluate(each)) for each in found]
        if (matched := next((each for each, result in results if result.truth is Truth.TRUE), None)) is not None:
            yield Plain(effect, _reason(matched, effect))
            return
        failed = Effect.DENY if effect is Effect.DENY else Effect.NO_OPINION
        truths = {result.truth for _, result in results}
        if Truth.UNKNOWN in truths:
            yield Plain(effect)
        if Truth.ERROR in truths:
            yield Plain(failed, EVALUATION_ERRORS, _errors(effect, results))
            return
        if Truth.OPEN in truths:
            yield Plain(effect)
    yield Plain(Effect.NO_OPINION, NO_MATCH)


def _joined(before: Plain, name: str, found: Plain) -> Plain:
    reasons = [each for each in (before.reason, f"{name}: {found.reason}" if found.reason else "") if each]
    errors = [each for each in (before.error, found.error) if each]
    return Plain(Effect.NO_OPINION, "\n".join(reasons), aggregated(errors))


def _distinct(outcomes: Iterable[Plain]) -> list[Plain]:
    """The outcomes that a client could tell apart: by effect, and by whether an error or a reason travels with them."""
    found: dict[tuple[Effect, bool, bool], Plain] = {}
    for each in outcomes:
        found.setdefault((each.effect, bool(each.error), bool(each.reason)), each)
    return list(found.values())


def _errors(effect: Effect, results: Sequence[tuple[Condition, Result]]) -> str:
    return aggregated(
        [
            f"condition {quote(each.id)} with effect={effect} evaluated to an error: {result.text}"
            for each, result in results
            if result.truth is Truth.ERROR
        ]
    )


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
