"""Reads the table of queries/reach_rules.py for one event; `queries/reach_sql.py` compiles it for the view `reach`.

    reach_of(Answered(...)).policies     # an Answer
    SELECT policies FROM reach           # the same word, one row per recorded request

A test checks that both agree. A request whose `policies` are `not reached` or `unknown` is not evaluated by any policy, and
`policies_why` gives the reason: no other lookup is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import re2

from ingest.notes import REVIEW, WORDING
from ingest.server.wordings import wordings_of

from .reach_rules import (
    ASKED_BY_FAILURE,
    AUTHORIZER_REASON,
    CONNECT,
    CONNECT_SUBRESOURCES,
    DECISION,
    EMPTY,
    EXEMPT,
    FAILURE,
    MUTATION_PREFIX,
    NOTHING,
    PROVEN_BY_DECISION,
    PROVEN_BY_FAILURE,
    READ,
    RULES,
    STAGES,
    URL,
    WEBHOOK_NAME,
    WRITE,
    WRITE_VERBS,
    Rule,
)

NUMBERS = {stage.name: number for number, stage in enumerate(STAGES, 1)}
# The number of the stage before, for each way; a way lacks the stages that are not on it.
BEFORE = {
    (way, stage.name): max((NUMBERS[other.name] for other in STAGES[:index] if way in other.ways), default=0)
    for index, stage in enumerate(STAGES)
    for way in stage.ways
}
NO_ADMISSION = {
    READ: "reads pass no admission",
    URL: "requests without a resource pass no admission",
    EMPTY: "there was nothing to delete",
}
EXEMPT_WHY = "policies are never asked about this resource"


# The annotations that rules read of any answer; where a message names a webhook, they also read those of mutations.
_READ = frozenset({DECISION, AUTHORIZER_REASON, FAILURE})
# The notes of Hindcast that they read.
_NOTED = frozenset({WORDING, REVIEW})


class Answer(StrEnum):
    """The answer of one stage to one request."""

    ADMITTED = "admitted"
    DENIED = "denied"
    ASKED = "asked"  # the request reached the stage, and its answer does not show the decision
    NOT_REACHED = "not reached"
    UNKNOWN = "unknown"


class Answered(NamedTuple):
    """The fields of an event that the rules read; `code` is 0 without an answer, texts are empty where not recorded.

    `listed` is UNRECORDED or NOTHING for a deletecollection whose answer shows no objects, or an empty list of them.
    """

    verb: str
    api_group: str
    resource: str
    subresource: str
    code: int
    reason: str
    message: str
    annotations: Mapping[str, str]
    notes: Mapping[str, str]
    listed: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one request came. Stages are names; None where no stage was passed, no stage refused the request, or the stage is
    unknown."""

    way: str
    outcome: str
    passed: str | None
    stopped: str | None
    why: str
    is_exempt: bool
    is_proven: bool  # only a recorded failure proves that policies were asked

    def at(self, stage: str) -> Answer:
        """The answer of a stage. Raises KeyError for a stage that does not exist."""
        number, before = NUMBERS[stage], BEFORE.get((self.way, stage))
        if before is None:
            return Answer.NOT_REACHED
        passed = NUMBERS[self.passed] if self.passed else 0
        if passed >= number:
            return Answer.ADMITTED
        if passed >= before:
            return Answer.DENIED if self.stopped == stage else Answer.ASKED
        return Answer.NOT_REACHED if self.stopped and NUMBERS[self.stopped] < number else Answer.UNKNOWN

    @property
    def policies(self) -> Answer:
        """The answer of policies; some resources are exempt from them."""
        return Answer.NOT_REACHED if self.is_exempt else self.at("policies")

    @property
    def policies_why(self) -> str:
        """Why policies were asked, or not, or why this is unknown."""
        return EXEMPT_WHY if self.is_exempt and self.way not in NO_ADMISSION else self.admission_why

    @property
    def admission_why(self) -> str:
        """As `policies_why`, without the exemption."""
        return NO_ADMISSION.get(self.way) or (ASKED_BY_FAILURE if self.is_proven else self.why)


def is_exempt(api_group: str, resource: str) -> bool:
    """Whether policies are never asked about a resource, even if their rules match it."""
    return (api_group, resource) in EXEMPT


def way_of(answered: Answered) -> str:
    """The way of a request through the API server: one of those in reach_rules."""
    if not answered.resource:
        return URL
    if answered.subresource in CONNECT_SUBRESOURCES:
        return CONNECT
    if answered.verb not in WRITE_VERBS:
        return READ
    is_empty = answered.verb == "deletecollection" and answered.listed == NOTHING and 200 <= answered.code < 300
    return EMPTY if is_empty else WRITE


def reach_of(answered: Answered) -> Reach:
    """How far a request came, by the first rule that applies to it."""
    read = tuple(
        item
        for item in answered.annotations.items()
        if item[0] in _READ or (answered.message and item[0].startswith(MUTATION_PREFIX))
    )
    noted = tuple(item for item in answered.notes.items() if item[0] in _NOTED)
    return _reach_of(answered[:7], answered.listed, read, noted)


@lru_cache(maxsize=8192)
def _reach_of(
    fields: tuple[Any, ...], listed: str, annotations: tuple[tuple[str, str], ...], notes: tuple[tuple[str, str], ...]
) -> Reach:
    """As `reach_of`: `fields` are those before the annotations. Many requests are equal in all that rules read."""
    answered = Answered._make((*fields, dict(annotations), dict(notes), listed))
    way = way_of(answered)
    rule = next(rule for rule, applies in _rules_for(answered.code) if applies(answered, way))
    proven = _proven(answered)
    if proven is None or (rule.passed is not None and NUMBERS[rule.passed] >= NUMBERS[proven]):
        proven = None
    return Reach(
        way,
        rule.outcome,
        proven or rule.passed,
        rule.stopped,
        rule.why,
        is_exempt(answered.api_group, answered.resource),
        proven == PROVEN_BY_FAILURE,
    )


def _proven(answered: Answered) -> str | None:
    """The stage that annotations prove to have been passed."""
    if FAILURE in answered.annotations or REVIEW in answered.notes:
        return PROVEN_BY_FAILURE
    return PROVEN_BY_DECISION if answered.annotations.get(DECISION) == "allow" else None


_Applies = Callable[[Answered, str], bool]


@lru_cache(maxsize=1024)
def _rules_for(code: int) -> tuple[tuple[Rule, _Applies], ...]:
    return tuple((rule, _applies(rule)) for rule in RULES if code in rule.codes)


@lru_cache(maxsize=1024)
def _applies(rule: Rule) -> _Applies:
    """The conditions of a rule other than its codes, cheapest first."""
    tests: list[_Applies] = []
    if rule.ways:
        tests.append(lambda answered, way: way in rule.ways)
    if rule.verbs:
        tests.append(lambda answered, way: answered.verb in rule.verbs)
    if rule.subresources:
        tests.append(lambda answered, way: answered.subresource in rule.subresources)
    if rule.resources:
        tests.append(lambda answered, way: (answered.api_group, answered.resource) in rule.resources)
    if rule.reason:
        tests.append(lambda answered, way: answered.reason == rule.reason)
    if rule.listed:
        tests.append(lambda answered, way: answered.listed == rule.listed)
    if rule.is_silent:
        tests.append(lambda answered, way: not answered.message and not answered.reason)
    if rule.is_untold:
        tests.append(lambda answered, way: not answered.message)
    if rule.decision is not None:
        tests.append(lambda answered, way: answered.annotations.get(DECISION, "") == rule.decision)
    if rule.authorizer_reason:
        tests.append(lambda answered, way: answered.annotations.get(AUTHORIZER_REASON) == rule.authorizer_reason)
    if rule.says:
        tests.append(lambda answered, way: rule.says in wordings_of(answered.message, answered.notes))
    if rule.is_reviewed:
        tests.append(lambda answered, way: REVIEW in answered.notes)
    if rule.by_mutating_webhook:
        tests.append(lambda answered, way: _named_webhook(answered.message) in _called_mutating(answered.annotations))
    return lambda answered, way: all(test(answered, way) for test in tests)


_WEBHOOK = re2.compile(WEBHOOK_NAME)


class _Mutation(msgspec.Struct):
    webhook: str = ""


_MUTATION = msgspec.json.Decoder(_Mutation)


def _named_webhook(message: str) -> str | None:
    found = _WEBHOOK.search(message)
    return found[1] if found else None


def _called_mutating(annotations: Mapping[str, str]) -> set[str]:
    found = set()
    for key, value in annotations.items():
        if key.startswith(MUTATION_PREFIX):
            try:
                found.add(_MUTATION.decode(value).webhook)
            except msgspec.DecodeError:
                continue
    return found - {""}
