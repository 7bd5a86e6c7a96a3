"""Explains what a chain makes of one list or watch, in the words of selectors.

for line in explain(chain, "lucas", "list", "/api/v1/namespaces/shop/secrets?labelSelector=owner%3Dlucas").lines():
    print(line)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingest.errors import InputError
from queries import LakeReader

from ...authorization.attributes import METHODS, request_info
from ...history.kinds import by_resource
from ...request import UserInfo
from ...runs.window import Window
from .chain import DESIGN, SIMULATED, Builtin, Chain
from .compiled import Answer, CompiledChain
from .expressions import request_value
from .fields import Fields
from .known import KnownObjects, State
from .logic.primes import alternatives
from .logic.proof import Outcome, Proof, Prover, shown_object
from .logic.suggest import Suggestions, suggestions
from .logic.translate import Semantics
from .logic.words import box_words, refusal_words, words
from .model import ConditionsMap, Effect, Plain
from .selection import Selection, selection_of
from .sql import statement


@dataclass(frozen=True, slots=True)
class Explained:
    """What a chain makes of a list or a watch. `refusal` is the chain's own reason for the counterexample."""

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
            "`hindcast replay -f` says for every other request what the chain decides, and why",
        )
    info = info._replace(verb=verb)
    compiled, prover = CompiledChain(chain, version), Prover()
    asked = compiled.asked(request_value(info, UserInfo(user, groups=tuple(groups))), True, _builtin(rbac))
    selection = selection_of(info) if fields is None else replace(selection_of(info), types=fields)
    bounds = asked.authorized(selection.types)
    built_in = by_resource(info.group, info.resource)
    is_namespaced = built_in.namespaced if built_in is not None else None
    proof = prover.proof_of(asked, selection, is_namespaced)
    found = alternatives(prover, bounds.low, {}, is_namespaced)
    model = shown_object(proof.model, selection.namespace) if proof.model is not None else None
    final = asked.on({"object": model}) if model is not None else None
    return Explained(
        request=f"{info.attributes} by {user}",
        selection=selection,
        members=tuple(_member(each) for each in asked.answers),
        allowed=words(bounds.low),
        alternatives=tuple(box_words(box) for box in found.boxes),
        is_complete=found.is_complete,
        proof=proof,
        counterexample=model,
        refusal=refusal_words(final),
        instead=suggestions(prover, asked, bounds, selection, (info.group, info.resource), states, is_namespaced),
    )


def _member(answer: Answer) -> str:
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


def explain_recorded(reader: LakeReader, chain: Chain, audit_id: str, cluster: str | None = None) -> list[Explained]:
    """What a chain makes of the recorded lists and watches with an auditID. Raises InputError for any other request."""
    rows = reader.sql(statement("recorded"), {"audit_id": audit_id, "cluster": cluster}).to_arrow_table().to_pylist()
    if not rows:
        raise InputError(f"{audit_id}: no recorded request has this audit ID", "the column AUDIT ID of -o wide names some")
    found = []
    for row in rows:
        if not row["request_uri"]:
            raise InputError(
                f"{audit_id}: the log has no URI of this request, and so not its selectors", "see docs/clusters/managed.md"
            )
        rbac = None if row["decision"] is None else row["decision"] == "allow" and row["reason"].startswith("RBAC: allowed by")
        rbac = None if row["decision"] == "allow" and not rbac else rbac
        # Known objects look up resources in this table; for one request no other is needed in it.
        reader.connection.execute(statement("asked"), {"since": row["ts"], "until": row["ts"]})
        if not row["request_uri"]:
            raise InputError(
                f"{audit_id}: the log has no requestURI of it, and so no selectors", "replay -f judges it by its object"
            )
        place = (row["cluster"], row["api_group"] or "", row["resource"] or "")
        known = KnownObjects(reader, Window())
        current = [state for state in known.of(*place) if state.since <= row["ts"] < state.until]
        fields = known.fields(*place, CompiledChain(chain).paths)
        user, groups = row["user_name"] or "", row["user_groups"] or ()
        found.append(explain(chain, user, row["verb"], row["request_uri"], groups, rbac=rbac, states=current, fields=fields))
    return found
