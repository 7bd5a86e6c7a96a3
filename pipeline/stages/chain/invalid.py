"""What the built-in validation says of an object that mutating policies changed: words that are known, and refusals that stand."""

from __future__ import annotations

import re
from typing import Final

from ...request import Object
from ..mutating.changes import changes
from ..mutating.verdicts import touch
from .answer import VALIDATION, Answer

# The fields that a refusal names.
_FIELD: Final = re.compile(
    r"(?:is invalid: |, |\[)\[?([A-Za-z][\w.-]*)[^\s:]*: (?:Invalid value|Required value|Forbidden|Not found|Unsupported|Dup|Too)"
)


def as_refused(recorded: Answer, before: Object, after: Object) -> Answer:
    """The recorded refusal by the validation, where the changes leave the fields that it names."""
    named = _FIELD.findall(recorded.message or "")
    changed = [each.path.partition("[")[0] for each in changes(before, after)]
    if not named or any(touch(path, field) for path in changed for field in named):
        return Answer(
            "unknown", step=VALIDATION, why="the validation refused the recorded object, and the change touches what it named"
        )
    return recorded
