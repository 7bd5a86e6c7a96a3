"""Where things are kept that a user can do without: they are made again when they are gone."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """This user's folder, which need not exist (specifications.freedesktop.org/basedir). Raises RuntimeError for a user without a
    home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hindcast"
