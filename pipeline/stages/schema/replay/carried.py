"""Stored objects that no answer shows, carried forward from the bodies of their writes: the log is of level Request.

The definition of the time says what the API server made of each body. That holds only where the log has every write of the object
since it was last seen, in a known order: a write that crossed another, and a change that leaves no trace make the object unknown.
So does an apply, unless the log has every write since the object was created: its removals depend on the owners of fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, TypeAlias

from ....history.event import Event
from ....history.fitness import unfit_body
from ....history.options import delete_options, query_of
from ....history.patch import PatchError
from ....history.version import Form, ObjectKey, Version, WriteId
from ....history.webhook_changes import webhook_patches
from ....request import Grade, Known, Unknown
from ..writing import ObjectKind
from .applying import removed_between
from .ownership import Owners, applied_to, owners_after
from .predicting import Answer, predict, predict_scaled
from .sent import Sent, Way, sent_of
from .served import Served, UndecidedError
from .stored import Stored

Found: TypeAlias = "Known[Stored | None] | Unknown"
_ATTEMPT: Final = re.compile(r"^mutation(\.webhook\.admission\.k8s\.io/round_\d+_index_\d+)$")
# So many objects are kept; they can be carried again.
_KEPT_MAX: Final = 20_000
_CROSSED: Final = "it crossed another write of the object, and the audit level was Request"


class Carrier:
    """Carries the objects of one walk. What it found of a version is kept, because the next write builds on it."""

    def __init__(self, has_mutating_policies: Callable[[str], bool], definition_at: Callable[[Event], Served | Unknown]) -> None:
        self._has_mutating_policies = has_mutating_policies
        self._definition_at = definition_at
        self._known: dict[tuple[ObjectKey, WriteId, int], Found] = {}

    def after(self, key: ObjectKey, version: Version, served: Served, ground: Callable[[Version], Found], was_met: bool) -> Found:
        """The object after a version. `ground` reads a version with a body; `was_met`: a later request found the object."""
        chain: list[Version] = []
        step: Version | None = version
        while step is not None and _is_carried(step) and (key, step.write_id, id(served)) not in self._known:
            chain.append(step)
            step = None if _creates(step) else step.previous
        found = self._start(key, step, served, ground) if step is not None else _beginning(chain[-1])
        for place, each in reversed(list(enumerate(chain))):
            found = self._next(found, each, served, was_met or place > 0)
            if each.form is not Form.DISTURBED:
                if len(self._known) >= _KEPT_MAX:
                    self._known.clear()
                self._known[key, each.write_id, id(served)] = found
        return found

    def _start(self, key: ObjectKey, step: Version, served: Served, ground: Callable[[Version], Found]) -> Found:
        known = self._known.get((key, step.write_id, id(served)))
        return ground(step) if known is None else known

    def _next(self, before: Found, step: Version, served: Served, was_met: bool) -> Found:
        if isinstance(before, Unknown):
            return before
        if step.form is Form.DISTURBED:
            return _disturbed(before, step, was_met)
        assert step.sent is not None
        if step.previous is not None and step.previous.since > step.began:
            return Unknown(f"changed by {step.source}: {_CROSSED}")
        if step.sent.verb == "delete":
            return _deleted(before, step)
        if self._definition_at(step.sent) is not served:
            return Unknown(f"changed by {step.source}, and the definition was changed since")
        if self._has_mutating_policies(step.sent.cluster) or not _is_untouched(step.sent):
            return Unknown(f"changed by {step.source}, and perhaps by a mutating policy or webhook without a trace")
        return _written(before.value, step, step.sent, served)


def _is_carried(step: Version) -> bool:
    return step.form is Form.DISTURBED or (step.form is Form.OPAQUE and step.sent is not None)


def _creates(step: Version) -> bool:
    return step.sent is not None and (step.creates or step.sent.verb == "create")


def _beginning(first: Version) -> Found:
    """What there was before the first version of a chain."""
    return Known(None, first.source) if _creates(first) else Unknown(f"no body known before {first.source}")


def _disturbed(before: Known[Stored | None], step: Version, was_met: bool) -> Found:
    """A deletecollection removes an object without finalizers at once: a request that finds it later shows that it stayed."""
    if before.value is None:
        return before
    has_finalizers = bool((before.value.value.get("metadata") or {}).get("finalizers"))
    return before if was_met and not has_finalizers and not step.waits else Unknown(f"perhaps changed by {step.source}")


def _deleted(before: Known[Stored | None], step: Version) -> Found:
    assert step.sent is not None
    options = delete_options(query_of(step.sent.request_uri), None)
    stays = before.value is None or (before.value.value.get("metadata") or {}).get("finalizers")
    if stays or step.sent.request_raw is not None or options.get("propagationPolicy") in ("Foreground", "Orphan"):
        return Unknown(f"changed by {step.source}")
    return Known(None, step.source, Grade.INFERRED)


def _is_untouched(event: Event) -> bool:
    """Whether the record has every change of a webhook, and no value was redacted."""
    if event.flags:
        return False
    for name, value in event.annotations.items():
        if (found := _ATTEMPT.match(name)) and '"mutated":true' in value and f"patch{found[1]}" not in event.annotations:
            return False
    return True


def _written(before: Stored | None, step: Version, event: Event, served: Served) -> Found:
    """The object that a successful write left, as the definition of the time says."""
    sent = sent_of(event)
    sent = replace(sent, is_strict=bool(sent.is_strict))  # the write succeeded, so strict validation would have found nothing
    if (problem := _contradiction(before, event)) is not None:
        return Unknown(f"{problem}: {step.source}")
    try:
        patches = tuple(tuple(each) for each in webhook_patches(event.annotations))
        sent = replace(sent, webhook_patches=patches) if patches else sent
        met = None if before is None else with_tested_version(before, sent)
        told, owners = _told(served, sent, met)
    except (UndecidedError, PatchError) as problem:
        return Unknown(f"changed by {step.source}: {problem}")
    except (AttributeError, TypeError, KeyError, IndexError, ValueError):
        if not (unfit := unfit_body(event)):
            raise
        return Unknown(f"changed by {step.source}: {unfit}")
    if told.object is None or told.code != event.code:
        return Unknown(f"the definition of that time does not explain the answer to {step.source}")
    source = f"the bodies of the writes until {event.label}"
    value: dict[str, Any] = {**told.object, "metadata": {**told.object["metadata"]}}
    value["metadata"].pop("resourceVersion", None)  # only an answer would show the new one
    return Known(Stored(value, sent.version, source, True, event.audit_id, owners=owners), source, Grade.INFERRED)


def with_tested_version(stored: Stored, sent: Sent) -> Stored:
    """The object that a JSON patch met and that passed its first tests: a test tells the resourceVersion that no body shows."""
    metadata = stored.value.get("metadata") or {}
    if sent.way is not Way.JSON_PATCH or not isinstance(sent.body, list) or "resourceVersion" in metadata:
        return stored
    for each in takewhile(lambda each: isinstance(each, dict) and each.get("op") == "test", sent.body):
        if each.get("path") == "/metadata/resourceVersion":
            return replace(stored, value={**stored.value, "metadata": {**metadata, "resourceVersion": each.get("value")}})
    return stored


def _told(served: Served, sent: Sent, before: Stored | None) -> tuple[Answer, Owners | None]:
    """The answer to a write, with the whole object that it leaves and the owners of its fields. Raises UndecidedError."""
    kind = served.kind(sent.version)
    if kind is None or sent.body is None:
        return predict(served, sent, before), None
    old = None if before is None else served.read(before.value, before.version, kind, before.stored_as)
    if sent.subresource == "scale":
        told = _scaled(served, kind, sent, before)
    elif before is None or old is None or sent.way is not Way.APPLY:
        told = predict(served, sent, before)
    else:
        removed, _ = removed_between(sent, old, applied_to(before.owners, kind, sent, old), kind, kind)
        told = predict(served, sent, before, removed)
    if told.object is None:
        return told, None
    return told, owners_after(None if before is None else before.owners, kind, sent, old, told.object)


def _scaled(served: Served, kind: ObjectKind, sent: Sent, before: Stored | None) -> Answer:
    if kind.scale is None or before is None or sent.webhook_patches or sent.way is Way.APPLY:
        raise UndecidedError("a webhook changed the Scale" if sent.webhook_patches else "what the Scale changed is not known")
    return predict_scaled(served, kind, sent, before)


def _contradiction(before: Stored | None, event: Event) -> str | None:
    """How the metadata that an update sends, as its client had read it, contradicts the object; None if it does not."""
    if before is None or event.verb != "update" or not event.request_head.meta.resource_version:
        return None
    sent, known = event.request_head.meta, before.value.get("metadata") or {}
    if sent.uid and known.get("uid") and sent.uid != known["uid"]:
        return "it names an object of another uid"
    if sent.generation and known.get("generation") and sent.generation != known["generation"]:
        return "it met another generation of the object, so that the log lacks a write"
    return None
