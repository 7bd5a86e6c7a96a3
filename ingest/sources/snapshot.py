"""`hindcast ingest --snapshot`: takes the output of `kubectl get -A -o json` as the state at the beginning of a log.

A snapshot says which objects existed when it was taken and, with the log, which existed before. Each object is kept byte for byte.
The caller gives the moment of the list; snapshot_content.py reads times and kinds from the content. An empty list is a row without
a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..counted import counted
from ..errors import InputError
from ..lake import Lake
from ..redaction.redact import Redactor
from ..schema import OBJECTS
from .object_lists import ANY_LIST, WANTED, KindOf, named_objects, object_files, object_row
from .snapshot_content import content_digest, marks_of

_NAMES_MAX = 5  # file names in one note
_WITHHELD = "{}: {} of kind {} {} not taken, as credentials; `--no-redact` takes them"


@dataclass(slots=True)
class SnapshotSummary:
    """How many objects were taken from how many files, and how many the lake had already; `notes` name missing facts about the
    files."""

    files: int = 0
    objects: int = 0
    duplicate: int = 0
    notes: list[str] = field(default_factory=list)


def ingest_snapshot(
    lake: Lake,
    paths: Sequence[Path],
    cluster: str,
    observed: datetime,
    redactor: Redactor | None = None,
    kind_of: KindOf | None = None,
) -> SnapshotSummary:
    """Take lists of objects into the lake as of `observed` (an aware time). Folders are read whole.

    The same file given again for the same moment adds nothing. `redactor` keeps out objects that are credentials as a whole, so a
    replay does not know their content; None keeps every object unchanged. `kind_of` gives the kind of an empty list by its file's
    name. Raises InputError naming the file when it holds no objects; then this call stores nothing. Raises LakeError.
    """
    summary = SnapshotSummary()
    tables: list[pa.Table] = []
    marks: dict[str, str] = {}
    nameless: list[str] = []
    for path, data in object_files(paths):
        found = list(named_objects(path, data, kind_of))
        mark = f"{marks_of(cluster)}{observed.isoformat()}:{content_digest(data, found)}"
        rows = [object_row(path, entry, cluster, observed) for entry in found]
        if redactor is not None:
            rows = _redacted(path, rows, redactor, summary)
        objects = sum(bool(row["name"]) for row in rows)
        summary.files += 1
        nameless += [path.name for entry in found if entry.is_empty_list and entry.kind == ANY_LIST]
        if lake.manifest.prop(mark) is not None or mark in marks:
            summary.duplicate += objects
            continue
        marks[mark] = str(len(rows))
        summary.objects += objects
        tables.append(pa.Table.from_pylist(rows, schema=OBJECTS))
    if nameless:
        summary.notes.append(_nameless(nameless))
    with lake.writer() as writer:
        table = pa.concat_tables(tables) if tables else OBJECTS.empty_table()
        writer.commit(writer.write("objects", cluster, table) if table.num_rows else (), props=marks)
    return summary


def _redacted(path: Path, rows: list[dict[str, Any]], redactor: Redactor, summary: SnapshotSummary) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    withheld: list[str] = []
    for row in rows:
        if row["name"] and redactor.withholds_kind(row["kind"], row["api_version"]):
            withheld.append(row["kind"])
        else:
            kept.append(row)
    if withheld:
        summary.notes.append(
            _WITHHELD.format(
                path,
                counted(len(withheld), "object"),
                ", ".join(sorted(set(withheld))),
                "was" if len(withheld) == 1 else "were",
            )
        )
    for row in kept:
        try:
            row["object"] = redactor.clean_object(row["object"].encode(), row["kind"], row["api_version"]).decode()
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: {row['kind']} {row['name']} cannot be searched for credentials: {error}", WANTED) from error
    return kept


def _nameless(names: Sequence[str]) -> str:
    """One sentence for all empty lists without a kind: a snapshot may have dozens."""
    shown = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else "")
    several = f"{len(names)} lists are empty and do not say which kind they would list"
    subject = "1 list is empty and does not say which kind it would list" if len(names) == 1 else several
    return f"{subject}: {shown}; name the file after the resource, as in namespaces.json"
