"""Manifests that somebody posted, before anything reads them: how large the tree is that a text stands for.

An alias in YAML repeats a whole tree in a few characters, and aliases of aliases multiply: a kilobyte can stand for more values
than memory holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from ingest.errors import InputError

BYTES_MAX = 1024 * 1024
_VALUES_MAX = 200_000
_DEPTH_MAX = 100
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass(slots=True)
class _Node:
    """A mapping, list or value, with the number of values in it so far."""

    anchor: str | None
    values: int


def check_posted(text: str) -> None:
    """Raise InputError for a text that stands for too large or too deep a tree. What is no YAML is left to whoever reads it."""
    try:
        _check(text)
    except yaml.YAMLError:
        return


def _check(text: str) -> None:
    around = [_Node(None, 0)]  # the nodes around the current one; the first stands for the whole text
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, _STARTS):
            around.append(_Node(event.anchor, 1))
            if len(around) > _DEPTH_MAX:
                raise InputError(f"policies: nested deeper than {_DEPTH_MAX} levels", "an API server would not take them either")
            continue
        if isinstance(event, _ENDS):
            node = around.pop()
        elif isinstance(event, yaml.ScalarEvent):
            node = _Node(event.anchor, 1)
        elif isinstance(event, yaml.AliasEvent):
            # An alias within the node that it names is an error that the reader reports.
            node = _Node(None, sizes.get(str(event.anchor), 1))
        else:
            continue
        if node.anchor is not None:
            sizes[node.anchor] = node.values
        around[-1].values += node.values
        if around[-1].values > _VALUES_MAX:
            raise InputError(f"policies: they stand for more than {_VALUES_MAX:,} values", "leave out what is no policy or param")
