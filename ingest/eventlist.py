"""An EventList as the audit webhook posts it, taken apart into raw events without parsing them.

An API server builds the list from bodies that it did not check. One patch that no decoder accepts, or one that nests too deep,
makes the whole list undecodable. Then this module splits the list by its brackets alone, so that the other events are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from .errors import InputError

# v1beta1 has the same shape; API servers before 1.24 can be configured to send it.
API_VERSIONS = ("audit.k8s.io/v1", "audit.k8s.io/v1beta1")


class NotAnEventListError(InputError):
    """The body is not an EventList of audit.k8s.io; no part of it can be stored as an event."""


class TooMuchError(InputError):
    """Taking the list apart would cost more than any API server's list does; no part of it is kept."""


@dataclass(frozen=True, slots=True)
class BadItem:
    """One item of a list that cannot be an event: its bytes as received, and the reason."""

    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class EventList:
    """The items of one list in their order: `lines` are JSON objects without newlines, `bad` is everything else."""

    lines: list[bytes]
    bad: list[BadItem]


class _Envelope(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815  (the name on the wire)
    items: list[msgspec.Raw] | None = None


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_raw_decoder = msgspec.json.Decoder(msgspec.Raw)

# Matches up to a bracket, or to a quote that begins a string without an end. Strings are skipped whole, so that brackets inside
# them do not count. It matches at any position, so a body is scanned once. It stops after a fixed number of strings, because no
# other thread runs in this process meanwhile.
_STRING = rb'"(?:[^"\\]++|(?:\\.)++)*+"'
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|%s){0,5000}+(?:([\[\]{}])|(?!%s)(")|)' % (_STRING, _STRING), re.DOTALL)
_TO_COMMA = re.compile(rb'(?:[^",]++|%s){0,5000}+(,)?+' % _STRING, re.DOTALL)
_BEFORE_ITEMS = re.compile(rb'(?<!\\)"items"\s*+:\s*+\Z')
_CLOSES = {b"}": ord("{"), b"]": ord("[")}
# A hundred times the depth that Go's encoding/json reads, so no API server sends it. It limits the cost of a hostile body.
_DEPTH_MAX = 1_000_000
# Recorded lists have a bracket every 38 bytes, so this is a list of 150 MB; finding them takes three seconds.
_BRACKETS_MAX = 4_000_000
# A decoded item costs a hundred bytes. In recorded lists a comma comes every 38 bytes. A large body that is mostly commas may be
# millions of items, so commas are counted before the body is decoded.
_LARGE_BYTES = 2_000_000
_BYTES_A_COMMA_MIN = 16


def parse_event_list(body: bytes | bytearray, items_max: int | None = None) -> EventList:
    """Take a POST body apart into raw events; an item that is not a JSON object goes to quarantine with the reason.

    Cost: about 1 ms for 400 events in 1.5 MB, about 30 ms for each megabyte of a list with a broken item. Without `items_max` any
    list is taken apart, at any cost. Raises NotAnEventListError, and TooMuchError beyond the limits.
    """
    if items_max is not None and len(body) > _LARGE_BYTES and body.count(b",") > len(body) // _BYTES_A_COMMA_MIN:
        return _salvage(body, items_max)
    try:
        envelope = _envelope_decoder.decode(body)
    except (ValueError, RecursionError) as error:
        return _salvage(body, items_max, error)
    _check_type(envelope.kind, envelope.apiVersion)
    items = envelope.items or []
    _check_count(len(items), items_max)
    # The only newline in an API server's body is the last byte.
    if body.find(b"\n", 0, len(body) - 1) >= 0:
        return _sorted_out([bytes(item) for item in items])
    return _judge([bytes(item) for item in items])


def _check_count(items: int, items_max: int | None) -> None:
    if items_max is not None and items > items_max:
        raise TooMuchError(f"the list has more than {items_max} items", "set a smaller --audit-webhook-batch-max-size")


def _check_type(kind: str, api_version: str) -> None:
    if kind != "EventList" or api_version not in API_VERSIONS:
        raise NotAnEventListError(
            f"the body is kind {kind!r} of {api_version!r}, not an EventList of {' or '.join(API_VERSIONS)}",
            "point --audit-webhook-config-file here; send log files with `hindcast ingest`",
        )


def _judge(items: list[bytes]) -> EventList:
    """Tell objects from other values; the items are valid JSON and have no newlines."""
    if all(item[:1] == b"{" for item in items):
        return EventList(items, [])
    return _sorted_out(items)


def _sorted_out(items: list[bytes]) -> EventList:
    lines: list[bytes] = []
    bad: list[BadItem] = []
    for item in items:
        reason = _fault(item)
        if reason is None:
            # JSON allows a raw newline only between tokens, so a space in its place changes no value.
            lines.append(item.replace(b"\n", b" "))
        else:
            bad.append(BadItem(item, reason))
    return EventList(lines, bad)


def _fault(item: bytes) -> str | None:
    """Why an item cannot be an event, or None."""
    if item[:1] != b"{":
        return "an event must be a JSON object"
    try:
        _raw_decoder.decode(item)
    except RecursionError:
        return "the event is nested too deep to decode"
    except ValueError as error:
        return str(error)
    return None


def _salvage(body: bytes | bytearray, items_max: int | None, cause: Exception | None = None) -> EventList:
    """Split a list by its brackets alone. Raises NotAnEventListError when the brackets do not match either."""
    split = _split_items(body, items_max)
    if split is None:
        raise _not_a_list(cause or "its brackets do not agree") from cause
    items, rest = split
    try:
        envelope = _envelope_decoder.decode(rest)
    except (ValueError, RecursionError) as error:
        raise _not_a_list(error) from error
    _check_type(envelope.kind, envelope.apiVersion)
    return _sorted_out(items)


def _not_a_list(cause: Exception | str) -> NotAnEventListError:
    return NotAnEventListError(f"the body is not a JSON EventList: {cause}", "only an API server's audit webhook posts here")


def _split_items(body: bytes | bytearray, items_max: int | None) -> tuple[list[bytes], bytes | bytearray] | None:
    """The items of the top-level `items` array, and the body with that array emptied; None without such an array."""
    stack = bytearray()
    items: list[bytes] = []
    array_start = array_end = item_start = -1
    gap_start = 0  # behind the last bracket
    for count, match in enumerate(_TO_BRACKET.finditer(body)):
        bracket, at = match[1], match.start(1)
        if match[2]:
            return None
        if items_max is not None and count > _BRACKETS_MAX:
            raise TooMuchError(f"the list does not decode and has more than {_BRACKETS_MAX} brackets", "send smaller batches")
        if not bracket:
            continue
        in_items = array_start >= 0 > array_end
        if in_items and len(stack) == 2:
            for comma in _commas(body, gap_start, at):
                items.append(bytes(body[item_start:comma]).strip())
                item_start = comma + 1
                _check_count(len(items), items_max)
        if bracket not in _CLOSES:
            if len(stack) == _DEPTH_MAX or (bracket == b"[" and not stack):
                return None
            stack += bracket
            if stack == b"{[" and array_start < 0 and _BEFORE_ITEMS.search(body, gap_start, at):
                array_start = item_start = at + 1
        else:
            if not stack or stack.pop() != _CLOSES[bracket]:
                return None
            if in_items and len(stack) == 1:
                items.append(bytes(body[item_start:at]).strip())
                array_end = at
        gap_start = at + 1
    _check_count(len(items), items_max)
    if array_end < 0 or stack:
        return None
    return [] if items == [b""] else items, body[:array_start] + body[array_end:]


def _commas(body: bytes | bytearray, start: int, end: int) -> Iterator[int]:
    """The positions of commas in a stretch without brackets."""
    return (match.start(1) for match in _TO_COMMA.finditer(body, start, end) if match[1])
