"""What an API server with a given definition answers to one write, up to and with the schema stage.

Follows kubernetes/apiserver pkg/endpoints/handlers/{create,update,patch}.go, and apiextensions-apiserver
pkg/registry/customresource/etcd.go for scale. Everything that other stages decide is left to the record: see recorded.py.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from ....history.patch import PatchError, apply_json_patch, apply_merge_patch
from ....history.scale import ScalePaths as HistoryPaths
from ....history.scale import scale_from
from ..field_errors import FieldError
from ..pruning import set_defaults
from ..writing import ObjectKind, Operation, UndecodableError, Written, decode, write
from .applying import Applied, apply, typed_problem
from .sent import Sent, Way
from .served import Served, UndecidedError
from .stored import Stored, set_at

UNFIT: Final = "the server rejected our request due to an error in our request"
NOT_SERVED: Final = "404 page not found"


class Step(IntEnum):
    """Where the way of a write can end, in the order of the API server."""

    SERVED = 0
    DECODING = 1
    TARGET = 2  # The object is looked up. A conflict of versions is found after a patch was applied.
    PATCHING = 3
    CONFLICT = 4
    MUTATING = 5
    SCHEMA = 6
    AFTER = 7
    DONE = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `object` is the object that a success shows; `warnings` and `ratcheted` are errors that did not count."""

    code: int
    step: Step
    reason: str = ""
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()
    ratcheted: tuple[FieldError, ...] = ()
    object: dict[str, Any] | None = None
    dropped: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the schema stage, or decoding for it, refuses the write."""
        return self.step is not Step.DONE


def predict(served: Served, sent: Sent, stored: Stored | None, removed: Applied | None = None) -> Answer:
    """The answer to a write. `stored` is the object that it met; None for a create, and for an apply that creates.

    `removed` is what an apply did to the object under the schema of the time, if that is known. Raises UndecidedError.
    """
    kind = served.kind(sent.version)
    if kind is None or not serves(kind, sent.subresource):
        return Answer(404, Step.SERVED, message=NOT_SERVED)
    if sent.body is None:
        raise UndecidedError(sent.why_no_body)
    if sent.way is Way.CREATE:
        return _created(served, kind, sent)
    if sent.subresource == "scale":
        return _scaled(served, kind, sent, _needed(stored))
    if sent.way is Way.UPDATE:
        return _updated(served, kind, sent, stored)
    if sent.way is Way.APPLY:
        return _applied(served, kind, sent, stored, removed)
    return _patched(served, kind, sent, _needed(stored))


def _refuses(sent: Sent, unknown: tuple[str, ...]) -> bool:
    """Whether fields that the schema does not know refuse a write. Raises UndecidedError if this was not recorded."""
    if unknown and sent.is_strict is None:
        names = ", ".join(unknown)
        raise UndecidedError(f"the URI was not recorded, so the write may have asked for strict validation of {names}")
    return bool(unknown and sent.is_strict)


def serves(kind: ObjectKind, subresource: str) -> bool:
    """Whether a version has a subresource."""
    return {"status": kind.has_status, "scale": kind.scale is not None}.get(subresource, True)


def predict_decoding(served: Served, sent: Sent) -> Answer | None:
    """The refusal of an update whose body cannot be decoded; None if it can."""
    kind = served.kind(sent.version)
    if kind is None or sent.body is None or sent.way is not Way.UPDATE or sent.subresource == "scale":
        return None
    try:
        decoded = decode(kind, sent.body)
    except UndecodableError as problem:
        return _unreadable(kind, str(problem))
    return _unreadable(kind, strict_text(decoded.unknown), decoded.unknown) if _refuses(sent, decoded.unknown) else None


def predict_typed(served: Served, sent: Sent) -> Answer | None:
    """The refusal of an apply whose fields the schema does not declare; None if it declares all of them."""
    kind = served.kind(sent.version)
    if kind is None or sent.way is not Way.APPLY or not isinstance(sent.body, dict) or sent.subresource == "scale":
        return None
    text = typed_problem(kind, sent.body, _where(sent))
    return Answer(500, Step.PATCHING, message=text) if text else None


def _where(sent: Sent) -> str:
    return f"{sent.namespace}/{sent.name}"


def _needed(stored: Stored | None) -> Stored:
    if stored is None:
        raise UndecidedError("the stored object is not known")
    return stored


def _created(served: Served, kind: ObjectKind, sent: Sent) -> Answer:
    try:
        decoded = decode(kind, sent.body)
    except UndecodableError as problem:
        return _unreadable(kind, str(problem))
    if _refuses(sent, decoded.unknown):
        return _unreadable(kind, strict_text(decoded.unknown), decoded.unknown)
    written = write(kind, Operation.CREATE, _mutated(_placed(decoded.value, kind, sent), kind, sent))
    return _answer(served, kind, sent, written, 201, decoded.unknown)


def _updated(served: Served, kind: ObjectKind, sent: Sent, stored: Stored | None) -> Answer:
    try:
        decoded = decode(kind, sent.body)
    except UndecodableError as problem:
        return _unreadable(kind, str(problem))
    if _refuses(sent, decoded.unknown):
        return _unreadable(kind, strict_text(decoded.unknown), decoded.unknown)
    known = _needed(stored)
    old = served.read(known.value, known.version, kind, known.stored_as)
    return _replaced(served, kind, sent, old, decoded.value, decoded.unknown)


def _patched(served: Served, kind: ObjectKind, sent: Sent, stored: Stored) -> Answer:
    old = served.read(stored.value, stored.version, kind, stored.stored_as)
    try:
        if sent.way is Way.JSON_PATCH:
            new = apply_json_patch(old, sent.body)
        else:
            new = apply_merge_patch(copy.deepcopy(old), sent.body)
        if not isinstance(new, dict):
            raise PatchError("a patch must leave an object")
    except PatchError:
        return Answer(422, Step.PATCHING, "Invalid", UNFIT)
    try:
        decoded = decode(kind, new)
    except UndecodableError as problem:
        return Answer(422, Step.PATCHING, "Invalid", f' "" is invalid: patch: Invalid value: {problem}')
    if _refuses(sent, decoded.unknown):
        text = f' "" is invalid: patch: Invalid value: {strict_text(decoded.unknown)}'
        return Answer(422, Step.PATCHING, "Invalid", text, dropped=decoded.unknown)
    return _replaced(served, kind, sent, old, decoded.value, decoded.unknown)


def _applied(served: Served, kind: ObjectKind, sent: Sent, stored: Stored | None, removed: Applied | None) -> Answer:
    if not isinstance(sent.body, dict):
        raise UndecidedError("an apply that is not an object")
    old = None if stored is None else served.read(stored.value, stored.version, kind, stored.stored_as)
    if (problem := predict_typed(served, sent)) is not None:
        return problem
    new = apply(kind, sent.body, old, removed)
    if old is None:
        written = write(kind, Operation.CREATE, _mutated(_placed(new, kind, sent), kind, sent))
        return _answer(served, kind, sent, written, 201, ())
    return _replaced(served, kind, sent, old, new, ())


def _scaled(served: Served, kind: ObjectKind, sent: Sent, stored: Stored) -> Answer:
    found = predict_scaled(served, kind, sent, stored)
    return found if found.object is None else _with_object(found, scale_from(found.object, _paths(kind)))


def _paths(kind: ObjectKind) -> HistoryPaths:
    assert kind.scale is not None
    return HistoryPaths(kind.scale.spec_replicas, kind.scale.status_replicas, kind.scale.label_selector)


def predict_scaled(served: Served, kind: ObjectKind, sent: Sent, stored: Stored) -> Answer:
    """The answer to a write of `scale`, with the object that it leaves in place of the Scale. Raises UndecidedError."""
    assert kind.scale is not None
    old = served.read(stored.value, stored.version, kind, stored.stored_as)
    scale = scale_from(old, _paths(kind))
    if sent.way is Way.UPDATE:
        scale = sent.body
    else:
        try:
            patch = apply_json_patch if sent.way is Way.JSON_PATCH else apply_merge_patch
            scale = patch(scale, sent.body)
        except PatchError:
            return Answer(422, Step.PATCHING, "Invalid", UNFIT)
    replicas = (scale.get("spec") or {}).get("replicas", 0) if isinstance(scale, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise UndecidedError("the Scale has no number of replicas")
    value = copy.deepcopy(old)
    set_at(value, kind.scale.spec_replicas, replicas)
    return _answer(served, kind, sent, write(kind, Operation.UPDATE, value, old), 200, ())


def _replaced(
    served: Served, kind: ObjectKind, sent: Sent, old: dict[str, Any], new: dict[str, Any], dropped: tuple[str, ...]
) -> Answer:
    operation = Operation.STATUS if sent.subresource == "status" else Operation.UPDATE
    written = write(kind, operation, _mutated(_kept(_placed(new, kind, sent), old), kind, sent), old)
    return _answer(served, kind, sent, written, 200, dropped)


def _answer(served: Served, kind: ObjectKind, sent: Sent, written: Written, code: int, dropped: tuple[str, ...]) -> Answer:
    if written.undecided:
        raise UndecidedError("; ".join(written.undecided))
    if written.errors:
        return Answer(422, Step.SCHEMA, "Invalid", written.message(kind), written.errors, dropped=dropped)
    shown = served.answered(written.value, kind)
    if sent.way is Way.APPLY or sent.webhook_patches:
        shown = _without_unknown(shown, kind)
    return Answer(code, Step.DONE, "", "", (), written.warnings, written.ratcheted, shown, dropped)


def _without_unknown(value: dict[str, Any], kind: ObjectKind) -> dict[str, Any]:
    """An object as the answer shows it, where an apply or a webhook left fields that the schema does not know."""
    return decode(kind, value, is_stored=True).value


def _with_object(answer: Answer, value: dict[str, Any]) -> Answer:
    return Answer(answer.code, answer.step, warnings=answer.warnings, ratcheted=answer.ratcheted, object=value)


def _mutated(value: dict[str, Any], kind: ObjectKind, sent: Sent) -> dict[str, Any]:
    """An object after the recorded patches of mutating webhooks; each is followed by defaults, and nothing is pruned yet."""
    for operations in sent.webhook_patches:
        try:
            value = apply_json_patch(value, operations)
        except PatchError as problem:
            raise UndecidedError(f"a recorded patch of a webhook does not fit: {problem}") from None
        if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
            raise UndecidedError("a recorded patch of a webhook leaves no object")
        set_defaults(value, kind.schema)
    return value


def _placed(value: dict[str, Any], kind: ObjectKind, sent: Sent) -> dict[str, Any]:
    """An object with the namespace and name of its URL, which a body may leave out."""
    metadata = dict(value.get("metadata") or {})
    if kind.is_namespaced and not metadata.get("namespace"):
        metadata["namespace"] = sent.namespace
    if not metadata.get("name") and sent.name:
        metadata["name"] = sent.name
    return {**value, "metadata": metadata}


def _kept(value: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """An object with the metadata that an update cannot take away (kubernetes/apiserver pkg/registry/rest/update.go)."""
    metadata, before = dict(value["metadata"]), old.get("metadata") or {}
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in before and name not in metadata:
            metadata[name] = before[name]
    return {**value, "metadata": metadata}


def _unreadable(kind: ObjectKind, text: str, dropped: tuple[str, ...] = ()) -> Answer:
    message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {text}'
    return Answer(400, Step.DECODING, "BadRequest", message, dropped=dropped)


def strict_text(unknown: tuple[str, ...]) -> str:
    """The API server's words about fields that a schema does not know (apimachinery pkg/runtime/error.go)."""
    return "strict decoding error: " + ", ".join(f'unknown field "{each}"' for each in unknown)
