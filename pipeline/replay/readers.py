"""Readers of a lake for replays: they have only the views that a replay's statements name, so that they open sooner."""

from __future__ import annotations

from pathlib import Path

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles, needed_by

from ..derived.sql import statement as derived_statement
from ..runs.sql import statement as run_statement
from .sql import statement

# What `facts_of` and `objects_of` ask, too.
_OF_RUNS = [
    "admission_classes",
    *(derived_statement(name) for name in ("file_facts", "file_objects")),
    *(run_statement(name) for name in ("digest", "object_digest", "horizon")),
]
_OF_PLANS = ("authorizers",)
_OF_REPLAYS = ("history_events", "history_objects", "planned", "past_writes", "spans")


def open_for_plan(lake: Path, files: LakeFiles | None = None, cluster: str = "") -> LakeReader:
    """A reader for plan_replay, over these files or the present ones, also of one cluster alone. Raises LakeError if the lake does
    not exist."""
    return open_lake(lake, texts=[*_OF_RUNS, *map(statement, _OF_PLANS)], files=files, cluster=cluster)


def open_for_replay(lake: Path, files: LakeFiles | None = None, cluster: str = "") -> LakeReader:
    """A reader for one of several Replayers, over these files or the present ones, also of one cluster alone. Raises LakeError if
    the lake does not exist."""
    return open_lake(lake, threads=1, texts=[*_OF_RUNS, *map(statement, _OF_REPLAYS)], files=files, cluster=cluster)


def open_files_for_replay(files: LakeFiles) -> LakeReader:
    """A reader like that of open_for_replay, of files without a folder that lists them. Raises LakeError if one cannot be read."""
    texts = [*_OF_RUNS, *map(statement, _OF_REPLAYS)]
    return LakeReader(lambda: files, 1, needed_by(texts))
