"""What every stage knows of a lake before anybody asks: made after a merge of files, so that the first question is a quick one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ingest.derived import derived_folder
from ingest.durable import write_whole
from ingest.errors import LakeError
from queries import open_lake

from ..derived.facts import facts_of
from ..replay.prefill import prefill
from ..runs.executors import Executor
from .registry import STAGES

_MARK = "prepared-events"


def prepare(
    lake: Path, stopped: Callable[[], bool] = lambda: False, *, grown: float = 0.0, executor: Executor | None = None
) -> bool:
    """Make what is missing: the tables that all stages read, and how far each stage agrees with the record.

    The second is made once the lake has grown by a share of its events since the last time. `stopped` is asked after each of many
    small steps. Returns whether all of it is there now. Raises LakeError as `prefill` does.
    """
    if not prefill(lake, stopped, grown=grown, executor=executor):
        return False
    with closing(open_lake(lake, threads=1)) as reader:
        if not reader.files.events or not derived_folder(lake).is_dir():
            return True  # nothing to do, or a lake that may only be read
        events = facts_of(reader).events
        if grown and events < (1 + grown) * _prepared_events(lake):
            return True
        for stage in STAGES:
            if stopped():
                return False
            stage.readiness.prepare(reader)
    try:
        write_whole(derived_folder(lake) / _MARK, str(events).encode())
    except (OSError, LakeError):
        return False  # retention has deleted all that is derived meanwhile
    return True


def _prepared_events(lake: Path) -> int:
    """How many events the lake had the last time; 0 before the first."""
    try:
        return int((derived_folder(lake) / _MARK).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
