"""Hindcast's own notes on an event, and how they differ from what a stranger wrote.

An event is somebody else's data: its annotations may have any name, `hindcast/review` too. Hindcast's own notes (what redaction
removed, what a translation could not say, which reviews belong to the request) decide verdicts, so no input may write one.

In the lake they are the column `notes`, which nothing that arrives reaches. On its way there an event is a line of JSON, in the
spool for example. There a note is an annotation `hindcast/NAME`, and an annotation that arrived with such a name is escaped:
`hindcast/foreign/NAME`. Every door seals what it lets in (`sealed`), once; decoding takes both apart again (`parted`), so a
stranger's annotation stands in the lake as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

PREFIX = "hindcast/"
FOREIGN = f"{PREFIX}foreign/"
# What redaction removed: ingest/redaction/redact.py.
REDACTED = "redacted"
# The values that a log had in another form, or not at all: ingest/sources/gke.py.
TRANSLATED = "translated"
# The wordings of an answer that redaction shortened: ingest/server/wordings.py.
WORDING = "wording"
# The signer of a removed certificate request: ingest/redaction/event.py.
SIGNER = "signer"
# The uids of the reviews that an event has, with commas between them: ingest/sources/reviews.py.
REVIEW = "review"
# Of an event whose review, or whose entry of GKE, says so.
DRY_RUN = "dry-run"

# Any spelling of the prefix in JSON has these bytes, or one of its letters as an escape.
_PLAIN = PREFIX.rstrip("/").encode()
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_texts = msgspec.json.Decoder(dict[str, str] | None)
_encoder = msgspec.json.Encoder()
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Sealed(bytes):
    """A line whose annotations were escaped already, because Hindcast made it from foreign data and added notes of its own."""


def sealed(line: bytes) -> bytes:
    """The line with its foreign annotations escaped. Bytes that are no object with annotations are returned as they are: decoding
    refuses them, or finds no note.
    """
    if isinstance(line, Sealed) or (_PLAIN not in line and _ESCAPED_LETTER.search(line) is None):
        return line
    text = line if line.isascii() else line.decode("utf-8", "replace").encode()
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        fields = _fields.decode(text)
        annotations = _texts.decode(fields.get("annotations", b"null"))
    except (ValueError, RecursionError):
        return line
    if not annotations or not any(key.startswith(PREFIX) for key in annotations):
        return line
    return Sealed(_encoder.encode(fields | {"annotations": noted(annotations, {})}))


def noted(annotations: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a line: foreign ones, escaped where their names look like those of notes, and notes."""
    escaped = {FOREIGN + key.removeprefix(PREFIX) if key.startswith(PREFIX) else key: text for key, text in annotations.items()}
    return escaped | {PREFIX + name: text for name, text in notes.items()}


def parted(annotations: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The foreign annotations of a sealed line as they were sent, and the notes by name."""
    foreign: dict[str, str] = {}
    notes: dict[str, str] = {}
    for key, text in annotations.items():
        if key.startswith(FOREIGN):
            foreign[PREFIX + key.removeprefix(FOREIGN)] = text
        elif key.startswith(PREFIX):
            notes[key.removeprefix(PREFIX)] = text
        else:
            foreign[key] = text
    return foreign, notes
