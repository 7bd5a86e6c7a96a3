"""Facts about single files of events, which never change: their digests, and the classes of their requests.

A plan needs them of the whole lake. They are counted once per file and kept in `LAKE/derived/facts`, so that a plan over a large
lake reads no event. A file of other code, or of a file of events that has changed on disk, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, reduce
from operator import xor
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from ingest.derived import derived_folder
from ingest.errors import LakeError
from ingest.lake import stems_of_events
from ingest.published.target import is_url, size_of
from queries import LakeReader
from queries.catalog import needed_by, split_events

from .place import digest_of, keep
from .sql import statement

ALL_CLASSES = "FROM admission_classes(NULL, NULL)"


class FileFacts(msgspec.Struct, frozen=True):
    """The facts of one file of events.

    `content` is a digest of the events' keys that retention of bodies changes, too. It is the exclusive or of one number per event,
    so it adds up over files, and does not depend on the layout. `definitions` is that of definitions of custom resources and of
    bindings of mutating policies.
    `unfinished` counts events of stages other than the last.
    `classes` are the rows of `admission_classes` over this file alone.
    """

    code: str
    bytes: int
    changed_ns: int
    events: int
    content: int
    definitions: int
    unfinished: int
    classes: list[dict[str, Any]]


class LakeFacts(msgspec.Struct, frozen=True):
    """The facts of all files of a lake together. `classes` is None where a request may have its stages in several files."""

    events: int
    content: int
    definitions: int
    classes: list[dict[str, Any]] | None
    files: Mapping[str, FileFacts]

    @property
    def state(self) -> str:
        """A name for the content of the events, whatever files they lie in."""
        return f"{self.events}-{self.content}"


def facts_of(reader: LakeReader) -> LakeFacts:
    """The facts of the files that a reader reads. Those that are not kept yet are counted, and kept if the lake can be written."""
    files = reader.files
    by_file = _found(reader, facts_folder(files.lake) if files.lake else None)
    found = list(by_file.values())
    whole = len(found) <= 1 or not any(each.unfinished for each in found)
    return LakeFacts(
        events=sum(each.events for each in found),
        content=reduce(xor, (each.content for each in found), 0),
        definitions=reduce(xor, (each.definitions for each in found), 0),
        classes=[row for each in found for row in each.classes] if whole else None,
        files=by_file,
    )


def facts_folder(lake: str | Path) -> Path:
    """Where the facts of the files of a lake are kept."""
    return derived_folder(lake) / "facts"


def _found(reader: LakeReader, folder: Path | None) -> dict[str, FileFacts]:
    states = {path: state_of(path) for path in reader.files.events}
    found = {path: _read(_kept(folder, path), state) for path, state in states.items()} if folder else {}
    missing = tuple(path for path in states if found.get(path) is None)
    for path, facts in _counted(reader, missing, states):
        found[path] = facts
        if folder:
            keep(_kept(folder, path), msgspec.json.encode(facts))
    if missing and folder:
        _forget_gone(folder)
    return {path: facts for path, facts in found.items() if facts is not None}


def state_of(path: str) -> tuple[int, int]:
    """The size of a file, and the time of its last change in nanoseconds. Raises LakeError if it is gone."""
    if is_url(path):
        return size_of(path), 0
    try:
        state = Path(path).stat()
    except OSError as error:
        raise LakeError(f"{path}: cannot be read: {error.strerror}", "`hindcast doctor` names every damaged file") from error
    return state.st_size, state.st_mtime_ns


def _kept(folder: Path, path: str) -> Path:
    return folder / f"{Path(path).stem}.json"


def _read(file: Path, state: tuple[int, int]) -> FileFacts | None:
    try:
        facts = msgspec.json.decode(file.read_bytes(), type=FileFacts)
    except (OSError, msgspec.DecodeError):
        return None
    return facts if (facts.code, facts.bytes, facts.changed_ns) == (_code(), *state) else None


def _counted(reader: LakeReader, paths: tuple[str, ...], states: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, FileFacts]]:
    """The facts of some files, in two queries over all of them: to bind such a query takes longer than to count a small file."""
    if not paths:
        return
    with reader.session() as split:
        split_events(split.connection, paths)
        rows: list[tuple[int, ...]] = split.connection.execute(statement("file_facts")).fetchall()
        numbers = {file: counts for file, *counts in rows}
        classes: dict[int, list[dict[str, Any]]] = {}
        for row in split.rows(ALL_CLASSES):
            number, _, row["cluster"] = row["cluster"].partition("/")
            classes.setdefault(int(number), []).append(row)
    for file, path in enumerate(paths):
        size_bytes, changed_ns = states[path]
        events, content, definitions, unfinished = numbers.get(file, [0] * 4)
        its_classes = classes.get(file, [])
        yield path, FileFacts(_code(), size_bytes, changed_ns, events, content, definitions, unfinished, its_classes)


def _forget_gone(folder: Path) -> None:
    """Remove the facts of files of events that are not on disk any more."""
    there = stems_of_events(folder.parent.parent)
    with suppress(OSError):
        for file in folder.iterdir():
            if file.name.partition(".")[0] not in there:
                file.unlink(missing_ok=True)


@cache
def _code() -> str:
    """What facts depend on except for the events: the statements, and DuckDB, whose `hash` another version may change."""
    statements = needed_by([ALL_CLASSES])
    return digest_of([duckdb.__version__, statement("file_facts"), ALL_CLASSES, *(each.body for each in statements)])
