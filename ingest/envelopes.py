"""What a file of audit events is, told by its content, and the events in what it holds.

    lines       one JSON value a line: an Event, an EventList body, or an array of either; as the log and webhook backends write
    documents   the same values printed over many lines, one after the other; as jq and editors leave them

An envelope is a JSON value with events inside. The table at the end of this file names those that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from .errors import InputError
from .eventlist import NotAnEventListError, parse_event_list

RECORD_BYTES_MAX = 256 << 20  # one line; an event of an API server has at most some MiB
DOCUMENT_BYTES_MAX = 1 << 30  # one value over many lines, which has to be read whole
_PROBE_LINES = 100
_HEAD_BYTES = 200
_EVENT = b'{"kind":"Event",'  # how kube-apiserver begins each line
_CLOSES = {b"{": b"}", b"[": b"]"}

Layout = Literal["lines", "documents"]


class _Head(msgspec.Struct):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815  (the name on the wire)
    auditID: str | None = None  # noqa: N815
    stage: str | None = None


_head = msgspec.json.Decoder(_Head)
_anything = msgspec.json.Decoder(msgspec.Raw)
_values = msgspec.json.Decoder(list[msgspec.Raw])


class LineReader:
    """The lines of a stream without their newlines, a block's worth at a time.

    After the end, `rest` is what had no newline, and `is_overlong` says that it was cut short because no event is that long.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self.rest = b""
        self.is_overlong = False

    def __iter__(self) -> Iterator[list[bytes]]:
        parts: list[bytes] = []
        for block in self._blocks:
            parts.append(block)
            if b"\n" in block:
                lines = b"".join(parts).split(b"\n")
                parts = [lines.pop()]
                yield lines
            elif sum(map(len, parts)) > RECORD_BYTES_MAX:
                self.is_overlong = True
                break
        self.rest = b"".join(parts)


def documents(path: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The values of a stream of JSON documents: each ends with its bracket, alone at the start of a line.

    Raises InputError for a document of more than DOCUMENT_BYTES_MAX.
    """
    reader = LineReader(blocks)
    lines: list[bytes] = []
    size_bytes = 0
    for found in reader:
        for line in found:
            if not lines and not line.strip():
                continue
            lines.append(line)
            size_bytes += len(line) + 1
            if line.rstrip() == _CLOSES.get(lines[0].lstrip()[:1]):
                yield b"\n".join(lines)
                lines, size_bytes = [], 0
        if size_bytes > DOCUMENT_BYTES_MAX:
            limit = DOCUMENT_BYTES_MAX >> 20
            raise InputError(f"{path}: a JSON document of more than {limit} MiB cannot be read as one", "give one event a line")
    last = b"\n".join((*lines, reader.rest))
    if last.strip():
        yield last


def looks_complete(line: bytes) -> bool:
    """Whether a last line without a newline is a whole JSON value, and not one that is still being written."""
    try:
        _anything.decode(line)
    except RecursionError:
        return True  # too deep to decode, but the decoder came that far
    except ValueError:
        return False
    return True


def layout(probe: bytes) -> Layout | None:
    """How the events of a file are laid out, by its beginning; None where it holds none.

    One event among the first lines is enough, so that the others are damage and not a mistake.
    """
    start = probe.lstrip()
    first = start.split(b"\n", 1)[0].rstrip()
    # The first line of a value over many lines ends where another value has to follow.
    begins_document = first[:1] in (b"{", b"[") and first[-1:] in (b"{", b"[", b",", b":")
    if not begins_document:
        return "lines" if any(_is_audit(line) for line in probe.split(b"\n", _PROBE_LINES)[:_PROBE_LINES]) else None
    # The first document may be longer than the probe, so its names have to do.
    return "documents" if b'"EventList"' in probe or (b'"auditID"' in probe and b'"stageTimestamp"' in probe) else None


def _is_audit(line: bytes) -> bool:
    try:
        if line[:1] == b"[":
            return any(_is_audit(bytes(value)) for value in _values.decode(line)[:1])
        head = _head.decode(line)
    except (ValueError, RecursionError):
        return False
    is_list = head.kind == "EventList" and (head.apiVersion or "").startswith("audit.k8s.io/")
    return is_list or (head.auditID is not None and head.stage is not None)


def expand(value: bytes) -> list[bytes]:
    """The events in one JSON value, byte for byte; nothing in an empty line. A value of no known envelope stands for itself."""
    if value.startswith(_EVENT):
        return [value]
    if not value or value.isspace():
        return []
    start = value[:_HEAD_BYTES]
    for is_likely, unwrap in ENVELOPES:
        if is_likely(start) and (found := unwrap(value)) is not None:
            return found
    return [value]


def not_an_audit_log(path: str, data: bytes, damage: str = "") -> InputError:
    """The error for a file that holds no audit event, saying what it holds."""
    found = f"{what_is(data)} ({damage})" if damage else what_is(data)
    return InputError(
        f"{path}: found {found}, wanted audit events",
        "give a kube-apiserver audit log (one JSON Event a line) or an EventList of audit.k8s.io",
    )


def what_is(data: bytes) -> str:
    """A few words on what the beginning of a file is."""
    if not data.strip():
        return "nothing"
    if b"\0" in data[:1000]:
        return "binary data"
    if data.lstrip()[:1] not in (b"{", b"["):
        first = data.lstrip()[:40].decode("utf-8", "replace").splitlines()[0]
        return f"text that is not JSON ({first!r})"
    for value in (data.lstrip().split(b"\n", 1)[0], data):
        try:
            head = _head.decode(value)
        except (ValueError, RecursionError):
            continue
        return f"{head.kind or 'JSON'} of {head.apiVersion or 'no apiVersion'}"
    return "JSON that does not decode"


def _unwrap_event_list(value: bytes) -> list[bytes] | None:
    try:
        found = parse_event_list(value)
    except NotAnEventListError:
        return None
    return [*found.lines, *(bad.raw for bad in found.bad)]


def _unwrap_array(value: bytes) -> list[bytes] | None:
    try:
        return [event for item in _values.decode(value) for event in expand(bytes(item))]
    except (ValueError, RecursionError):
        return None


# (whether the first bytes of a value look like the envelope, the events inside or None where it is another value after all).
# Exports of managed clusters, which wrap each event in a log entry of the provider, are further rows of this table.
ENVELOPES: tuple[tuple[Callable[[bytes], bool], Callable[[bytes], list[bytes] | None]], ...] = (
    (lambda start: b'"EventList"' in start or b'"items"' in start, _unwrap_event_list),
    (lambda start: start.lstrip()[:1] == b"[", _unwrap_array),
)
