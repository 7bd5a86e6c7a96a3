"""The manifests of a command as named texts: of files and folders, and of standard input; and times of the log."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import InputError

if TYPE_CHECKING:
    from queries import LakeReader

STDIN = Path("-")
_STDIN_NAME = "standard input"


def read_texts(paths: list[Path] | None) -> list[tuple[str, str]]:
    """The name and the text of each file, and of standard input. Raises InputError without paths, and for unreadable files."""
    if not paths:
        raise InputError("no policies are given", "give files or folders with -f")
    texts = list(_texts(paths))
    if not texts:
        raise InputError(f"{', '.join(map(str, paths))}: found no YAML or JSON file", "give the files of the policies with -f")
    return texts


def _texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    from pipeline.manifests.files import text_of, texts_of

    for is_stdin, group in groupby(dict.fromkeys(paths), key=lambda path: path == STDIN):
        if is_stdin:
            yield _STDIN_NAME, text_of(sys.stdin.buffer.read(), _STDIN_NAME)
        else:
            yield from texts_of(group)


def moment_of(reader: LakeReader, moment: str, cluster: str | None) -> tuple[str, datetime]:
    """The cluster and the time of --from-log and --against-log. Raises InputError where several clusters may be meant."""
    from api import asked_values

    now = datetime.now(UTC)
    clusters = [name for (name,) in reader.sql("SELECT DISTINCT cluster FROM events ORDER BY cluster").fetchall()]
    if cluster is None and len(clusters) != 1:
        raise InputError(f"the lake has the clusters {', '.join(clusters) or 'none'}", "say with --cluster which one is meant")
    return cluster or clusters[0], asked_values.parse_time("the time of the log's policies", moment, now) or now
