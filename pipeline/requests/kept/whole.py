"""What concerns a whole lake, such as the ledger of lost evidence: kept as long as the lake has the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import duckdb
import msgspec
import pyarrow as pa

from ingest.derived import derived_folder
from queries import LakeReader
from queries.catalog import LakeFiles, needed_by
from queries.identity import MIXED_NAMES, mixed_sentences
from queries.ledger import LOSS_PARTS, losses_by_part

from .facts import ALL_CLASSES, state_of
from .place import digest_of, keep, read_table, written_table

T = TypeVar("T")

_LOSSES = tuple(f"losses_of_{part}" for part in LOSS_PARTS)


def losses_of(reader: LakeReader) -> pa.Table:
    """The rows of the view `losses`, in its order. To ask for them reads every event, bodies included.

    Raises LakeError if a file of the lake is gone.
    """
    if reader.ledger is not None:
        return reader.ledger
    return _kept(reader, "losses", _code(_LOSSES), lambda: losses_by_part(reader))


def classes_of(reader: LakeReader) -> list[dict[str, Any]]:
    """The rows of `admission_classes`. Raises LakeError if a file of the lake is gone."""
    return rows_about(reader, "classes", ALL_CLASSES)


def mixed_names_of(reader: LakeReader) -> dict[str, str]:
    """As queries.identity.mixed_names. Raises LakeError if a file of the lake is gone."""
    return mixed_sentences(rows_about(reader, "mixed-names", MIXED_NAMES))


def rows_about(reader: LakeReader, name: str, text: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """The rows of a SELECT over a whole lake; those of the newest parameters are kept under a name.

    Raises LakeError if a file of the lake is gone.
    """
    asked = dict(parameters or {})
    code = _code((text, *map(repr, sorted(asked.items()))))
    rows: list[dict[str, Any]] = _kept(reader, name, code, lambda: pa.Table.from_pylist(reader.rows(text, asked))).to_pylist()
    return rows


def value_about(reader: LakeReader, name: str, asked: Iterable[str], form: type[T], ask: Callable[[], T]) -> T:
    """What `ask` finds out about a whole lake, of a form that JSON can hold; the newest is kept under a name.

    `asked` is all else that it follows from, the code among it. Raises LakeError if a file of the lake is gone.
    """
    table = _kept(reader, name, digest_of(asked), lambda: pa.table({"value": [msgspec.json.encode(ask())]}))
    return msgspec.json.decode(table["value"][0].as_py(), type=form)


def _kept(reader: LakeReader, name: str, code: str, ask: Callable[[], pa.Table]) -> pa.Table:
    files = reader.files
    if not files.lake:
        return ask()
    mark = _mark(files, code)
    file = derived_folder(files.lake) / "whole" / f"{name}-{digest_of([files.cluster])}.arrow"
    found = read_table(file, mark)
    if found is None:
        found = ask()
        keep(file, written_table(found, mark))
    return found


def _mark(files: LakeFiles, code: str) -> bytes:
    paths = (*files.events, *files.objects, *files.repeats, *files.quarantine)
    # A lake may be moved, or be known by several paths: its files are named from its folder on.
    return digest_of([code, *(f"{path.removeprefix(files.lake)} {state_of(path)}" for path in paths)]).encode()


@cache
def _code(texts: tuple[str, ...]) -> str:
    """The statements that some texts need, and DuckDB."""
    return digest_of([duckdb.__version__, *texts, *(each.body for each in needed_by(texts))])
