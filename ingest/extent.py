"""Bounds the size of the tree that a YAML text stands for, before a parser builds it.

An alias repeats a whole tree in a few characters, and aliases of aliases multiply: a kilobyte can stand for more values than memory
holds. A parser written in C crashes the process if its nodes nest too deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from .errors import InputError

_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_WORDS_MAX = 200
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass(frozen=True, slots=True)
class Extent:
    """How many values a text may stand for, and how deep they may nest."""

    values: int
    depth: int


# For a file from a user: more than any manifest has, few enough to hold in memory.
OF_FILES = Extent(values=5_000_000, depth=250)


@dataclass(slots=True)
class _Node:
    """A mapping, list or value, with the number of values in it so far."""

    anchor: str | None
    values: int


def yaml_values(text: str | bytes, source: str, hint: str = "") -> list[Any]:
    """The value of each document. Raises InputError with `source:line` for a text that is not YAML, or that stands for too much."""
    refuse_excess(text, source)
    try:
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        words = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InputError(f"{source}:{mark.line + 1 if mark else 1}: is not YAML: {words[:_WORDS_MAX]}", hint) from error
    except (ValueError, TypeError, RecursionError) as error:  # a date such as 2026-99-99, or bytes that are not UTF-8
        raise InputError(f"{source}: is not YAML: {' '.join(str(error).split())[:_WORDS_MAX]}", hint) from error


def refuse_excess(text: str | bytes, source: str, extent: Extent = OF_FILES) -> None:
    """Raise InputError with `source:line` for a text that stands for too much. The reader of the text reports text that is not
    YAML."""
    try:
        _refuse(text, source, extent)
    except yaml.YAMLError:
        return


def _refuse(text: str | bytes, source: str, extent: Extent) -> None:
    around = [_Node(None, 0)]  # the nodes around the current one; the first stands for the whole text
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, _STARTS):
            around.append(_Node(event.anchor, 1))
            if len(around) > extent.depth:
                raise InputError(f"{_place(source, event)}: nested deeper than {extent.depth} levels", "no object of Kubernetes is")
            continue
        if isinstance(event, _ENDS):
            node = around.pop()
        elif isinstance(event, yaml.ScalarEvent):
            node = _Node(event.anchor, 1)
        elif isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            if any(outer.anchor == name for outer in around):
                raise InputError(f"{_place(source, event)}: the alias *{name} refers to itself")
            node = _Node(None, sizes.get(name, 1))
        else:
            continue
        if node.anchor is not None:
            sizes[node.anchor] = node.values
        around[-1].values += node.values
        if around[-1].values > extent.values:
            raise InputError(
                f"{_place(source, event)}: stands for more than {extent.values:,} values",
                "use fewer aliases, or leave out objects other than policies and params",
            )


def _place(source: str, event: yaml.Event) -> str:
    return f"{source}:{event.start_mark.line + 1 if event.start_mark else 1}"
