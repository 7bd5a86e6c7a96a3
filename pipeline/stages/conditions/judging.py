"""What a chain makes of recorded requests, before their bodies are read.

An unconditional answer ends here. A conditional one is proved or refuted for a list or a watch, and evaluated on the known object
for a get. For a write it is left to the objects of the request.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ...authorization.attributes import Recorded, RequestInfo, info_of
from ...authorization.authorizer import SUPERUSERS
from ...history.event import are_all_known
from ...request import Grade, GroupVersionResource, Unknown, UserInfo
from ...withheld import holds_placeholder
from .chain import Builtin, Chain, Reads
from .compiled import Answer, Asked, Bounds, CompiledChain
from .expressions import request_value
from .known import NEVER, KnownObjects, State, is_plain, model_of
from .logic.evaluate import folded
from .logic.formula import is_true
from .logic.proof import Outcome, Proof, Prover, shown_object
from .logic.steps import QUESTION_STEPS_MAX
from .logic.suggest import Suggestions, suggestions
from .logic.translate import Semantics
from .logic.words import refusal_words, words
from .model import Effect, Plain
from .ruling import Finding, Ruling, ruling_of, unknown
from .selection import Selection, selection_of

_READS = ("list", "watch")
_EXAMPLES_MAX = 3
# The text of a formula or a reason is kept with every verdict.
_TEXT_MAX = 1000
_SUGGESTIONS_MAX = 4
# Distinct selections for which one run looks for others: a search takes some hundred proofs.
_SUGGESTED_MAX = 500
_NOT_ONE_SELECTOR = "not expressible as one selector"
_REFUSED = "the conditions do not hold of every object that the request selects"
_SUPERUSER = "the group system:masters may do everything"
_NO_OBJECT = "the object at that time is not known"
_NO_SELECTORS = "the log has no URI of the request, and so not its selectors"
_NO_GROUPS = "the groups of the user were not recorded, and system:masters may be one of them"
_REDACTED = "the user, the name or the path of the request was redacted"
_SUBRESOURCE = "conditions are about the object itself, and the request reads a subresource of it"


class Question(NamedTuple):
    """Requests that a chain cannot tell apart. `info` is None where the log does not show what was asked, and `why` says why."""

    cluster: str
    verb: str
    operation: str
    uri: str
    user: UserInfo
    recorded: str
    info: RequestInfo | None
    why: str = ""

    @property
    def is_read(self) -> bool:
        """Whether it reads."""
        return self.verb in ("get", *_READS)

    @property
    def is_superuser(self) -> bool:
        """Whether no authorizer of the chain is asked."""
        return SUPERUSERS in self.user.groups


class Timed(NamedTuple):
    """A question whose answer depends on the time of the request: one ruling per span, and the moments between the spans."""

    moments: Sequence[datetime]
    ruling: Callable[[int], Ruling]

    def at(self, moment: datetime) -> int:
        """The number of the span that holds a moment."""
        return bisect_right(self.moments, moment)


class Written(NamedTuple):
    """A write whose objects decide."""

    asked: Asked


RbacOpinion = Callable[[Question], Answer]


def question_of(row: Mapping[str, Any]) -> Question:
    """The question of a row of `conditions_questions`."""
    asked = row["question"]
    groups = tuple(asked["user_groups"])
    user = UserInfo(asked["user_name"], groups=groups, is_whole=are_all_known(asked["user_name"], groups))
    found = info_of(_recorded_of(asked))
    info, why = (None, found.reason) if isinstance(found, Unknown) else (found, "")
    return Question(asked["cluster"], asked["verb"], asked["operation"], asked["uri"], user, asked["recorded"], info, why)


def _recorded_of(asked: Mapping[str, Any]) -> Recorded:
    """What the log has of a question."""
    found, is_forbidden = asked["referred"], asked["recorded"] == "forbid"
    if found is None:
        return Recorded(asked["verb"], asked["uri"], is_forbidden=is_forbidden, is_redacted=asked["redacted"])
    resource = GroupVersionResource(found["group"], found["version"], found["resource"])
    return Recorded(
        asked["verb"], "", resource, found["subresource"], found["namespace"], found["name"], is_forbidden, asked["redacted"]
    )


def known_to(question: Question, ruling: Ruling) -> Ruling:
    """The ruling on a user, as far as its groups are known: superusers are never refused, and their group may be missing."""
    if ruling.allowed is not False or question.user.is_whole or question.recorded in ("RBAC", "forbid"):
        return ruling
    return unknown(_NO_GROUPS)


def is_about(chain: Chain, question: Question) -> bool:
    """Whether a chain answers a question: a review answers only its own, or what redaction does not tell from it."""
    about, info = chain.about, question.info
    if about is None:
        return True
    if info is None or question.verb != about.verb:
        return False
    if question.user.username != about.user and not holds_placeholder(question.user.username):
        return False
    if about.path:
        return not info.is_resource_request and (info.path == about.path or info.is_redacted)
    mine = (about.group, about.resource, about.subresource, about.namespace, info.name if info.is_redacted else about.name)
    if mine != (info.group, info.resource, info.subresource, info.namespace, info.name):
        return False
    if info.field_selector is None:
        return about.labels is None and about.fields is None
    selection = selection_of(info)
    return about.labels in (None, frozenset(selection.labels)) and about.fields in (None, frozenset(selection.fields))


def is_told(question: Question) -> bool:
    """Whether redaction left the name, the path and the user of a question."""
    return not (question.info and question.info.is_redacted) and not holds_placeholder(question.user.username)


class Judging:
    """Answers the questions of one chain."""

    def __init__(self, compiled: CompiledChain, known: KnownObjects, prover: Prover) -> None:
        self.chain = compiled.chain
        self._compiled = compiled
        self._known = known
        self._prover = prover
        self._suggestions: dict[Any, Suggestions] = {}

    def answer(self, question: Question, rbac: RbacOpinion) -> Ruling | Timed | Written:
        """The answer to a question. `rbac` gives what RBAC says of it, and is asked only where that matters."""
        info = question.info
        if info is None:
            return unknown(question.why)
        if self.chain.about is not None and not is_told(question):
            return unknown(_REDACTED)
        if question.is_superuser:
            return Ruling(True, _SUPERUSER)
        asked = self.asked(question, rbac(question))
        decision = asked.decision
        if isinstance(decision, Plain):
            return ruling_of(decision)
        if self.may_be_conditional(question):
            if question.verb in _READS:
                with self._prover.steps.within(QUESTION_STEPS_MAX):
                    return self._read(question, asked)
            return self._get(question, asked) if question.verb == "get" else Written(asked)
        if question.is_read and info.subresource and self.chain.reads is not Reads.FAIL_CLOSED:
            return unknown(_SUBRESOURCE)
        return unknown(asked.unknown) if decision is None else ruling_of(folded(decision))

    def asked(self, question: Question, rbac: Answer) -> Asked:
        """The answers of all members before the object is known."""
        assert question.info is not None
        request = request_value(question.info, question.user)
        return self._compiled.asked(request, question.is_read, {Builtin.RBAC: rbac, Builtin.RECORDED: _recorded(question)})

    def selection(self, question: Question) -> Selection:
        """What a list or a watch selects, with all that is known of the fields of its resource."""
        info = question.info
        assert info is not None
        fields = self._known.fields(question.cluster, info.group, info.resource)
        return replace(selection_of(info), types=fields)

    def is_namespaced(self, question: Question) -> bool | None:
        """Whether the objects of a question are in namespaces."""
        assert question.info is not None
        return self._known.is_namespaced(question.cluster, question.info.group, question.info.resource)

    def may_be_conditional(self, question: Question) -> bool:
        """Whether the design applies conditions to such a request: to writes that admission sees, and to reads of whole objects."""
        info = question.info
        assert info is not None
        if not info.is_resource_request:
            return False
        if question.is_read and question.operation != "CONNECT":
            return self.chain.reads is not Reads.FAIL_CLOSED and not info.subresource
        return question.operation in ("CREATE", "UPDATE", "DELETE")

    def _read(self, question: Question, asked: Asked) -> Ruling | Timed:
        info = question.info
        assert info is not None
        selection = self.selection(question)
        bounds = asked.authorized(selection.types)
        proof = self._prover.proof_of(asked, selection, self.is_namespaced(question))
        base = Ruling(None).with_detail(
            selection=str(selection),
            ignored=selection.ignored,
            semantics=sorted({str(each.semantics) for each in asked.answers}),
            allowedIf=_cut(words(bounds.low)),
        )
        if proof.outcome is Outcome.PROVED:
            found = Ruling(True, detail=base.detail)
            return found.with_detail(proof=str(Finding.PROVED), vacuous=proof.is_vacuous or None)
        if info.field_selector is None:  # the proof was about all objects, and the request may have selected some
            return unknown(_NO_SELECTORS).with_detail(**json.loads(base.detail), proof=str(Finding.UNKNOWN))
        if proof.outcome is Outcome.UNKNOWN:
            return unknown(proof.why).with_detail(**json.loads(base.detail), proof=str(Finding.UNKNOWN))
        return self._refuted(question, asked, bounds, selection, proof, base)

    def _refuted(
        self, question: Question, asked: Asked, bounds: Bounds, selection: Selection, proof: Proof, base: Ruling
    ) -> Ruling | Timed:
        info = question.info
        assert info is not None
        assert proof.model is not None
        refused = self.refusal(question, asked, bounds, selection, base)
        model = shown_object(proof.model, selection.namespace)
        hypothetical = refused.with_detail(
            proof=str(Finding.HYPOTHETICAL), counterexample=model, because=_cut(refusal_words(asked.on({"object": model})))
        )
        leaks = self.leaks(question, asked, bounds, selection)
        if not leaks:
            return hypothetical
        moments = sorted({moment for state in leaks for moment in (state.since, state.until)})

        def ruling(span: int) -> Ruling:
            active = _active(leaks, moments, span)
            if not active:
                return hypothetical
            seen = [f"{state.namespace}/{state.name}".lstrip("/") for state in active[:_EXAMPLES_MAX]]
            because = _cut(refusal_words(asked.on({"object": active[0].object})))
            return refused.with_detail(
                proof=str(Finding.KNOWN), counterexample=_shown(active[0]), because=because, known=len(active), examples=seen
            )

        return Timed(moments, ruling)

    def refusal(self, question: Question, asked: Asked, bounds: Bounds, selection: Selection, base: Ruling) -> Ruling:
        """What the server does with a read that is not proved: it refuses it, or adds the one selector that is enough."""
        refused = Ruling(False, _REFUSED, detail=base.detail)
        found = self.suggestions(question, asked, bounds, selection)
        if found is None:
            return refused
        instead = [str(each.selection) for each in found.found[:_SUGGESTIONS_MAX]]
        if self.chain.reads is not Reads.DOWNGRADE:
            return refused.with_detail(suggestions=instead)
        if found.only is None:
            return refused.with_detail(suggestions=instead, downgrade=_NOT_ONE_SELECTOR)
        return Ruling(True, is_changed=True, detail=base.detail).with_detail(downgrade=str(found.only), suggestions=instead)

    def suggestions(self, question: Question, asked: Asked, bounds: Bounds, selection: Selection) -> Suggestions | None:
        """The selections that the client may ask for instead; None beyond the number that one run looks for."""
        info = question.info
        assert info is not None
        key = (question.cluster, info.group, info.resource, bounds.low, selection)
        if key not in self._suggestions:
            if len(self._suggestions) >= _SUGGESTED_MAX:
                return None
            states = [each for each in self._known.of(question.cluster, info.group, info.resource) if each.until == NEVER]
            self._suggestions[key] = suggestions(
                self._prover, asked, bounds, selection, (info.group, info.resource), states, self.is_namespaced(question)
            )
        return self._suggestions[key]

    def leaks(self, question: Question, asked: Asked, bounds: Bounds, selection: Selection) -> list[State]:
        """The known states of objects that a selection takes and the chain surely refuses."""
        info = question.info
        assert info is not None
        states = self._known.of(question.cluster, info.group, info.resource)
        refused = self._refuser(asked, bounds)
        return [state for state in states if selection.selects(state.object) and refused(state)]

    def _refuser(self, asked: Asked, bounds: Bounds) -> Callable[[State], bool]:
        """Whether the chain surely refuses a state: by the formula where it says all, else by evaluating each condition."""
        keys, paths = self._prover.reads(bounds.high)
        kept: dict[Any, bool] = {}

        def refused(state: State) -> bool:
            if not bounds.is_exact or not is_plain(state.object, keys):
                return not asked.may_allow({"object": state.object})
            model = model_of(state.object, keys, paths)
            profile = (tuple(sorted(model.values.items())), model.maps)
            if profile not in kept:
                kept[profile] = not is_true(bounds.high, model)
            return kept[profile]

        return refused

    def states_met(self, question: Question) -> list[State]:
        """The known states of the object that a request names."""
        info = question.info
        assert info is not None
        namespace = "" if (info.group, info.resource) == ("", "namespaces") else info.namespace
        return self._known.named(question.cluster, info.group, info.resource, namespace, info.name)

    def _get(self, question: Question, asked: Asked) -> Ruling | Timed:
        states = self.states_met(question)
        if not states:
            return unknown(_NO_OBJECT)
        moments = sorted({moment for state in states for moment in (state.since, state.until)})

        def ruling(span: int) -> Ruling:
            active = _active(states, moments, span)
            if not active:
                return unknown(_NO_OBJECT)
            found = asked.on({"object": active[-1].object})
            if found is None:
                return unknown(asked.unknown or "; ".join(asked.authorized().problems) or _over(asked, active[-1]))
            return ruling_of(found, str(Grade.INFERRED)).with_detail(
                object=_shown(active[-1]) if found.effect is not Effect.ALLOW else ""
            )

        return Timed(moments, ruling)


def _over(asked: Asked, state: State) -> str:
    return "; ".join(asked.open_of({"object": state.object}))


def _active(states: Sequence[State], moments: Sequence[datetime], span: int) -> list[State]:
    """The states that hold between two moments."""
    if not span:
        return []
    start = moments[span - 1]
    return [state for state in states if state.since <= start < state.until]


def _cut(text: str) -> str:
    """A text for the detail of a verdict, with a mark where it is cut."""
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _shown(state: State) -> dict[str, Any]:
    """A state as a reader needs it: what it is, and its labels."""
    metadata = state.object.get("metadata") or {}
    return {"metadata": {"namespace": state.namespace, "name": state.name, "labels": metadata.get("labels") or {}}}


def _recorded(question: Question) -> Answer:
    """What the log says that the authorizers of that time decided, whoever did."""
    if not question.recorded:
        return Answer("", None, Semantics.CEL, "the log has no decision of the authorizers", may_deny=False)
    return Answer("", Plain(Effect.NO_OPINION if question.recorded == "forbid" else Effect.ALLOW), Semantics.CEL)
