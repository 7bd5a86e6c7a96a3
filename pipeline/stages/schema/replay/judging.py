"""Judges one recorded request on a custom resource under a new definition, as far as the record allows.

The record does not show everything that the client sent or that storage held. So a write is predicted for each thing that it may
have been, and the verdict is known only if all of these agree. Where the definition of that time is known, it must explain the
recorded answer as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ingest.notes import REDACTED

from ....history.event import Event
from ....history.patch import PatchError
from ....history.version import ObjectKey, Version
from ....history.versions import LogVersions
from ....history.webhook_changes import webhook_patches
from ....request import Grade, Known, Unknown
from ....runs.verdict import Flip
from ..definition import Definition
from ..field_errors import FieldError, joined
from ..props import Props
from .carried import Carrier, with_tested_version
from .difference import Change, changes, comparable
from .hidden import filled, fillings, is_certain
from .outcome import NO_MANAGED_FIELDS, NO_OLD_DEFINITION, Decision, Outcome
from .possible import Possible, answered
from .predicting import Answer, Step, predict, predict_decoding, predict_typed, serves
from .recorded import came_to_resource, recorded_of, why_untold
from .sent import STRICT, Sent, Way, sent_of
from .served import Served, UndecidedError
from .stored import Ground, Stored, stored_of
from .strictness import still_unknown

WRITES: Final = frozenset({"create", "update", "patch"})


def judge(event: Event, new: Served, old: Served | Unknown, versions: LogVersions, carrier: Carrier) -> Outcome | None:
    """The verdict on one request; None if it did not come to its resource, or if no definition concerns it."""
    if not came_to_resource(event):
        return None
    found = _Judgement(event, new, old, versions, carrier)
    return found.outcome() if event.verb in WRITES or not event.resource.version else found.of_read()


class _Judgement:
    def __init__(self, event: Event, new: Served, old: Served | Unknown, versions: LogVersions, carrier: Carrier) -> None:
        self.carrier = carrier
        self.event = event
        self.new = new
        self.old = None if isinstance(old, Unknown) else old
        self.versions = versions
        self.recorded = recorded_of(event, (self.old or new).definition)
        self.grade = Grade.PARTIAL if "redacted" in event.flags else Grade.INFERRED
        self.write = ""
        self.told: dict[str, Any] | None = None  # the object as the definition of that time answers it
        self.agreement = ""  # of the record with the definition of that time: agrees or differs

    def of_read(self) -> Outcome | None:
        """A request that writes nothing is refused if its version is not served any more."""
        if self.new.kind(self.event.resource.version) is not None or self.event.code == 404:
            return None
        return self._of_answer(Answer(404, Step.SERVED, message="404 page not found"))

    def outcome(self) -> Outcome:
        if why := why_untold(self.event):
            return self._unknown(why)
        sent = sent_of(self.event)
        if not self._serves(sent):
            return self._of_answer(predict(self.new, sent, None))
        if self.recorded.step is Step.DECODING:
            return self._undecoded(sent)
        try:
            return self._decided(self._with_patches(sent))
        except UndecidedError as problem:
            return self._unknown(str(problem))

    def _serves(self, sent: Sent) -> bool:
        kind = self.new.kind(sent.version)
        return kind is not None and serves(kind, sent.subresource)

    def _undecoded(self, sent: Sent) -> Outcome:
        """A create or update that could not be decoded: its body was not recorded."""
        if not self.recorded.by_schema:
            return self._unreached()
        kind = self.new.kind(sent.version)
        assert kind is not None
        if STRICT in self.event.message and (left := still_unknown(self.event.message, kind.schema)):
            message = f"{self.event.message.partition(STRICT)[0]}{STRICT}: {', '.join(left)}"
            return self._of_answer(Answer(400, Step.DECODING, "BadRequest", message), is_whole_text=False)
        return self._unknown("the body of a request that cannot be decoded is not recorded")

    def _with_patches(self, sent: Sent) -> Sent:
        """The request with what mutating webhooks made of it. They see the object, so a patch of the client must come first."""
        try:
            patches = tuple(tuple(each) for each in webhook_patches(self.event.annotations))
        except PatchError as problem:
            raise UndecidedError(f"a recorded patch of a webhook cannot be read: {problem}") from None
        return replace(sent, webhook_patches=patches) if patches else sent

    def _decided(self, sent: Sent) -> Outcome:
        if sent.body is None:
            raise UndecidedError(sent.why_no_body)
        if self.old is None:
            raise UndecidedError(NO_OLD_DEFINITION)
        if (fixed := _changed_for_ever(self.old.definition, self.new.definition)) is not None:
            raise UndecidedError(f"the API server refuses the new definition: {fixed} cannot be changed")
        if (redacted := self.event.notes.get(REDACTED, "")) and "Object" in redacted:
            raise UndecidedError(f"values were redacted: {redacted}")
        if (refused := predict_typed(self.new, sent)) is not None:
            return self._of_answer(refused)
        if self.recorded.step is Step.TARGET or (self.recorded.step is Step.CONFLICT and sent.way is Way.UPDATE):
            early = predict_decoding(self.new, sent)
            return self._unreached() if early is None else self._of_answer(early)
        stored = self._stored(sent)
        possible = Possible(self.event, self.old, self.new, sent, stored)
        told = self._explain(possible, sent, stored)
        if sent.is_strict is None and told is not None and told.dropped:
            sent = replace(sent, is_strict=False)  # the answer shows it
            possible = Possible(self.event, self.old, self.new, sent, stored)
        found = [predict(self.new, *each) for each in possible.writes()]
        answer = found[0]
        if any(not _agree(answer, other) for other in found[1:]):
            raise UndecidedError(self._why_apart(sent))
        hidden = possible.hidden()
        return self._despite(answer, possible.body, stored, hidden) if hidden else self._of_answer(answer)

    def _why_apart(self, sent: Sent) -> str:
        if sent.way is Way.APPLY:
            return NO_MANAGED_FIELDS
        return "a value that is a default of the definition of that time may have been sent, or not"

    def _despite(self, answer: Answer, sent: Sent, stored: Stored | None, hidden: dict[str, Props | None]) -> Outcome:
        """The verdict on a request whose record may lack something: refused only if it is refused whatever that was."""
        names = ", ".join(sorted(hidden)[:3]) + (", ..." if len(hidden) > 3 else "")
        if answer.is_refused:
            paths = tuple(sorted(hidden))
            if answer.step < Step.SCHEMA:
                return self._of_answer(answer, hidden=paths)
            if certain := [each for each in answer.errors if is_certain(each, hidden)]:
                return self._of_answer(self._naming(answer, certain), is_whole_text=False, hidden=paths)
            if (shared := self._refused_however_filled(sent, stored, hidden)) is not None:
                return self._of_answer(self._naming(answer, shared), is_whole_text=False, hidden=paths)
        otherwise = self._of_answer(answer)
        found = self._unknown(f"the definition of that time drops {names}, which the client may have sent or storage may hold")
        return replace(found, hidden=tuple(sorted(hidden)), otherwise=str(otherwise.decision))

    def _refused_however_filled(
        self, sent: Sent, stored: Stored | None, hidden: dict[str, Props | None]
    ) -> Sequence[FieldError] | None:
        """The causes that every filling of hidden fields shares, if each filling is refused; else None."""
        every = fillings(hidden)
        if every is None or not sent.shows_schema_of_the_time or (stored is not None and not stored.was_written):
            return None
        answers = [predict(self.new, replace(sent, body=filled(sent.body, each)), stored) for each in every]
        if not all(each.is_refused for each in answers):
            return None
        return [error for error in answers[0].errors if all(error in each.errors for each in answers)]

    @staticmethod
    def _naming(answer: Answer, errors: Sequence[FieldError]) -> Answer:
        """A refusal that names these causes alone: the others depend on fields that the record hides."""
        head = answer.message.partition(" is invalid: ")[0]
        text = joined(errors) if errors else "the cause depends on fields that are not recorded"
        return replace(answer, errors=tuple(errors), message=f"{head} is invalid: {text}")

    def _stored(self, sent: Sent) -> Stored | None:
        """What the write met; None for a create."""
        if sent.way is Way.CREATE or self.event.code == 201:
            return None
        assert self.old is not None
        kind = self.old.kind(sent.version)
        found = stored_of(self.event, self.versions, None if kind is None else kind.scale, partial(self._carried, self.old))
        if isinstance(found, Unknown):
            raise UndecidedError(found.reason)
        if found.grade is Grade.PARTIAL:
            self.grade = Grade.PARTIAL
        if found.value is None:
            if sent.way is Way.APPLY:
                return None
            raise UndecidedError(f"the object did not exist, as the log shows it: {found.source}")
        self.write = found.value.write
        stored = replace(found.value, stored_as=self.old.storage.version)
        has_passed = self.recorded.step is not None and self.recorded.step > Step.PATCHING
        return with_tested_version(stored, sent) if has_passed else stored

    def _carried(self, old: Served, key: ObjectKey, version: Version, ground: Ground) -> Known[Stored | None] | Unknown:
        """The object after a version without a body. A request that found no object, or made one, tells nothing of the old one."""
        return self.carrier.after(key, version, old, ground, self.event.code not in (404, 201) and self.recorded.step is not None)

    def _explain(self, possible: Possible, sent: Sent, stored: Stored | None) -> Answer | None:
        """Hold the definition of that time against the record; returns what it says, or None if it was not reached.

        Raises UndecidedError if it says something else.
        """
        assert self.old is not None
        if self.recorded.step in (Step.TARGET, Step.CONFLICT, Step.MUTATING, None):
            return None
        applied = next(possible.applied(stored))
        told = predict(self.old, replace(sent, is_strict=bool(sent.is_strict)), stored, applied)
        if sent.way is Way.APPLY and self.recorded.step is Step.SCHEMA and told.step is Step.DONE:
            raise UndecidedError(NO_MANAGED_FIELDS)
        self.agreement = "differs"
        if told.step is not self.recorded.step and not (self.recorded.step is Step.AFTER and told.step is Step.DONE):
            shown = f"{told.code} {told.message}".strip()
            raise UndecidedError(f"the definition of that time does not explain the recorded answer: it says {shown}")
        after = answered(self.event)
        if self.event.succeeded:
            self.told = told.object
        is_shown = told.object is not None and after is not None and self.event.succeeded
        if is_shown and (differing := changes(after or {}, told.object or {})):
            first = differing[0].path
            raise UndecidedError(
                f"the definition of that time does not explain the recorded object: {first} differs, so something else changed it"
            )
        self.agreement = "agrees"
        return told

    def _unreached(self) -> Outcome:
        why = f"it was refused before the schema was asked: {self.event.code} {self.event.message}".strip()
        return Outcome(Decision.UNREACHED, why, evidence=self.grade, write=self.write)

    def _unknown(self, why: str) -> Outcome:
        return Outcome(
            Decision.UNKNOWN, why, recorded=self._record(), flip=Flip.UNKNOWN, write=self.write, agreement=self.agreement
        )

    def _record(self) -> str:
        """What the record says of this stage."""
        match self.recorded.step:
            case Step.DONE | Step.AFTER:
                return "admit"
            case None:
                return ""
        return "deny" if self.recorded.by_schema else ""

    def _of_answer(self, answer: Answer, is_whole_text: bool = True, hidden: tuple[str, ...] = ()) -> Outcome:
        step = self.recorded.step
        if step is None and not answer.is_refused:
            return self._unreached()
        if step is not None and not self.recorded.by_schema and step < answer.step and step is not Step.AFTER:
            return self._unreached()
        recorded = self._record()
        found: tuple[Change, ...] = ()
        # A request that another stage refused is refused still, whatever the schema says of it.
        has_failed = self.event.code >= 400
        if answer.is_refused:
            flip = Flip.STILL_DENIED if has_failed else Flip.NEWLY_DENIED if recorded == "admit" else None
            decision = Decision.DENY
        else:
            after = answered(self.event) or self.told
            found = tuple(changes(after, answer.object)) if after is not None and answer.object is not None else ()
            decision = Decision.CHANGE if found else Decision.ADMIT
            flip = Flip.CHANGED if found else Flip.SAME
            if has_failed:
                flip = Flip.NEWLY_ALLOWED if recorded == "deny" else Flip.STILL_DENIED
        return Outcome(
            decision,
            code=answer.code if answer.is_refused else 0,
            reason=answer.reason,
            message=answer.message,
            errors=answer.errors,
            warnings=answer.warnings,
            ratcheted=answer.ratcheted,
            changes=found,
            object=answer.object,
            evidence=self.grade,
            recorded=recorded,
            flip=flip,
            is_whole_text=is_whole_text,
            hidden=hidden,
            write=self.write,
            agreement=self.agreement,
        )


def _changed_for_ever(old: Definition, new: Definition) -> str | None:
    """The field of a definition that differs and must not (apiextensions-apiserver pkg/apis/apiextensions/validation)."""
    if old.scope != new.scope:
        return "spec.scope"
    return "spec.names.kind" if old.kind != new.kind else None


def _agree(one: Answer, other: Answer) -> bool:
    if (one.code, one.step, frozenset(one.errors)) != (other.code, other.step, frozenset(other.errors)):
        return False
    if one.object is None or other.object is None:
        return one.object is other.object
    return comparable(one.object) == comparable(other.object)
