"""Values of ours as JSON, and recorded JSON as values."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

# An answer wraps a document in lists and objects of its own. A document that can be parsed inside this many more can also be
# written there.
_MARGIN = 50


def json_bytes(value: object) -> bytes:
    """JSON in UTF-8. Characters that UTF-8 cannot hold are replaced: a recorded text may be cut within a character."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def json_document(text: str | None) -> Any:
    """A recorded JSON text as JSON values; the text itself where it is not JSON or nests too deeply."""
    if text is None:
        return None
    try:
        found = json.loads("[" * _MARGIN + text + "]" * _MARGIN, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    for _ in range(_MARGIN):
        if len(found) != 1:
            return text
        found = found[0]
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
