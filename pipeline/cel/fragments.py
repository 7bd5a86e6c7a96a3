"""Pieces of generated Python."""

from __future__ import annotations

from typing import NamedTuple

from .values import CelMap, UInt


class Code(NamedTuple):
    """A Python expression, and what its value is known to be: the name of a CEL type, or None where only the data can tell.

    A value of a known kind is neither unknown nor an error. `optional` marks what is an optional unless it is unknown or an error.
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
