"""Logs of containers and of journald, as nodes keep them: each record's text, put together where the runtime cut it.

CRI      `TIME stdout P|F TEXT`; P marks a part (kubernetes/cri-api, "LogFormat"; containerd cuts at 16 KiB)
Docker   {"log":"TEXT\\n","stream":"stdout","time":"..."}; a text without a newline goes on in the next record. Shippers that keep
         such records add `logtag` (Fluent Bit, P or F) or `partial_message` (Docker's own drivers)
journal  `journalctl -o export`: fields on lines of their own, and those with newlines as NAME, eight bytes of length, bytes
         (systemd, "Journal Export Formats")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

CRI = re.compile(rb"\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([PF])(?::\S+)? ")
_CRI_EMPTY = re.compile(rb"\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([PF])(?::\S+)?$")
_DOCKER_FIELDS = frozenset(("log", "stream", "time", "attrs"))
_PART_MARKS = frozenset(("logtag", "partial_message"))
JOURNAL = re.compile(rb"__CURSOR=|__REALTIME_TIMESTAMP=")


class _Docker(msgspec.Struct):
    log: str
    stream: str = ""
    logtag: str = ""
    partial_message: str = ""
    partial_last: str = ""
    partial_id: str = ""


_docker = msgspec.json.Decoder(_Docker)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything = msgspec.json.Decoder(msgspec.Raw)
# (stream, text, whether the text ends here), or None for a line of another kind.
_Part = tuple[bytes, bytes, bool] | None


def is_docker(line: bytes) -> bool:
    """Whether a line is a record of Docker's, or a shipper's with a mark of its parts."""
    try:
        names = _fields.decode(line).keys()
    except (ValueError, RecursionError):
        return False
    return {"log", "stream"} <= names and (names <= _DOCKER_FIELDS or not names.isdisjoint(_PART_MARKS))


def cri_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The texts of a CRI log, one a line."""
    return _whole(blocks, _cri_part)


def docker_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The texts of Docker's `json-file`, one a line."""
    return _whole(blocks, _docker_part)


def _cri_part(line: bytes) -> _Part:
    match = CRI.match(line) or _CRI_EMPTY.match(line)
    return (match[1], line[match.end() :], match[2] == b"F") if match else None


def _docker_part(line: bytes) -> _Part:
    try:
        record = _docker.decode(line)
    except (ValueError, RecursionError):
        return None
    text = record.log.encode("utf-8", "replace")
    if record.logtag or record.partial_message:
        ends = record.logtag == "F" or record.partial_last == "true"
    else:
        ends = text.endswith(b"\n") or _is_whole(text)
    return (record.stream + record.partial_id).encode(), text.removesuffix(b"\n"), ends


def _is_whole(text: bytes) -> bool:
    """Whether a text without a newline is JSON as it is: some shippers take the newline away."""
    if text[:1] != b"{" or text[-1:] != b"}":
        return False
    try:
        _anything.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _whole(blocks: Iterable[bytes], part_of: Callable[[bytes], _Part]) -> Iterator[bytes]:
    """Whole texts, a block of lines at a time. A part whose rest is not there yet stays without a newline at the end."""
    pending: dict[bytes, list[bytes]] = {}
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        found: list[bytes] = []
        for line in lines:
            if (part := part_of(line.rstrip(b"\r"))) is None:
                found.append(line)
                continue
            stream, text, ends = part
            pending.setdefault(stream, []).append(text)
            if ends:
                found.append(b"".join(pending.pop(stream)).replace(b"\n", b" "))
        if found:
            yield b"\n".join(found) + b"\n"
    last = part_of(rest) if rest else None
    if last is not None:
        pending.setdefault(last[0], []).append(last[1])
    left = [b"".join(parts) for parts in pending.values()]
    if left or (rest and last is None):
        yield b"\n".join([*left, *([rest] if rest and last is None else [])])


def journal_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The MESSAGE of each journal entry, one a line."""
    data = b""
    for block in blocks:
        data += block
        found, used = _messages(data, is_end=False)
        data = data[used:]
        if found:
            yield b"".join(message.replace(b"\n", b" ") + b"\n" for message in found)
    found, _ = _messages(data, is_end=True)
    if found:
        yield b"".join(message.replace(b"\n", b" ") + b"\n" for message in found)


def _messages(data: bytes, *, is_end: bool) -> tuple[list[bytes], int]:
    """The messages of the whole fields at the beginning of `data`, and the number of bytes of those fields."""
    found: list[bytes] = []
    at = 0
    while (end := data.find(b"\n", at)) >= 0 or (is_end and at < len(data)):
        end = len(data) if end < 0 else end
        field = data[at:end]
        if not field or b"=" in field:
            found += [field.removeprefix(b"MESSAGE=")] if field.startswith(b"MESSAGE=") else []
            at = end + 1
            continue
        # The name of a binary field alone; the length of its value follows, and the value.
        start = end + 9
        size = int.from_bytes(data[end + 1 : start], "little")
        if start + size + 1 > len(data) and not is_end:
            break
        if field == b"MESSAGE":
            found.append(data[start : start + size])
        at = start + size + 1
    return found, min(at, len(data))
