"""The end of a page, as a text that a caller sends back to get the next page.

It holds the keys of the last row, and how many rows with the same keys were already given. So new rows elsewhere never shift a
page, and equal rows are neither lost nor repeated. It is opaque but not secret: a caller who changes it gets other rows that they
may read anyway.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ingest.errors import InputError

Key = str | int | datetime
SKIP_MAX = 1_000_000
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The keys of the last row given (empty if only rows are counted), and how many rows of these keys came before the end."""

    keys: tuple[Key, ...]
    skip: int


def cursor_text(question: str, cursor: Cursor) -> str:
    """The cursor as text, for one question only: the name of a view or another distinguishing text."""
    keys = [{"ts": key.isoformat()} if isinstance(key, datetime) else key for key in cursor.keys]
    return base64.urlsafe_b64encode(json.dumps([question, keys, cursor.skip]).encode()).decode().rstrip("=")


def parse_cursor(text: str | None, question: str, kinds: Sequence[type[Key]]) -> Cursor | None:
    """Read what `cursor_text` wrote; None is the beginning. Raises InputError for any other text, also for the cursor of another
    question."""
    if text is None:
        return None
    try:
        padded = text + "=" * (-len(text) % 4)
        asked, keys, skip = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        found = tuple(datetime.fromisoformat(key["ts"]).astimezone(UTC) if isinstance(key, dict) else key for key in keys)
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error, RecursionError):
        raise _unusable() from None
    is_ours = asked == question and isinstance(skip, int) and not isinstance(skip, bool) and 0 <= skip <= SKIP_MAX
    if not is_ours or len(found) != len(kinds) or not all(_is(key, kind) for key, kind in zip(found, kinds, strict=True)):
        raise _unusable()
    return Cursor(found, skip)


def _is(key: object, kind: type[Key]) -> bool:
    if kind is int:
        return isinstance(key, int) and not isinstance(key, bool) and abs(key) < 2**31
    if kind is datetime:
        return isinstance(key, datetime) and key.tzinfo is not None
    return isinstance(key, str) and not _LONE_SURROGATE.search(key)  # UTF-8, and so the engine, cannot hold a surrogate


def _unusable() -> InputError:
    return InputError(
        "after: this is not where a page of this question ended", "take `next` of the page before, with the same filters and order"
    )
