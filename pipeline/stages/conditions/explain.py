"""Explains what a chain makes of one list or watch, in the words of selectors.

for line in explain(chain, "lucas", "list", "/api/v1/namespaces/shop/secrets?labelSelector=owner%3Dlucas").lines():
    print(line)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ingest.errors import InputError

from ...authorization.attributes import METHODS, RequestInfo, request_info
from ...history.kinds import by_resource
from ...request import UserInfo
from .chain import DESIGN, SIMULATED, Builtin, Chain
from .compiled import Answer, Asked, CompiledChain
from .expressions import request_value
from .fields import Fields
from .known import State
from .logic.primes import alternatives
from .logic.proof import Outcome, Proof, Prover, shown_object
from .logic.suggest import Suggestions, suggestions
from .logic.translate import Semantics
from .logic.words import box_words, refusal_words, words
from .model import ConditionsMap, Effect, Plain
from .ruling import Ruling
from .selection import Selection, selection_of

# The authorizer of each condition, its id, its value, and the text of an error or of the reason that it is unknown.
Results: TypeAlias = tuple[tuple[str, str, str, str], ...]
_SAID = {True: "ALLOWED", False: "REFUSED", None: "UNKNOWN"}


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on a request, or on one object of it. `place` names that object, if there are several."""

    place: str
    ruling: Ruling
    results: Results = ()

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        ruling = self.ruling
        names = ("authorizer", "id", "result", "text")
        return {
            "object": self.place,
            "decision": _SAID[ruling.allowed].lower(),
            "reason": ruling.reason,
            "error": ruling.error,
            "why": ruling.why,
            "evidence": ruling.evidence,
            "conditions": [dict(zip(names, each, strict=True)) for each in self.results],
        }

    def lines(self) -> Iterator[str]:
        """For an operator: the results of the conditions, and then the decision."""
        ruling = self.ruling
        if self.results:
            yield f"The conditions about {self.place or 'its objects'}:"
            yield from (f"  {name} [{id_}]: {said}{f', {text}' if text else ''}" for name, id_, said, text in self.results)
        told = ruling.error or ruling.reason if ruling.allowed is not None else ruling.why
        code = "" if ruling.allowed is not False else " with 500" if ruling.error else " with 403"
        shown = "; ".join(told.splitlines())
        yield f"{_SAID[ruling.allowed]}{code}{f': {shown}' if shown else ''} (evidence: {ruling.evidence})"


@dataclass(frozen=True, slots=True)
class Explained:
    """What a chain makes of a list or a watch. `refusal` is the chain's own reason for the counterexample.

    `decided` is the decision on a recorded one.
    """

    request: str
    selection: Selection
    members: tuple[str, ...]
    allowed: str
    alternatives: tuple[str, ...]
    is_complete: bool
    proof: Proof
    counterexample: dict[str, Any] | None
    refusal: str
    instead: Suggestions
    decided: Decided | None = None

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "design": DESIGN,
            "request": self.request,
            "selects": str(self.selection),
            "members": list(self.members),
            "allowedIf": self.allowed,
            "alternatives": list(self.alternatives),
            "proof": str(self.proof.outcome),
            "vacuous": self.proof.is_vacuous,
            "why": self.proof.why,
            "counterexample": self.counterexample,
            "refusal": self.refusal,
            "askInstead": [str(each.selection) for each in self.instead.found],
            "decisions": [self.decided.data()] if self.decided is not None else [],
        }

    def lines(self) -> Iterator[str]:
        """For an operator: the request, what the chain allows, and the proof or the object that refutes it."""
        yield self.request
        yield f"  selects: {self.selection}"
        yield f"  ({SIMULATED})"
        yield "The authorizers, in order:"
        yield from (f"  {member}" for member in self.members)
        yield "An object is allowed if:"
        yield f"  {self.allowed}"
        if len(self.alternatives) > 1:
            yield "That is one of:" if self.is_complete else "Among others, that is:"
            yield from (f"  - {each}" for each in self.alternatives)
        yield from self._finding()
        if self.proof.outcome is Outcome.REFUTED:
            yield "Ask instead:" if self.instead.found else "Ask instead: no selector within this request is allowed."
            yield from (f"  {each.selection}" for each in self.instead.found)
        if self.decided is not None:
            yield from self.decided.lines()

    def _finding(self) -> Iterator[str]:
        if self.proof.outcome is Outcome.PROVED:
            no_object = "No object can match these selectors, so that nothing can be shown."
            yield f"PROVED. {no_object if self.proof.is_vacuous else 'Every object that these selectors can select is allowed.'}"
        elif self.proof.outcome is Outcome.UNKNOWN:
            yield f"UNKNOWN. {self.proof.why}"
        else:
            yield "REFUTED. The selectors select this object, and the chain does not allow it:"
            yield f"  {json.dumps(self.counterexample)}"
            yield f"  because {self.refusal}"


def explain(
    chain: Chain,
    user: str,
    verb: str,
    uri: str,
    groups: Sequence[str] = (),
    *,
    rbac: bool | None = None,
    states: Sequence[State] = (),
    fields: Fields | None = None,
    version: tuple[int, int] = (1, 37),
) -> Explained:
    """What a chain makes of a list or a watch of a user. `rbac` is what RBAC says of it; None where that is unknown.

    `states` are known objects of the resource; suggestions that keep more of them come first. Raises InputError for any other
    request, and without z3.
    """
    info = request_info(METHODS.get(verb, "GET"), uri)
    if info is None or not info.is_resource_request or verb not in ("list", "watch"):
        raise InputError(
            f"{verb} {uri}: found another request, wanted a list or a watch of a resource",
            "`hindcast explain AUDIT_ID -f` explains every recorded request",
        )
    info, of = info._replace(verb=verb), UserInfo(user, groups=tuple(groups))
    asked = CompiledChain(chain, version).asked(request_value(info, of), True, _builtin(rbac))
    selection = selection_of(info) if fields is None else replace(selection_of(info), types=fields)
    built_in = by_resource(info.group, info.resource)
    return explained(asked, info, of, selection, Prover(), states, built_in.namespaced if built_in is not None else None)


def explained(
    asked: Asked,
    info: RequestInfo,
    user: UserInfo,
    selection: Selection,
    prover: Prover,
    states: Sequence[State],
    is_namespaced: bool | None,
) -> Explained:
    """What the members of a chain, once they were asked, make of a list or a watch."""
    bounds = asked.authorized(selection.types)
    proof = prover.proof_of(asked, selection, is_namespaced)
    found = alternatives(prover, bounds.low, {}, is_namespaced)
    model = shown_object(proof.model, selection.namespace) if proof.model is not None else None
    final = asked.on({"object": model}) if model is not None else None
    return Explained(
        request=f"{info.attributes} by {user.username}",
        selection=selection,
        members=tuple(map(member_words, asked.answers)),
        allowed=words(bounds.low),
        alternatives=tuple(box_words(box) for box in found.boxes),
        is_complete=found.is_complete,
        proof=proof,
        counterexample=model,
        refusal=refusal_words(final),
        instead=suggestions(prover, asked, bounds, selection, (info.group, info.resource), states, is_namespaced),
    )


def member_words(answer: Answer) -> str:
    """What one member says of a request, on one line."""
    decision = answer.decision
    if decision is None:
        return f"{answer.name}: unknown, because {answer.why}"
    if isinstance(decision, Plain):
        return f"{answer.name}: {decision.effect}" + (f" ({decision.reason})" if decision.reason else "")
    how = "as selectors" if answer.semantics is Semantics.SELECTOR else "as CEL"
    if not isinstance(decision, ConditionsMap):
        return f"{answer.name}: conditional, read {how}: {decision}"
    return f"{answer.name}: conditional, read {how}: {'; '.join(_lists(decision))}"


def _lists(decision: ConditionsMap) -> Iterable[str]:
    for effect, found in decision.lists():
        yield from (f"{effect} if {each.expression} [{each.id}]" for each in found)


def _builtin(rbac: bool | None) -> dict[Builtin, Answer]:
    if rbac is None:
        return {}
    found = Answer("", Plain(Effect.ALLOW if rbac else Effect.NO_OPINION), Semantics.CEL)
    return {Builtin.RBAC: found, Builtin.RECORDED: found}
