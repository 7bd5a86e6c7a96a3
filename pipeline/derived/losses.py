"""The ledger of lost evidence, kept as long as the lake has the same files: to ask for it reads every event, bodies included."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa

from ingest.derived import derived_folder
from queries import LakeReader
from queries.catalog import LakeFiles, needed_by
from queries.ledger import LOSS_PARTS, losses_by_part

from .facts import state_of
from .place import digest_of, keep, read_table, written_table


def losses_of(reader: LakeReader) -> pa.Table:
    """The rows of the view `losses`, in its order. They are kept if the lake can be written.

    Raises LakeError if a file of the lake is gone.
    """
    files = reader.files
    if reader.ledger is not None or not files.lake:
        return losses_by_part(reader)
    mark = _mark(files)
    file = derived_folder(files.lake) / "losses" / f"{digest_of([files.cluster])}.arrow"
    found = read_table(file, mark)
    if found is None:
        found = losses_by_part(reader)
        keep(file, written_table(found, mark))
    return found


def _mark(files: LakeFiles) -> bytes:
    paths = (*files.events, *files.objects, *files.repeats, *files.quarantine)
    return digest_of([_code(), *(f"{path} {state_of(path)}" for path in paths)]).encode()


@cache
def _code() -> str:
    """The statements, and DuckDB."""
    needed = needed_by([f"losses_of_{part}" for part in LOSS_PARTS])
    return digest_of([duckdb.__version__, *(each.body for each in needed)])
