"""Values that redaction replaced inside of recorded objects: no question that depends on one has an answer.

Evidence from a record whose annotation `hindcast/redacted` names values says so in its source. There, a text with a placeholder may
stand for any value; a placeholder elsewhere is what a client wrote. The objects of a snapshot have no such annotation, so each
placeholder in them counts.
"""

from __future__ import annotations

from typing import Any

from ingest.redaction.event import TEXT_NOTES

# The end of the source of such evidence.
REDACTED_IN_PART = "redacted in part"
# Patches of webhooks are annotations, and become a part of objects.
_NOT_OF_VALUES = TEXT_NOTES - {"annotations"}
_PLACEHOLDERS = ("REDACTED", "blake2b:")


def hides_values(notes: str) -> bool:
    """Whether an event's note on its redaction says that values in objects may have been replaced."""
    return any(note not in _NOT_OF_VALUES for note in notes.split(","))


def hides_names(notes: str) -> bool:
    """Whether an event's note on its redaction says that a part of its URI, or the name of its object, was replaced."""
    return not {"requestURI", "objectRef"}.isdisjoint(notes.split(","))


def holds_placeholder(text: str) -> bool:
    """Whether a text is or holds the placeholder of a removed value."""
    return any(each in text for each in _PLACEHOLDERS)


def before_placeholder(text: str) -> str:
    """The part of a text before the first placeholder."""
    return min((text.partition(each)[0] for each in _PLACEHOLDERS), key=len)


def has_withheld(value: Any) -> bool:
    """Whether a value as JSON has a text with a placeholder."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if part.__class__ is str:
            if holds_placeholder(part):
                return True
        elif part.__class__ is dict:
            waiting += part.values()
        elif part.__class__ is list:
            waiting += part
    return False
