"""Times and versions as options and parameters write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from ingest.errors import InputError

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def parse_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """The moment that `--since` or `--until` names, in UTC. Raises InputError for anything else."""
    if text is None:
        return None
    try:
        if span := _SPAN.match(text):
            return now - timedelta(seconds=float(span[1]) * _SECONDS[span[2]])
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return min(max(moment, _FIRST), _LAST)  # adding or subtracting seconds must stay within the range of a datetime
    except (ValueError, OverflowError):
        raise InputError(f"{option}: {text!r} is not a time", "give a span such as 30d or 12h, or 2026-11-21T03:24:15Z") from None


def parse_window(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Both ends of the window, spans count back from now. Raises InputError when it is empty."""
    now = datetime.now(UTC)
    window = parse_time("--since", since, now), parse_time("--until", until, now)
    if window[0] is not None and window[1] is not None and window[0] >= window[1]:
        raise InputError(f"--since {since} is not before --until {until}")
    return window


def parse_version(text: str) -> tuple[int, int]:
    """`1.36` or `v1.36.2` as (1, 36). Raises InputError."""
    match = re.match(r"v?1\.(\d{1,3})(?:\.|$)", text)
    if not match:
        raise InputError(f"--kubernetes-version: {text[:40]!r} is not a version", "give a minor version such as 1.36")
    return 1, int(match[1])


def parse_zone(name: str) -> tzinfo | None:
    """The time zone that `--zone` names; None for an empty text. Raises InputError for anything else."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        raise InputError(f"--zone: {name!r} is not a time zone", "use a name such as UTC or Europe/Berlin") from None
