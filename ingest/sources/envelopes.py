"""The envelopes of audit events: recognizes a file by its content, and yields the events in it.

    lines       one JSON value a line: an Event, an EventList body, or an array of either; as the log and webhook backends write
    documents   the same values printed over many lines, one after the other; as jq and editors leave them

An envelope is a JSON value with events inside. The table at the end of this file names those that are known; those of managed
clusters are in exports.py and gke.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from ..errors import InputError
from ..eventlist import NotAnEventListError, parse_event_list
from .exports import Expand, Found, joined, unstamped, unwrap_log_group, unwrap_record, unwrap_records
from .gke import unwrap_log_entry

RECORD_BYTES_MAX = 256 << 20  # one line; an event of an API server has at most some MiB
DOCUMENT_BYTES_MAX = 1 << 30  # one value over many lines, which has to be read whole
_PROBE_LINES = 100
_HEAD_BYTES = 200
_EVENT = b'{"kind":"Event",'  # how kube-apiserver begins each line
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_DOCUMENT_NAMES = ((b'"EventList"',), (b"auditID", b"stageTimestamp"), (b'"protoPayload"', b'"k8s.io"'))
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

    After the end, `rest` holds the bytes without a newline. `is_overlong` says that they were cut short, because no event is that
    long.
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

    Raises InputError for a document larger than DOCUMENT_BYTES_MAX.
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
    """Whether a last line without a newline is complete JSON, rather than still being written."""
    last = _split(unstamped(line))[-1]
    try:
        _anything.decode(last)
    except RecursionError:
        return True  # too deeply nested to decode, but the JSON before that point is valid
    except ValueError:
        return False
    return last[:1] in _CLOSES  # the beginning of a number is also a number


def is_tar(head: bytes) -> bool:
    """Whether content begins with the header of a tar archive's first file; POSIX and GNU archives have the same magic number."""
    return head[257:262] == b"ustar"


def layout(probe: bytes) -> Layout | None:
    """How the events of a file are laid out, by its beginning; None where it holds none.

    One event among the first lines is enough: the other lines then count as damage, and the file as an audit log.
    """
    if is_tar(probe):
        return None  # its first line would hide the first event of each file
    start = probe.lstrip()
    first = start.split(b"\n", 1)[0].rstrip()
    # The first line begins a value over many lines if another value must follow where the line ends.
    begins_document = first[:1] in (b"{", b"[") and first[-1:] in (b"{", b"[", b",", b":")
    if not begins_document:
        return "lines" if any(_is_audit(line) for line in probe.split(b"\n", _PROBE_LINES)[:_PROBE_LINES]) else None
    # The first document may be longer than the probe, so its field names decide; in an export they may be inside a string.
    return "documents" if any(all(name in probe for name in names) for names in _DOCUMENT_NAMES) else None


def _is_audit(line: bytes) -> bool:
    found = expand(line)
    return any(map(_is_event, found.events)) or _is_event_list(line)


def _is_event(value: bytes) -> bool:
    try:
        head = _head.decode(value)
    except (ValueError, RecursionError):
        return False
    return head.auditID is not None and head.stage is not None


def _is_event_list(value: bytes) -> bool:
    """Also a list without items, which an API server may have written in a quiet hour."""
    try:
        head = _head.decode(value)
    except (ValueError, RecursionError):
        return False
    return head.kind == "EventList" and (head.apiVersion or "").startswith("audit.k8s.io/")


def expand(value: bytes) -> Found:
    """The events in one line or document, byte for byte; nothing in an empty line.

    A document that is not a known envelope is returned unchanged.
    """
    if value.startswith(_EVENT) and value.find(_EVENT, 1) < 0 and b"}{" not in value:
        return Found([value])
    if not value or value.isspace():
        return Found([])
    if value[:1].isdigit():
        value = unstamped(value)
    start = value[:_HEAD_BYTES]
    for is_likely, unwrap in ENVELOPES:
        if is_likely(start) and (found := unwrap(value, expand)) is not None:
            return found
    parts = _split(value)
    return Found([value]) if len(parts) == 1 else joined(map(expand, parts))


def _split(value: bytes) -> list[bytes]:
    """The values of a line that has several without a newline between them, as Firehose writes its objects."""
    parts: list[bytes] = []
    rest = memoryview(value)
    while rest:
        try:
            _anything.decode(rest)
        except RecursionError:
            break
        except ValueError as error:
            # The one error that says where the next value begins, counted from 1.
            match = _TRAILING.search(str(error))
            if match is None or rest[int(match[1]) - 1] != ord("{"):
                break
            parts.append(bytes(rest[: int(match[1]) - 1]))
            rest = rest[int(match[1]) - 1 :]
        else:
            break
    return [*parts, bytes(rest)]


def not_an_audit_log(path: str, data: bytes, damage: str = "") -> InputError:
    """The error for a file that holds no audit event, with a description of its content."""
    found = f"{what_is(data)} ({damage})" if damage else what_is(data)
    return InputError(
        f"{path}: found {found}, wanted audit events",
        "give a kube-apiserver audit log (one JSON Event a line), an EventList, or an export of EKS, GKE or AKS",
    )


def what_is(data: bytes) -> str:
    """A few words that describe the beginning of a file."""
    if not data.strip():
        return "nothing"
    if is_tar(data):
        return "a tar archive, which can be read from a file alone"
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


def _unwrap_event_list(value: bytes, expand: Expand) -> Found | None:
    try:
        found = parse_event_list(value)
    except NotAnEventListError:
        return None
    return Found([*found.lines, *(bad.raw for bad in found.bad)])


def _unwrap_array(value: bytes, expand: Expand) -> Found | None:
    try:
        return joined(expand(bytes(item)) for item in _values.decode(value))
    except (ValueError, RecursionError):
        return None


def _has(*names: bytes) -> Callable[[bytes], bool]:
    quoted = tuple(b'"%s"' % name for name in names)
    return lambda start: any(name in start for name in quoted)


# (whether the first bytes of a value look like the envelope, the events inside, or None where the value is not such an envelope).
ENVELOPES: tuple[tuple[Callable[[bytes], bool], Callable[[bytes, Expand], Found | None]], ...] = (
    (_has(b"EventList", b"items"), _unwrap_event_list),
    (lambda start: start.lstrip()[:1] == b"[", _unwrap_array),
    (_has(b"logEvents", b"messageType", b"events"), unwrap_log_group),
    (_has(b"records"), unwrap_records),
    (_has(b"category", b"resourceId", b"operationName", b"properties"), unwrap_record),
    (_has(b"insertId", b"logName", b"protoPayload", b"labels"), unwrap_log_entry),
)
