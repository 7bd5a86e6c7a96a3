"""Options that several commands share, and the function that reads each."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from api.printing.output import Format
from ingest.errors import InputError
from pipeline.cel.minors import NEWEST, OLDEST

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the result.")]
Since = Annotated[str | None, typer.Option(help="Only requests from this time on: 30d (30 days ago), 12h, or a time in RFC 3339.")]
Until = Annotated[str | None, typer.Option(help="Only requests before this time, written as in --since.")]
Limit = Annotated[
    int | None,
    typer.Option(min=0, help="Rows to print of each table; 0: all. Default: 40 on a terminal, else all."),
]
Policies = Annotated[
    list[Path] | None,
    typer.Option(
        "-f",
        "--filename",
        help="Manifests, such as policies with their bindings and params: a file, a folder, or - for standard input.",
    ),
]

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


def _told_version(context: typer.Context, text: str) -> str:
    """The given text. Warns if Hindcast does not know the CEL of that version and uses another version's."""
    version = parse_version(text)
    taken = min(max(version, OLDEST), NEWEST)
    if taken != version and not context.resilient_parsing:
        known = f"{_dotted(OLDEST)} to {_dotted(NEWEST)}"
        sys.stderr.write(
            f"--kubernetes-version {_dotted(version)}: Hindcast knows the CEL of {known}, and takes that of {_dotted(taken)}\n"
        )
    return text


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


KubernetesVersion = Annotated[
    str,
    typer.Option(
        "--kubernetes-version", callback=_told_version, help="The API server's minor version; it decides which CEL libraries exist."
    ),
]
