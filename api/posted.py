"""Checks posted manifests before they are parsed: the size of the text, and of the tree that it may stand for."""

from __future__ import annotations

from ingest.extent import Extent, refuse_excess

BYTES_MAX = 1024 * 1024
_EXTENT = Extent(values=200_000, depth=100)


def check_posted(text: str, source: str = "policies") -> None:
    """Raise InputError for a text that stands for too large or too deep a tree. The parser reports text that is not YAML."""
    refuse_excess(text, source, _EXTENT)
