"""Lines of YAML that show an object or a difference, with runs of unchanged ones folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

# Shorter runs of unchanged lines stay open: a fold takes a line itself.
_FOLD_LINES_MIN = 4
UNCHANGED = "unchanged"


class Change(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of YAML, `indent` levels deep."""

    change: Change
    indent: int
    text: str
    is_redacted: bool = False
    is_read: bool = False  # an expression read this field, or a field around it
    decided: bool = False  # and this field itself decided


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that are folded at first, with the names of the fields in them."""

    indent: int
    lines: tuple[Line, ...]
    names: tuple[str, ...]
    label: str = UNCHANGED


def folded(lines: Sequence[Line]) -> Iterator[Line | Fold]:
    """The lines with runs of unchanged ones folded; headers without a change below are folded with their content."""
    needed = _needed(lines)
    run: list[Line] = []
    for line, is_needed in zip(lines, needed, strict=True):
        if not is_needed:
            run.append(line)
            continue
        yield from _close(run)
        run = []
        yield line
    yield from _close(run)


def _needed(lines: Sequence[Line]) -> list[bool]:
    """Which lines changed or were read, or lead to one of these."""
    needed = [line.change is not Change.SAME or line.is_read for line in lines]
    below: int | None = None  # the indent of the nearest needed line below: only a line with a smaller indent can lead to it
    for index in range(len(lines) - 1, -1, -1):
        indent = lines[index].indent
        if needed[index] or (below is not None and indent < below):
            needed[index], below = True, indent
    return needed


def _close(run: Sequence[Line]) -> Iterator[Line | Fold]:
    if len(run) < _FOLD_LINES_MIN:
        yield from run
        return
    indent = min(line.indent for line in run)
    names = tuple(line.text.partition(":")[0] for line in run if line.indent == indent and not line.text.startswith("-"))
    yield Fold(indent, tuple(run), names)
