"""Pieces of generated Python."""

from __future__ import annotations

from typing import NamedTuple

from ..values import CelMap, UInt


class Code(NamedTuple):
    """A Python expression and the known kind of its value: the name of a CEL type, or None where only the data can decide.

    A value of a known kind is neither unknown nor an error. `optional` marks a value that is an optional, an unknown or an error.
    """

    text: str
    kind: str | None = None
    optional: bool = False


class UnsupportedError(Exception):
    """An expression that only the exact tier evaluates."""


KINDS: dict[type, str] = {
    None.__class__: "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    CelMap: "map",
}
