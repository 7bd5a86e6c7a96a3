"""What the built-in validation says of an object that mutating policies changed: words that are known, and refusals that stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...request import AdmissionRequest, GroupVersionKind, Known, Object
from ..mutating.changes import changes
from ..mutating.verdicts import touch
from .answer import VALIDATION, Answer
from .validation.rule import Refused

# The fields that a refusal names.
_FIELD: Final = re.compile(
    r"(?:is invalid: |, |\[)\[?([A-Za-z][\w.-]*)[^\s:]*: (?:Invalid value|Required value|Forbidden|Not found|Unsupported|Dup|Too)"
)


def refused_by(request: AdmissionRequest, kind: GroupVersionKind, errors: Sequence[Refused]) -> Answer:
    """The refusal of the validation (apimachinery pkg/api/errors/errors.go, NewInvalid)."""
    value = request.object.value if isinstance(request.object, Known) else None
    name = request.name.value if isinstance(request.name, Known) else ""
    name = name or str(((value or {}).get("metadata") or {}).get("name") or "")
    texts = list(dict.fromkeys(map(str, errors)))
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    whose = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    why = "" if all(each.is_whole for each in errors) else "the server's words show the value, too, as its code has it"
    return Answer("deny", 422, f'{whose} "{name}" is invalid: {shown}', VALIDATION, why, reason="Invalid")


def as_refused(recorded: Answer, before: Object, after: Object) -> Answer:
    """The recorded refusal by the validation, where the changes leave the fields that it names."""
    named = _FIELD.findall(recorded.message or "")
    changed = [each.path.partition("[")[0] for each in changes(before, after)]
    if not named or any(touch(path, field) for path in changed for field in named):
        return Answer(
            "unknown", step=VALIDATION, why="the validation refused the recorded object, and the change touches what it named"
        )
    return recorded
