"""The key of a lake's hashes, which stand in place of removed texts."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..errors import LakeError

KEY_BYTES = 32


def load_or_create_key(path: Path) -> bytes:
    """The key of this lake's hashes; made once, and readable by its owner only. Raises LakeError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise LakeError(
                f"{path}: holds {len(key)} bytes, not a key of {KEY_BYTES}", "restore it, or remove it to begin a new one"
            ) from None
        return key
    except OSError as error:
        raise LakeError(f"{path}: the redaction key cannot be written: {error.strerror}", "fix the owner of the lake") from error
    key = secrets.token_bytes(KEY_BYTES)
    try:
        os.write(handle, key)
        os.fsync(handle)
    finally:
        os.close(handle)
    return key
