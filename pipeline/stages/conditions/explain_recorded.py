"""Explains what a chain makes of one recorded request, with the evidence that a replay has of it.

A list or a watch is explained in the words of selectors: see explain.py. Of every other request this is the decision, and what each
condition evaluated to about its objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from ingest.errors import EvidenceError, InputError
from queries import LakeReader

from ...cel.values import Value
from ...request import AdmissionRequest, Known
from ...runs.window import Window
from .chain import DESIGN, SIMULATED, Chain
from .compiled import Asked, CompiledChain
from .explain import Decided, Explained, Results, explained, member_words
from .judging import Judging, Question, Timed, Written, is_about, known_to, question_of
from .known import KnownObjects
from .logic.proof import Prover
from .model import Plain
from .rbac import RbacAnswers
from .sql import statement
from .writes import Writes, activation_of


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """What a chain makes of a request that selects nothing: a decision, or one for each object of a deletecollection."""

    request: str
    members: tuple[str, ...]
    decided: tuple[Decided, ...]

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        found = [each.data() for each in self.decided]
        return {"design": DESIGN, "request": self.request, "members": list(self.members), "decisions": found}

    def lines(self) -> Iterator[str]:
        """For an operator: the request, the authorizers, and the decisions."""
        yield self.request
        yield f"  ({SIMULATED})"
        if self.members:
            yield "The authorizers, in order:"
            yield from (f"  {member}" for member in self.members)
        for each in self.decided:
            yield from each.lines()


def explain_recorded(
    reader: LakeReader, chain: Chain, cluster: str, audit_id: str, ts: datetime, version: tuple[int, int] = (1, 37)
) -> Explained | ExplainedDecision:
    """What a chain makes of a recorded request. Raises InputError for a review of another question.

    Raises EvidenceError for a request that the lake does not have, and for a write whose end the log does not show.
    """
    reader.connection.execute(statement("asked"), {"since": ts, "until": ts + timedelta(microseconds=1)})
    reader.connection.execute(statement("one"), {"cluster": cluster, "audit_id": audit_id})
    reader.connection.execute(statement("questions"))
    rows = reader.arrow("FROM conditions_questions").to_pylist()
    if not rows:
        raise EvidenceError(f"request {audit_id} was not replayed: the log does not show when it was received")
    question = question_of(rows[0])
    if not is_about(chain, question):
        raise InputError(
            f"{chain.source or chain.name}: {chain.name} is about another question than request {audit_id}",
            "give the review of this request, or an AuthorizerChain",
        )
    return _Recorded(reader, CompiledChain(chain, version), rows[0]["number"], question, ts).explained()


class _Recorded:
    """One request, as a replay meets it."""

    def __init__(self, reader: LakeReader, compiled: CompiledChain, number: int, question: Question, ts: datetime) -> None:
        self._reader = reader
        self._known = KnownObjects(reader, Window(), compiled.paths)
        self._judging = Judging(compiled, self._known, Prover())
        self._rbac = RbacAnswers(reader, Window())
        self._number = number
        self._question = question
        self._ts = ts

    def explained(self) -> Explained | ExplainedDecision:
        question = self._question
        found = self._judging.answer(question, self._rbac.answer)
        if isinstance(found, Written):
            return self._decision(found.asked, tuple(self._written(found.asked)))
        ruling = known_to(question, found.ruling(found.at(self._ts)) if isinstance(found, Timed) else found)
        if question.info is None or question.is_superuser:
            return self._decision(None, (Decided("", ruling),))
        asked = self._judging.asked(question, self._rbac.answer(question))
        if isinstance(asked.decision, Plain) or not self._judging.may_be_conditional(question):
            return self._decision(asked, (Decided("", ruling),))
        if question.verb == "get":
            return self._decision(asked, (Decided("", ruling, self._met(asked)),))
        if question.info.field_selector is None:  # the log does not show what it selects
            return self._decision(asked, (Decided("", ruling),))
        return replace(self._selecting(asked), decided=Decided("", ruling))

    def _decision(self, asked: Asked | None, decided: tuple[Decided, ...]) -> ExplainedDecision:
        question = self._question
        what = question.info.attributes if question.info is not None else question.verb
        members = tuple(map(member_words, asked.answers)) if asked is not None else ()
        return ExplainedDecision(f"{what} by {question.user.username}", members, decided)

    def _selecting(self, asked: Asked) -> Explained:
        question = self._question
        assert question.info is not None
        states = self._known.of(question.cluster, question.info.group, question.info.resource)
        current = [state for state in states if state.since <= self._ts < state.until]
        namespaced = self._judging.is_namespaced(question)
        return explained(asked, question.info, question.user, self._judging.selection(question), Prover(), current, namespaced)

    def _met(self, asked: Asked) -> Results:
        """The results about the object that a get met, if it is known."""
        current = [state for state in self._judging.states_met(self._question) if state.since <= self._ts < state.until]
        return _results(asked, {"object": current[-1].object}) if current else ()

    def _written(self, asked: Asked) -> Iterator[Decided]:
        """The decisions on the objects of a write."""
        self._reader.put_table("conditions_written", pa.table({"number": pa.array([self._number], pa.int64())}))
        passes = list(Writes(self._reader, Window(), {self._number: asked}).passes())
        if not passes:
            raise EvidenceError(
                f"{self._question.verb} at {self._ts.isoformat()} was not replayed: its stage ResponseComplete is not recorded",
                "ingest the rest of the log; an audit policy may also omit that stage",
            )
        for each in passes:
            request = each.request
            results = _results(asked, activation_of(request)) if request is not None else ()
            yield Decided(_place(request) if len(passes) > 1 else "", known_to(self._question, each.ruling), results)


def _results(asked: Asked, activation: Mapping[str, Value]) -> Results:
    return tuple((answer.name, each.id, result.truth.value, result.text) for answer, each, result in asked.results(activation))


def _place(request: AdmissionRequest | None) -> str:
    known = [each.value for each in (request.namespace, request.name) if isinstance(each, Known)] if request is not None else []
    return "/".join(filter(None, known))
