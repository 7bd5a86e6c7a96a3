"""What the built-in validation says of an object that mutating policies changed: words that are known, and refusals that stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...request import AdmissionRequest, GroupVersionResource, Known, Object, Unknown
from ..mutating.changes import changes
from ..mutating.taken import Doubt
from ..mutating.verdicts import touch
from ..mutating.walk import Met
from .answer import VALIDATION, Answer, unknown
from .validation.checked import every_error
from .validation.rule import Refused, Written

_IN_PART: Final = "the server's words show the value, too, as its code has it, and may have another order"
# The fields that a refusal names.
_FIELD: Final = re.compile(
    r"(?:is invalid: |, |\[)\[?([A-Za-z][\w.-]*)[^\s:]*: (?:Invalid value|Required value|Forbidden|Not found|Unsupported|Dup|Too)"
)


def refused_by(met: Met, errors: Sequence[Refused]) -> Answer:
    """The refusal of the validation (apimachinery pkg/api/errors/errors.go, NewInvalid)."""
    why = "" if all(each.is_whole for each in errors) else _IN_PART
    return Answer("deny", 422, _message(met, list(dict.fromkeys(map(str, errors)))), VALIDATION, why, reason="Invalid")


def refused_again(
    met: Met, resource: GroupVersionResource, written: Written, recorded: Answer, doubts: Sequence[Doubt]
) -> Answer | None:
    """The answer to an object that the validation refused in the record, with the changes."""
    if _message(met, [str(each) for each in every_error(resource, written.before, written.old)]) == recorded.message:
        # The rules know all that is wrong with it.
        errors = every_error(resource, written.after, written.old)
        if errors:
            return refused_by(met, errors)
        return _doubtful(doubts) if doubts else None
    every = every_error(resource, written.after, written.old)
    errors = [each for each in every if str(each).partition("\n")[0] not in (recorded.message or "")]
    stands = as_refused(recorded, written.before, written.after)
    if not errors or stands.decision == "unknown":
        return _doubtful(doubts) if doubts and stands.decision != "unknown" else stands
    items = sorted([*_items(recorded.message or ""), *map(str, errors)], key=_rank)
    return Answer("deny", 422, _message(met, items), VALIDATION, _IN_PART, reason="Invalid")


def _rank(item: str) -> int:
    """The server looks at the metadata first; of a Service, an update looks at its addresses next."""
    return 0 if item.startswith("metadata.") else 1 if item.startswith("spec.clusterIPs") else 2


def _doubtful(doubts: Sequence[Doubt]) -> Answer:
    return unknown(VALIDATION, "; ".join(map(str, doubts[:3])))


def _items(message: str) -> list[str]:
    text = message.partition(" is invalid: ")[2]
    return [text[1:-1] if text.startswith("[") else text]


def _message(met: Met, texts: Sequence[str]) -> str:
    kind = met.kind.kind if not isinstance(met.kind, Unknown) else None
    if kind is None or not texts:
        return ""
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    whose = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return f'{whose} "{_name(met)}" is invalid: {shown}'


def _name(met: Met) -> str:
    """The name of the object; of a generated one that the record does not show, the end stays open."""
    if isinstance(met.name, Known) and met.name.value:
        return met.name.value
    value = (
        met.request.object.value if isinstance(met.request, AdmissionRequest) and isinstance(met.request.object, Known) else None
    )
    metadata = (value or {}).get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*****")


def as_refused(recorded: Answer, before: Object, after: Object) -> Answer:
    """The recorded refusal by the validation, where the changes leave the fields that it names."""
    named = _FIELD.findall(recorded.message or "")
    changed = [each.path.partition("[")[0] for each in changes(before, after)]
    if not named or any(touch(path, field) for path in changed for field in named):
        return Answer(
            "unknown", step=VALIDATION, why="the validation refused the recorded object, and the change touches what it named"
        )
    return recorded
