"""What is known of a lake before anybody asks: made after a merge of files, so that the first question is a quick one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ingest.derived import derived_folder
from ingest.durable import write_whole
from ingest.errors import LakeError
from queries import open_lake

from ..requests.kept.facts import facts_of
from ..requests.kept.told import keep_told
from ..requests.lanes import Lane, LaneName
from ..requests.prefill import prefill
from ..runs.apart import code_name
from ..runs.executors import Executor
from ..stages.registry import STAGES
from .about_lake import QUESTIONS

_MARK = "prepared"


def prepare(
    lake: Path, stopped: Callable[[], bool] = lambda: False, *, grown: float = 0.0, executor: Executor | None = None
) -> bool:
    """Make the tables that all stages read, and find out what reports say of the lake, where this is missing.

    That is how far each stage agrees with the record, and what concerns the whole lake. It is found out once the lake has grown by
    the share `grown` of its events since the last time. `stopped` is asked after each of many small steps. Returns whether all
    of it is there now. Raises LakeError as `prefill` does.
    """
    if not prepare_tables(lake, stopped, grown=grown, executor=executor):
        return False
    with closing(open_lake(lake, threads=1)) as reader:
        if not reader.files.events or not derived_folder(lake).is_dir():
            return True  # nothing to do, or a lake that may only be read
        facts = facts_of(reader)
        mark = f"{facts.events} {facts.state} {code_name()}"
        before = _mark_of(lake)
        if mark == before or (grown and facts.events < (1 + grown) * _events_of(before)):
            return True
        if not keep_told(reader, stopped):
            return False
        for find_out in (*(stage.readiness.prepare for stage in STAGES), *QUESTIONS):
            if stopped():
                return False
            find_out(reader)
    try:
        write_whole(derived_folder(lake) / _MARK, mark.encode())
    except (OSError, LakeError):
        return False  # retention has deleted all that is derived meanwhile
    return True


def prepare_tables(
    lake: Path, stopped: Callable[[], bool] = lambda: False, *, grown: float = 0.0, executor: Executor | None = None
) -> bool:
    """See `prefill`: with the fields that every stage reads."""
    return prefill(lake, stopped, grown=grown, executor=executor, further=_usual_lanes)


def _usual_lanes(name: LaneName) -> Sequence[Lane]:
    found = (stage.readiness.usual_lane(name) for stage in STAGES)
    return [lane for lane in found if lane is not None]


def _mark_of(lake: Path) -> str:
    """What was prepared the last time: how many events in which state, and by which code; empty before the first."""
    try:
        return (derived_folder(lake) / _MARK).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _events_of(mark: str) -> int:
    found = mark.partition(" ")[0]
    return int(found) if found.isdecimal() else 0
