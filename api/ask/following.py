"""Keeps a folder up to date with the published lake that it shows, while the pages are open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from ingest.errors import HindcastError

_LOOK_AGAIN_SECONDS = 30.0

_log = structlog.get_logger("hindcast.published")


async def follow(lake: Path, url: str) -> None:
    """Read the list of published files again and again, until this is cancelled. A store may be away for a while."""
    from ingest.published.reading import show
    from ingest.published.target import Target

    while True:
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        try:
            await asyncio.to_thread(show, Target.parse(url), lake)
        except HindcastError as error:
            _log.warning("published_lake_not_read", reason=str(error))
