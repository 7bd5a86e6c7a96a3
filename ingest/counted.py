"""Numbers with their nouns in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 request`, `2 requests`, `1,200 requests`; `plural` is for nouns that take no s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
