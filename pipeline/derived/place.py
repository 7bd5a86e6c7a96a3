"""Writing derived data: a lake that cannot be written has none, and works without it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def keep(file: Path, content: bytes) -> None:
    """Write a file as a whole, or not at all: what is not kept is made again when it is needed next."""
    unfinished = file.with_name(f"{file.name}.tmp")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(file)


def digest_of(texts: Iterable[str]) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
