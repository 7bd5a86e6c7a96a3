"""Writing derived data: a lake that cannot be written has none, and works without it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def keep(file: Path, content: bytes) -> None:
    """Write a whole file. If the lake cannot be written, nothing is kept, and the next replay computes the content again."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")  # two replays may keep one file at a time
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(file)


def digest_of(texts: Iterable[str]) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
