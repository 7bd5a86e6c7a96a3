"""Manifests that somebody posted: how much text, and what tree it may stand for, before anything reads it."""

from __future__ import annotations

from ingest.extent import Extent, refuse_excess

BYTES_MAX = 1024 * 1024
_EXTENT = Extent(values=200_000, depth=100)


def check_posted(text: str, source: str = "policies") -> None:
    """Raise InputError for a text that stands for too large or too deep a tree. What is not YAML is left to whoever reads it."""
    refuse_excess(text, source, _EXTENT)
