"""Decisions of authorizers that may be conditional, as the server's design has them.

Follows kubernetes/apiserver pkg/authorization/authorizer/{conditions,conditionsmap,conditionsunion}.go: a ConditionsMap has three
ordered lists, and a Union is a chain of named decisions. A decision never changes after it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ...cel.library.gotext import quote
from ...matching.label_text import is_label_key

CONDITIONS_MAX = 128
FAILED_CLOSED = "failed closed"


class Effect(StrEnum):
    """What an authorizer decides, and what a condition makes it decide."""

    DENY = "Deny"
    NO_OPINION = "NoOpinion"
    ALLOW = "Allow"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. `type` says who can evaluate it; empty for CEL. `source` is its place in a file."""

    id: str
    expression: str
    type: str = ""
    description: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Plain:
    """An unconditional decision. An `error` that travels with anything but Allow makes the response 500."""

    effect: Effect
    reason: str = ""
    error: str = ""

    def __str__(self) -> str:
        """As the server prints it."""
        parts = [f"{name}={quote(text)}" for name, text in (("reason", self.reason), ("err", self.error)) if text]
        return f"{self.effect}({', '.join(parts)})" if parts else str(self.effect)


@dataclass(frozen=True, slots=True)
class ConditionsMap:
    """Three ordered lists of conditions; made by `conditions_map`."""

    deny: tuple[Condition, ...] = ()
    no_opinion: tuple[Condition, ...] = ()
    allow: tuple[Condition, ...] = ()

    def lists(self) -> Iterator[tuple[Effect, tuple[Condition, ...]]]:
        """Each list with its effect, in the order of evaluation."""
        yield from ((Effect.DENY, self.deny), (Effect.NO_OPINION, self.no_opinion), (Effect.ALLOW, self.allow))

    def __str__(self) -> str:
        counts = zip(("denies", "noopinions", "allows"), (found for _, found in self.lists()), strict=True)
        return f"ConditionsMap({', '.join(f'{name}={len(found)}' for name, found in counts if found)})"


@dataclass(frozen=True, slots=True)
class Union:
    """A chain of named decisions; made by `union_of`."""

    members: tuple[tuple[str, Decision], ...] = ()

    def __str__(self) -> str:
        return f"Union[{', '.join(f'{name}: {decision}' for name, decision in self.members)}]"


Decision: TypeAlias = Plain | ConditionsMap | Union


def possible(decision: Decision) -> frozenset[Effect]:
    """The effects that a decision may still have."""
    match decision:
        case Plain():
            return frozenset([decision.effect])
        case ConditionsMap():
            lists = {effect for effect, found in decision.lists() if found}
            return frozenset(lists | {Effect.NO_OPINION})
        case Union():
            found = frozenset({Effect.NO_OPINION}.union(*(possible(each) for _, each in decision.members)))
            return found - {Effect.NO_OPINION} if is_settled(decision) else found


def is_settled(decision: Decision) -> bool:
    """Whether an unconditional Allow or Deny is in it, after which a chain asks no further member."""
    if isinstance(decision, Union):
        return any(is_settled(each) for _, each in decision.members)
    return isinstance(decision, Plain) and decision.effect is not Effect.NO_OPINION


def failure_of(decision: Decision) -> Effect:
    """What a decision becomes where it cannot be evaluated: Deny if it may deny, else NoOpinion."""
    return Effect.DENY if Effect.DENY in possible(decision) else Effect.NO_OPINION


def conditions_map(deny: Sequence[Condition], no_opinion: Sequence[Condition], allow: Sequence[Condition]) -> Decision:
    """The decision of three lists of conditions. Lists that the server does not accept fail closed."""
    count = len(deny) + len(no_opinion) + len(allow)
    if not count:
        return Plain(
            Effect.NO_OPINION,
            "no conditions",
            "at least one condition must be passed to ConditionsAwareDecisionConditionsMap(), got none",
        )
    failed = Effect.DENY if deny else Effect.NO_OPINION
    if count > CONDITIONS_MAX:
        return Plain(failed, FAILED_CLOSED, f"too many conditions: {count} exceeds maximum of {CONDITIONS_MAX}")
    if not deny and not allow:
        return Plain(Effect.NO_OPINION, "only NoOpinion conditions always evaluate to NoOpinion")
    problem = problem_of((*deny, *no_opinion, *allow))
    if problem:
        return Plain(failed, FAILED_CLOSED, problem)
    return ConditionsMap(tuple(deny), tuple(no_opinion), tuple(allow))


def problem_of(conditions: Sequence[Condition]) -> str:
    """Why the server does not accept these conditions together; empty if it does."""
    seen: set[str] = set()
    for each in conditions:
        if each.id in seen:
            return f"duplicate condition ID {quote(each.id)}"
        seen.add(each.id)
        if not is_label_key(each.id):
            return f"invalid condition ID {quote(each.id)}: it is no label key"
        if each.type and not is_label_key(each.type):
            return f"invalid condition type {quote(each.type)}: it is no label key"
    return ""


def union_of(members: Sequence[tuple[str, Decision]]) -> Decision:
    """The decision of a chain. With one possible outcome it folds to a plain decision; what follows Allow or Deny is left out."""
    kept: list[tuple[str, Decision]] = []
    errors: list[str] = []
    for name, decision in members:
        if not name:
            errors.append("conditionalAuthorizerName must be non-empty")
        if any(name == other for other, _ in kept):
            errors.append(f"duplicate conditionalAuthorizerName {quote(name)}")
        kept.append((name, decision))
        if is_settled(decision):
            break
    union = Union(tuple(kept))
    if errors:
        return Plain(failure_of(union), FAILED_CLOSED, aggregated(errors))
    outcomes = possible(union)
    if len(outcomes) > 1:
        return union
    (only,) = outcomes
    found = [*_said((), union, only)]
    reasons, problems = (
        [f"{place}: {{{text}}}" for place, text, _ in found if text],
        [f"{place}: {text}" for place, _, text in found if text],
    )
    return Plain(only, ", ".join(reasons), aggregated(problems))


def aggregated(errors: Sequence[str]) -> str:
    """Several errors as one text (apimachinery pkg/util/errors/errors.go): each distinct one once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _said(place: tuple[str, ...], decision: Decision, only: Effect) -> Iterator[tuple[str, str, str]]:
    """The places, reasons and errors of all plain decisions with one effect."""
    if isinstance(decision, Union):
        for name, each in decision.members:
            yield from _said((*place, name), each, only)
    elif isinstance(decision, Plain) and decision.effect is only:
        yield ": ".join(place), decision.reason, decision.error
