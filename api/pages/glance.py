"""Several judged things at a glance: the shares of their requests, and in which namespaces they would deny."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.readiness.model import PolicyReadiness

_ROWS_MAX = 24
_LEVELS = 5
# The darkest colour stands for at least so many requests, so that one denial in a quiet log does not look like an emergency.
_DARKEST_MIN = 10


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar: its kind as the style names it, its place and width in percent, and its requests."""

    kind: str
    words: str
    x: float
    width: float
    count: int


@dataclass(frozen=True, slots=True)
class Line:
    """One judged thing: its name, the address of its page, and its bar, which is empty where nothing matched."""

    name: str
    href: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """The requests of one thing in one namespace; `level` is the strength of the colour, 0 for no denial."""

    matched: int
    denied: int
    level: int


@dataclass(frozen=True, slots=True)
class Glance:
    """Bars, and below them a heat map: for each namespace one cell for each bar, None where nothing matched.

    `left_out` counts the namespaces with fewer denials.
    """

    lines: tuple[Line, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    left_out: int


def shares(denied: int, unknown: int, matched: int) -> tuple[Share, ...]:
    """The parts of a bar of matched requests."""
    admitted = matched - denied - unknown
    found, at = [], 0.0
    for kind, words, count in (
        ("denied", "would be denied", denied),
        ("unknown", "unknown", unknown),
        ("admitted", "admitted", admitted),
    ):
        if count > 0 and matched:
            width = 100 * count / matched
            found.append(Share(kind, words, round(at, 2), round(width, 2), count))
            at += width
    return tuple(found)


def glance(named: Sequence[tuple[str, str, PolicyReadiness]]) -> Glance:
    """Judged things at a glance, each given with its name and the address of its page."""
    lines = tuple(
        Line(name, href, shares(entry.denials.requests, entry.exposure.requests_unknown, entry.exposure.requests_matched))
        for name, href, entry in named
    )
    totals = Counter[str]()
    for _, _, entry in named:
        totals.update({row.namespace: row.denied for row in entry.namespaces if row.denied})
    darkest = max([_DARKEST_MIN, *(row.denied for _, _, entry in named for row in entry.namespaces)])
    rows = sorted(totals, key=lambda namespace: (-totals[namespace], namespace))
    found = tuple((name, tuple(_cell(entry, name, darkest) for _, _, entry in named)) for name in rows[:_ROWS_MAX])
    return Glance(lines, found, max(0, len(rows) - _ROWS_MAX))


def _cell(entry: PolicyReadiness, namespace: str, darkest: int) -> Cell | None:
    row = next((row for row in entry.namespaces if row.namespace == namespace and row.matched), None)
    return None if row is None else Cell(row.matched, row.denied, math.ceil(_LEVELS * math.sqrt(row.denied / darkest)))
