"""What a file of audit events is, told by its content: JSON lines of Events, EventList bodies, or one pretty-printed EventList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from .errors import InputError
from .eventlist import NotAnEventListError, parse_event_list

# A file that is one JSON document has to be read whole; lines are read one by one.
DOCUMENT_BYTES_MAX = 1 << 30
_PROBE_LINES = 20


class _Head(msgspec.Struct):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815  (the name on the wire)
    auditID: str | None = None  # noqa: N815


_head = msgspec.json.Decoder(_Head)
_anything = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Record:
    """One raw line or event: its number, and the decompressed bytes up to its end. `whole` is false without an ending newline."""

    raw: bytes
    number: int
    end: int
    whole: bool = True


def lines(blocks: Iterable[bytes], offset: int = 0, number: int = 0) -> Iterator[Record]:
    """The lines of a stream that begins at `offset` bytes and after line `number`, without their newlines."""
    rest = b""
    for block in blocks:
        pieces = (rest + block).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            offset += len(piece) + 1
            number += 1
            yield Record(piece, number, offset)
    if rest:
        yield Record(rest, number + 1, offset + len(rest), whole=False)


def looks_complete(line: bytes) -> bool:
    """Whether a last line without a newline is a whole JSON value, and not one that is still being written."""
    try:
        _anything.decode(line)
    except RecursionError:
        return True  # too deep to decode, but the decoder came that far
    except ValueError:
        return False
    return True


def is_audit_log(probe: list[bytes]) -> bool:
    """Whether one of the first lines is an audit event or an EventList, so that the others are damage and not a mistake."""
    return any(_is_event_or_list(line) for line in probe[:_PROBE_LINES])


def _is_event_or_list(line: bytes) -> bool:
    try:
        head = _head.decode(line)
    except (ValueError, RecursionError):
        return False
    return head.auditID is not None or (head.kind == "EventList" and (head.apiVersion or "").startswith("audit.k8s.io/"))


def expand(line: bytes) -> list[bytes]:
    """The events of one line: itself, or the items of an EventList body; nothing for an empty line."""
    if b'"EventList"' not in line[:200]:
        return [line] if line.strip() else []
    try:
        found = parse_event_list(line)
    except NotAnEventListError:
        return [line]
    return [*found.lines, *(bad.raw for bad in found.bad)]


def document(path: str, data: bytes) -> list[bytes]:
    """The events of a file that is one EventList over many lines. Raises InputError when it is something else."""
    try:
        found = parse_event_list(data)
    except NotAnEventListError:
        raise InputError(f"{path}: found {what_is(data)}, wanted audit events", _WANTED) from None
    return [*found.lines, *(bad.raw for bad in found.bad)]


_WANTED = "give a kube-apiserver audit log (one JSON Event a line) or an EventList of audit.k8s.io"


def not_an_audit_log(path: str, data: bytes, damage: str = "") -> InputError:
    """The error for a file that holds no audit event, saying what it holds."""
    found = f"{what_is(data)} ({damage})" if damage else what_is(data)
    return InputError(f"{path}: found {found}, wanted audit events", _WANTED)


def what_is(data: bytes) -> str:
    """A few words on what some bytes are."""
    if not data.strip():
        return "nothing"
    if b"\0" in data[:1000]:
        return "binary data"
    try:
        head = _head.decode(data)
    except (ValueError, RecursionError):
        first = data.lstrip()[:40].decode("utf-8", "replace").splitlines()[0]
        return f"text that is not JSON ({first!r})" if data.lstrip()[:1] not in b"{[" else "JSON that does not decode"
    return f"{head.kind or 'JSON'} of {head.apiVersion or 'no apiVersion'}"
