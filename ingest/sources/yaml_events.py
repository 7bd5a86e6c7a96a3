"""YAML with audit events: documents, a list, or an EventList, as `gcloud logging read` and editors print them.

A large list is read one item at a time. A value keeps its type as JSON would have it: a time stays a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from ..errors import InputError
from ..extent import refuse_excess
from .compressed import DamagedError
from .finder import may_hold_event

_NOTHING = rb"(?:---[ \t\r]*\n|#[^\n]*\n|%YAML[^\n]*\n|\s*\n)*"
_BEGINS = re.compile(_NOTHING + rb"(?:(?:- +)*['\"]?[A-Za-z_@][\w.@/-]*['\"]?:(?:[ \t\r]*\n| )|(?<=---\n)\{|- +['\"{\[])")
_ITEMS = b"items:"
_NAME_ALONE = re.compile(rb"[\w.@/-]+:\s*")
_OBJECT_ITEM = re.compile(rb" *- +['\"]?[\w.@/-]+['\"]?:(?:\s|$)")
_PART_BYTES_MAX = 256 << 20
# The last fields of an event that a server always writes, in Go's order and in that of the alphabet.
_ENDS = frozenset(("stageTimestamp", "verb"))
_encoder = msgspec.json.Encoder()


class _Loader(yaml.CSafeLoader):
    """YAML 1.1 without its times and its words for true and false, which JSON does not have."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":bool", ":value"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false|True|False|TRUE|FALSE"), list("tTfF"))


def is_yaml(probe: bytes) -> bool:
    """Whether a text is YAML that mentions audit events."""
    return _BEGINS.match(probe) is not None and may_hold_event(probe)


def yaml_lines(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Each document or item as JSON on one line.

    Raises DamagedError for text that is not YAML, or stands for too much, and for a cut one: the last line has no end, or the last
    event lacks final fields that all others have. A cut between two annotations leaves no trace.
    """
    end = _End()
    always = _ENDS
    for number, (part, is_last) in enumerate(_with_last(_parts(end.watch(blocks))), 1):
        try:
            refuse_excess(part, f"{name}, document {number}")
            value = yaml.load(part, Loader=_Loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise DamagedError(f"document {number} is not YAML: {' '.join(str(error).split())[:200]}") from error
        except InputError as error:
            raise DamagedError(error.message) from error
        event = value[-1] if isinstance(value, list) and value else value
        if isinstance(event, dict) and "auditID" in event and event.keys() & {"level", "apiVersion"}:
            if is_last and not always <= event.keys():
                raise DamagedError(f"document {number} breaks off: the file was cut, or is still being written")
            always &= event.keys()
        if value is not None:
            try:
                yield _encoder.encode(_named(value)) + b"\n"
            except (TypeError, ValueError, RecursionError) as error:
                raise DamagedError(f"document {number} has a value that JSON cannot hold: {error}") from error
    if end.last not in (b"", b"\n"):
        raise DamagedError("the last line has no end: perhaps the file was cut, or is still being written")


class _End:
    """The last byte of some blocks."""

    last = b""

    def watch(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.last = block[-1:] or self.last
            yield block


def _with_last(parts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each part, and whether it is the last one."""
    ahead: bytes | None = None
    for part in parts:
        if ahead is not None:
            yield ahead, False
        ahead = part
    if ahead is not None:
        yield ahead, True


def _named(value: Any) -> Any:
    """JSON's keys are texts."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _named(item) for key, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value


def _parts(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The documents, and the items of a list at the top or under `items:`, each as text of its own."""
    lines: list[bytes] = []
    size_bytes, dash, is_after = 0, b"", False
    for line in _lines(blocks):
        is_document = line.startswith(b"---") and not line.strip(b"- \t\r")
        if not dash and (not lines or _begins_list(lines[-1], line)) and line.lstrip(b" ").startswith(b"- "):
            dash = line[: len(line) - len(line.lstrip(b" "))] + b"- "
            before = b"\n".join(lines[:-1])
            if lines and lines[-1].rstrip() != _ITEMS and may_hold_event(before):
                yield before
            lines, size_bytes = [], 0  # the fields of the list before its items
        if (is_document or (dash and line.startswith(dash))) and lines:
            if not is_after or may_hold_event(b"\n".join(lines)):
                yield b"\n".join(lines)
            lines, size_bytes = [], 0
        if is_document:
            dash, is_after = b"", False
            continue
        if dash and lines and not line.startswith(dash[:-1].replace(b"-", b" ")) and line.strip():
            yield b"\n".join(lines)  # the last item; a field of the list comes after it
            lines, size_bytes, dash, is_after = [], 0, b"", True
        lines.append(line)
        size_bytes += len(line) + 1
        if size_bytes > _PART_BYTES_MAX:
            raise DamagedError(f"a YAML document of more than {_PART_BYTES_MAX >> 20} MiB cannot be read as one")
    if any(line.strip() for line in lines) and (not is_after or may_hold_event(b"\n".join(lines))):
        yield b"\n".join(lines)


def _begins_list(line: bytes, following: bytes) -> bool:
    """Whether a line names a list at the top of its document, and its first item is an object, which no list of an event has."""
    return line.rstrip() == _ITEMS or (_NAME_ALONE.fullmatch(line) is not None and _OBJECT_ITEM.match(following) is not None)


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest
