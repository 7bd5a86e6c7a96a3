"""Timestamps and durations as text and in parts, as Go reads and prints them (time.Parse, time.ParseDuration, cel-go
common/stdlib).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from ..library.gotext import format_duration
from ..values import CelError, Duration, Timestamp

_SECOND = 10**9
_DAY_SECONDS = 86400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# The Gregorian calendar repeats after 400 years; a zone may move the first or last day out of Python's range of years.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146097
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DIGITS_MAX = 19  # of a number of nanoseconds
_TERM = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)(?![a-z\u00b5\u03bc])", re.ASCII)


def parse_timestamp(text: str) -> Timestamp | None:
    """RFC 3339 as Go's time.Parse reads it; None where Go reports an error. Raises CelError outside of years 1 to 9999."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    zone_seconds = 0
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 24 or minutes > 60:
            return None
        zone_seconds = (hours * 60 + minutes) * (60 if found[8] == "+" else -60)
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        # Go accepts year 0; 400 years later the calendar is the same.
        days = date(year or _CYCLE_YEARS, month, day).toordinal() - _EPOCH_DAY - (0 if year else _CYCLE_DAYS)
    except ValueError:
        return None
    seconds = days * _DAY_SECONDS + hour * 3600 + minute * 60 + second - zone_seconds
    return Timestamp(seconds * _SECOND + int((found[7] or "0")[:9].ljust(9, "0")), zone_seconds)


def parse_duration(text: str) -> Duration | None:
    """`1h2.5s` and the like; None where Go's time.ParseDuration reports an error."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") and text else ("", text)
    if rest == "0":
        return Duration(0)
    total = 0
    at = 0
    while at < len(rest):
        found = _TERM.match(rest, at)
        if found is None or not (found[1] or found[2]):
            return None
        if len(found[1].lstrip("0")) > _DIGITS_MAX:
            return None
        unit = _UNITS[found[3]]
        fraction = (found[2] or "")[:19]
        total += int(found[1] or "0") * unit + (int(int(fraction) * (unit / 10 ** len(fraction))) if fraction else 0)
        if total > 1 << 63:
            return None
        at = found.end()
    if not rest or (total == 1 << 63 and sign != "-"):
        return None
    return Duration(-total if sign == "-" else total)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many fractional digits as needed, in the zone the timestamp was written with."""
    year, month, day, seconds, ns = _civil(value, value.zone_seconds)
    fraction = f".{ns:09d}".rstrip("0") if ns else ""
    offset = abs(value.zone_seconds) // 60
    zone = f"{'-' if value.zone_seconds < 0 else '+'}{offset // 60:02d}:{offset % 60:02d}" if value.zone_seconds else "Z"
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{zone}"


def duration_text(value: Duration) -> str:
    """The text of the seconds that Go's Duration.Seconds computes as a double."""
    return format_duration(value.ns)


def zone_offset_seconds(value: Timestamp, zone: str) -> int:
    """Seconds east of UTC in a zone given by name, or as `+02:30` or `02:30`, at that time."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        east, minute = _atoi(hours) * 60, _atoi(minutes)
        return (east - minute if zone[0] == "-" else east + minute) * 60
    if zone in ("", "UTC"):
        return 0
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.ns // _SECOND)
        offset = moment.astimezone(ZoneInfo(zone)).utcoffset()
    except OverflowError:
        return 0
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {zone}") from None
    return int(offset.total_seconds()) if offset else 0


def _atoi(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise CelError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _civil(value: Timestamp, offset_seconds: int) -> tuple[int, int, int, int, int]:
    """Year, month, day, second of the day and nanosecond on a clock that is this many seconds ahead of UTC."""
    seconds, ns = divmod(value.ns, _SECOND)
    days, second_of_day = divmod(seconds + offset_seconds, _DAY_SECONDS)
    ordinal = days + _EPOCH_DAY
    cycles = 1 if ordinal < 1 else -1 if ordinal > date.max.toordinal() else 0
    day = date.fromordinal(ordinal + cycles * _CYCLE_DAYS)
    return day.year - cycles * _CYCLE_YEARS, day.month, day.day, second_of_day, ns


def part(name: str, value: Timestamp, zone: str = "") -> int:
    """The result of `timestamp.NAME(zone)`; UTC without a zone. Months, and days of the week and year, count from 0."""
    year, month, day, seconds, ns = _civil(value, zone_offset_seconds(value, zone))
    match name:
        case "getFullYear":
            return year
        case "getMonth":
            return month - 1
        case "getDate":
            return day
        case "getDayOfMonth":
            return day - 1
        case "getDayOfWeek":
            return date(year % _CYCLE_YEARS + _CYCLE_YEARS, month, day).isoweekday() % 7
        case "getDayOfYear":
            return date(year % _CYCLE_YEARS + _CYCLE_YEARS, month, day).timetuple().tm_yday - 1
        case "getHours":
            return seconds // 3600
        case "getMinutes":
            return seconds // 60 % 60
        case "getSeconds":
            return seconds % 60
        case _:
            return ns // 10**6


TIMESTAMP_PARTS = (
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
)
DURATION_PARTS_NS = {"getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND, "getMilliseconds": 10**6}


def duration_part(name: str, value: Duration) -> int:
    """The whole duration in hours, minutes, seconds or milliseconds, towards zero."""
    amount = abs(value.ns) // DURATION_PARTS_NS[name]
    return -amount if value.ns < 0 else amount
