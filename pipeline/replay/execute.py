"""Walking a plan: parts are evaluated by worker processes, kept as they are finished, and put together in the order of the plan.

`LAKE/runs/RUN_ID/` holds plan.json, verdicts.parquet and summary.json when a run is complete, and `parts/` while it is not. A run
that was interrupted goes on with the parts that are missing; one that is complete is not run again.
"""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from ingest.errors import LakeError
from queries import LakeReader
from queries.catalog import LakeFiles

from .kinds import RunKind, in_use, mark_kind
from .parts import counts_of, free, part_file, read_part
from .plan import Part, ReplayPlan
from .planning import lake_digest
from .processes import COLLECTING, share_out, stop, work_through
from .readers import open_for_replay
from .summary import RunSummary, summarize, summary_from_json
from .verdicts import VerdictFile, rows_in
from .worker import Replayer

Progress = Callable[[int, int], None]
# How often to look whether other processes have finished parts, when there is nothing else to do.
_LOOK_SECONDS = 0.05


def runs_folder(lake: Path) -> Path:
    """Where the runs over a lake are kept."""
    return lake / "runs"


def run_replay(
    plan: ReplayPlan, lake_path: str | Path, workers: int = 1, progress: Progress | None = None, kind: RunKind | None = None
) -> RunSummary:
    """Evaluate a plan over the lake it was made for. The same plan gives the same bytes, whatever the number of workers.

    It reads the files that the plan was made over: events that arrived since belong to a later run. `progress(done, planned)` is
    called with numbers of requests. Raises LakeError if those files are gone, and what the lake holds now is not the same.
    """
    lake, run_id = Path(lake_path), plan.run_id
    folder = runs_folder(lake) / run_id
    kind = kind or (RunKind.CALIBRATION if plan.policies is None else RunKind.REPLAY)
    if (finished := _finished(folder, plan)) is not None:
        with suppress(OSError):  # a lake that may only be read
            mark_kind(folder, kind)
        return finished
    parts = folder / "parts"
    with ExitStack() as held, closing(_reader_of(plan, lake)) as reader, _collecting_seldom():
        parts.mkdir(parents=True, exist_ok=True)
        held.enter_context(in_use(folder))
        mark_kind(folder, kind)
        _write(folder / "plan.json", plan.to_json())
        missing = [part for part in plan.parts if counts_of(part_file(parts, part)) is None]
        free(parts, missing)
        done = plan.requests - sum(part.requests for part in missing)
        for part in _run_parts(plan, reader, lake, parts, missing, workers):
            done += part.requests
            if progress is not None:
                progress(done, plan.requests)
        summary = _merge(plan, run_id, folder)
        _write(folder / "summary.json", summary.to_json())
        shutil.rmtree(parts)
    return summary


def _reader_of(plan: ReplayPlan, lake: Path) -> LakeReader:
    """A reader of what the plan was made over: its files, or where they were merged or moved, files that hold the same."""
    if plan.files is not None and _are_of(plan.files, lake) and plan.files.are_there():
        return open_for_replay(lake, plan.files.absolute())
    reader = open_for_replay(lake)
    if lake_digest(reader, plan.window) == plan.lake_digest:
        return reader
    reader.close()
    raise LakeError(f"{lake} has changed since this replay was planned, and files of then are gone", "plan it again")


def _are_of(files: LakeFiles, lake: Path) -> bool:
    folder = lake.absolute()
    return all(Path(path).is_relative_to(folder) for path in files.absolute().events)


def _finished(folder: Path, plan: ReplayPlan) -> RunSummary | None:
    """The summary of a complete run; None where there is none that this code wrote, or less than it says: then it is evaluated."""
    try:
        summary = summary_from_json((folder / "summary.json").read_text(encoding="utf-8"))
        planned = (folder / "plan.json").read_text(encoding="utf-8")
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    is_whole = planned == plan.to_json() and rows_in(folder / "verdicts.parquet") == summary.verdicts
    return summary if is_whole else None


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTING)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_parts(plan: ReplayPlan, reader: LakeReader, lake: Path, folder: Path, parts: list[Part], workers: int) -> Iterator[Part]:
    """Evaluate parts in any order, here and in further processes; yields each when its file is in place."""
    if not parts:
        return
    # The largest first, so that no process is left alone with one at the end.
    ordered = sorted(parts, key=lambda part: (-part.requests, part.index))
    processes = min(workers, len(parts)) - 1
    others = share_out(processes, plan, reader, lake, ordered, folder) if processes > 0 else []
    try:
        yield from _work_beside(others, Replayer(plan, reader), ordered, folder)
    except BrokenProcessPool as error:
        stop(ordered, folder)
        hint = "it may have run out of memory: run it again with fewer workers or a larger memory limit; what was finished is kept"
        raise LakeError(f"{lake}: a process of the replay ended before its part was done", hint) from error
    except BaseException:
        stop(ordered, folder)
        raise


def _work_beside(others: Sequence[Future[None]], replayer: Replayer, ordered: Sequence[Part], folder: Path) -> Iterator[Part]:
    """Take parts as the other processes do; yields every part when it is done, wherever that was."""
    waiting = {part.index: part for part in ordered}
    for _ in work_through(replayer, ordered, folder):
        yield from _finished_parts(waiting, folder)
        _look_after(others)
    while waiting:
        wait(others, _LOOK_SECONDS)
        _look_after(others)
        yield from _finished_parts(waiting, folder)


def _finished_parts(waiting: dict[int, Part], folder: Path) -> Iterator[Part]:
    for part in [part for part in waiting.values() if part_file(folder, part).exists()]:
        yield waiting.pop(part.index)


def _look_after(others: Iterable[Future[None]]) -> None:
    """Raises what ended another process's work before its time: nobody else takes the part that it had taken."""
    for other in others:
        if other.done():
            other.result()


def _merge(plan: ReplayPlan, run_id: str, folder: Path) -> RunSummary:
    """Put the parts together in their order, one after the other."""
    evaluated, not_evaluated, rows = 0, Counter[str](), 0
    unfinished = folder / "verdicts.tmp"
    with VerdictFile(unfinished) as whole:
        for file in _files(plan.parts, folder / "parts"):
            counts, table = read_part(file)
            evaluated += counts.evaluated
            not_evaluated.update(counts.not_evaluated)
            rows += table.num_rows
            whole.write(table)
    verdicts = unfinished.replace(folder / "verdicts.parquet")
    return summarize(plan, run_id, verdicts, rows, evaluated, not_evaluated)


def _files(parts: Iterable[Part], folder: Path) -> Iterator[Path]:
    return (part_file(folder, part) for part in parts)


def _write(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)
