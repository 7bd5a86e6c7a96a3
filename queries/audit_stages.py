"""Which stages the events of Parquet files are of, as the statistics in their footers say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.published.target import is_url

# A request has one event of this stage, or panicked.
_FINAL = "ResponseComplete"
# To read the footers of more files takes longer than a query gains.
_FILES_MAX = 64


def are_final(paths: Sequence[str]) -> bool:
    """Whether every event of some files is of the final stage. False if this is not known, as for files of a published lake."""
    return len(paths) <= _FILES_MAX and all(not is_url(path) and _is_final(path) for path in paths)


def _is_final(path: str) -> bool:
    try:
        status = Path(path).stat()
        return _says_final(path, status.st_size, status.st_mtime_ns)
    except (OSError, pa.ArrowException):
        return False  # the query that reads this file reports the error


@lru_cache(maxsize=4096)
def _says_final(path: str, size_bytes: int, changed_ns: int) -> bool:
    """A process often opens a lake again, and files of events do not change."""
    footer = pq.read_metadata(path)
    column = footer.schema.names.index("stage") if "stage" in footer.schema.names else -1
    if column < 0:
        return False
    found = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    return all(each is not None and each.has_min_max and each.min == each.max == _FINAL for each in found)
