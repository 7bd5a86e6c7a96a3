"""Names of clusters that two clusters share, as every command reports them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ingest.errors import HindcastError
from pipeline.requests.kept.whole import mixed_names_of
from queries import LakeReader, open_lake
from queries.identity import REMEDY

from .context import Context
from .damage import ENGINE_ERRORS


def warn_of(own: Context) -> None:
    """Warn of each such name of a command's lake: no answer over it is about one cluster.

    A lake that cannot be read does not change what the command does.
    """
    with suppress(HindcastError, OSError, *ENGINE_ERRORS):
        for sentence in sentences(own.lake):
            own.warn(sentence)


def sentences(lake: Path) -> list[str]:
    """One sentence with the remedy for each such name; none where there is no lake. Raises LakeError."""
    if not (lake / "manifest.sqlite").exists():
        return []
    reader = open_lake(lake)
    try:
        return sentences_of(reader)
    finally:
        reader.close()


def sentences_of(reader: LakeReader) -> list[str]:
    """The same for the clusters that a reader sees."""
    return [f"{sentence}; {REMEDY}" for sentence in mixed_names_of(reader).values()]
