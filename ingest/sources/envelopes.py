"""The envelopes of audit events: recognizes a file by its content, and yields the events in it.

    lines       one JSON value a line: an Event, an EventList body, or an array of either; as the log and webhook backends write
    documents   the same values printed over many lines, one after the other; as jq and editors leave them

An envelope is a JSON value with events inside. The table at the end of this file names those that are known; those of managed
clusters are in exports.py and gke.py.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..errors import InputError
from ..eventlist import NotAnEventListError, parse_event_list
from .exports import Expand, Found, joined, unstamped, unwrap_log_group, unwrap_record, unwrap_records
from .finder import ends_with_event, events_in_text, events_inside, is_other_log, may_hold_event, trailing_at
from .gke import unwrap_log_entry, unwrap_row
from .records import PREFIXED, form_of_record
from .unreadable import unreadable_form

RECORD_BYTES_MAX = 256 << 20  # one line; an event of an API server has at most some MiB
_HEAD_BYTES = 200
ZIP = b"PK\x03\x04"
_EVENT = b'{"kind":"Event",'  # how kube-apiserver begins each line
_ENDS = (b"}", b"}\r")  # a shipper may put a tail behind it
_BRACKETS = (b"{", b"[")
# A record separator (RFC 7464), the NUL of `jq --raw-output0`, and the commas of an array printed one item a line.
_AROUND = b" \t\r\n\x1e\0,"
_USER = b'"user":{'  # a flat row may begin as an event does
_AUDIT_ID = b'"auditID":"'
_TEXT_BODY = b'Object":"'  # a body as JSON in a text


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


def looks_complete(line: bytes) -> bool:
    """Whether a last line without a newline ends with complete JSON, rather than still being written."""
    last = _split(unstamped(line))[-1]
    if is_whole(last):
        return last[:1] in _BRACKETS  # the beginning of a number is also a number
    return ends_with_event(last)


def is_tar(head: bytes) -> bool:
    """Whether content begins with the header of a tar archive's first file, also one of before POSIX, by the header's checksum."""
    if head[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def is_archive(head: bytes) -> bool:
    """Whether content begins as a tar or zip archive does."""
    return is_tar(head) or head.startswith(ZIP)


def holds_event(value: bytes) -> bool:
    """Whether a value holds an audit event, or is a list for events."""
    found = expand(value)
    return bool(found.form and found.events) or any(map(_is_event, found.events)) or _is_event_list(value)


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


def expand(value: bytes, depth: int = 0) -> Found:
    """The events in one line or document, byte for byte; nothing in an empty line, and in a record of another log.

    A document that is not a known envelope is returned unchanged.
    """
    is_event = value.startswith(_EVENT) and value.endswith(_ENDS) and _USER in value and _AUDIT_ID in value
    is_event = is_event and _TEXT_BODY not in value
    if is_event and value.find(_EVENT, 1) < 0 and b"}{" not in value:
        return Found([value])
    value = value.strip(_AROUND)
    if not value:
        return Found([])
    if value[:1].isdigit():
        value = unstamped(value)
    start = value[:_HEAD_BYTES]
    for form, is_likely, unwrap in ENVELOPES:
        if is_likely(start) and (found := unwrap(value, expand)) is not None:
            return found._replace(form=found.form or form)
    parts = _split(value)
    return _found_in(value, depth) if len(parts) == 1 else joined(expand(part, depth) for part in parts)


def _found_in(value: bytes, depth: int) -> Found:
    if (found := events_inside(value, expand, depth)) is not None:
        return found if found.events == [value] else found._replace(form=found.form or form_of_record(value))
    if not is_whole(value) and (found := events_in_text(value, expand, depth)) is not None:
        return found._replace(form=found.form or PREFIXED)
    return Found([], 1) if is_other_log(value) else Found([value])


def is_whole(value: bytes) -> bool:
    """Whether bytes are one value of JSON."""
    try:
        _anything.decode(value)
    except RecursionError:
        return True  # too deeply nested to decode, but the JSON before that point is valid
    except ValueError:
        return False
    return True


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
            end = start = trailing_at(error)
            while start is not None and start < len(rest) and rest[start] in _AROUND:
                start += 1
            if start is None or start == len(rest) or rest[start] not in (value[0], ord("{")):
                break
            parts.append(bytes(rest[:end]))
            rest = rest[start:]
        else:
            break
    return [*parts, bytes(rest)]


def not_an_audit_log(path: str, data: bytes, damage: str = "") -> InputError:
    """The error for a file that holds no audit event, with a description of its content."""
    name, way = unreadable_form(data) or (what_is(data), "")
    found = f"{name} ({damage})" if damage else name
    return InputError(
        f"{path}: found {found}, wanted audit events",
        way or "give a kube-apiserver audit log, or an export or a container log that holds its events; --format names a form",
    )


def what_is(data: bytes) -> str:
    """A few words that describe the beginning of a file."""
    if not data.strip():
        return "nothing"
    if is_archive(data):
        return f"a {'tar' if is_tar(data) else 'zip'} archive, which can be read from a file alone"
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
        items = [bytes(item) for item in _values.decode(value)]
        # A column next to the one with the event, as query results list them.
        told = [item for item in items if may_hold_event(item)]
        return joined(map(expand, told or items))
    except (ValueError, RecursionError):
        return None


def _has(*names: bytes) -> Callable[[bytes], bool]:
    quoted = tuple(b'"%s"' % name for name in names)
    return lambda start: any(name in start for name in quoted)


# (its name, whether the first bytes of a value look like the envelope, the events inside, or None where the value is another one).
# Every other envelope needs no row: see finder.py.
ENVELOPES: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes, Expand], Found | None]], ...] = (
    ("EventList", _has(b"EventList", b"items"), _unwrap_event_list),
    ("", lambda start: start[:1] == b"[", _unwrap_array),
    ("CloudWatch Logs", _has(b"logEvents", b"messageType", b"events"), unwrap_log_group),
    ("AKS diagnostic records", _has(b"records"), unwrap_records),
    ("AKS diagnostic records", _has(b"category", b"resourceId", b"operationName", b"properties"), unwrap_record),
    ("GKE log entries", _has(b"insertId", b"logName", b"protoPayload", b"labels"), unwrap_log_entry),
    ("GKE rows of BigQuery", _has(b"protopayload_auditlog", b"logName", b"resource"), unwrap_row),
)
