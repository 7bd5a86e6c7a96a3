"""The cells of a printed table."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def text(value: Any) -> str:
    """One cell as text for a user: empty for null, times to the second in UTC, lists with commas, ratios with three digits."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text, value))
    return str(value)
