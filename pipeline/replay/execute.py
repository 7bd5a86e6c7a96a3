"""Walking a plan: parts are evaluated by worker processes, kept as they are finished, and put together in the order of the plan.

`LAKE/runs/RUN_ID/` holds plan.json, verdicts.parquet and summary.json when a run is complete, and `parts/` while it is not. A run
that was interrupted goes on with the parts that are missing; one that is complete is not run again.
"""

from __future__ import annotations

import gc
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa

from ingest.errors import LakeError
from queries import LakeReader

from .plan import Part, ReplayPlan, lake_digest
from .summary import RunSummary, summarize, summary_from_json
from .verdicts import ENCODED, VerdictFile
from .worker import PartResult, Replayer, open_for_replay

Progress = Callable[[int, int], None]

_COUNTS = "hindcast.counts"
# What a replay makes it keeps until its part is done, or drops at once. Looking for cycles among the newest every 700 objects, and
# now and then through all of them, as Python does by default, finds nothing and takes long.
_COLLECTING = (500_000, 10, 100)
_PART_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_replayer: Replayer | None = None  # of this worker process


class Counts(msgspec.Struct, frozen=True):
    """How many requests of a part were evaluated or not, by reason; kept in its file."""

    evaluated: int
    not_evaluated: dict[str, int]


def runs_folder(lake: Path) -> Path:
    """Where the runs over a lake are kept."""
    return lake / "runs"


def run_replay(plan: ReplayPlan, lake_path: str | Path, workers: int = 1, progress: Progress | None = None) -> RunSummary:
    """Evaluate a plan over the lake it was made for. The same plan gives the same bytes, whatever the number of workers.

    `progress(done, planned)` is called with numbers of requests. Raises LakeError if the lake has changed since it was planned.
    """
    lake, run_id = Path(lake_path), plan.run_id
    folder = runs_folder(lake) / run_id
    if (finished := _finished(folder)) is not None:
        return finished
    parts = folder / "parts"
    with closing(open_for_replay(lake)) as reader, _collecting_seldom():
        if lake_digest(reader, plan.window) != plan.lake_digest:
            raise LakeError(f"{lake} has changed since this replay was planned", "plan it again, or give it an end (--until)")
        parts.mkdir(parents=True, exist_ok=True)
        _write(folder / "plan.json", plan.to_json())
        missing = [part for part in plan.parts if _counts_of(_part_file(parts, part)) is None]
        done = plan.requests - sum(part.requests for part in missing)
        for part in _run_parts(plan, reader, lake, parts, missing, workers):
            done += part.requests
            if progress is not None:
                progress(done, plan.requests)
    summary = _merge(plan, run_id, folder)
    _write(folder / "summary.json", summary.to_json())
    shutil.rmtree(parts)
    return summary


def _finished(folder: Path) -> RunSummary | None:
    """The summary of a complete run; None where there is none that this code wrote: then the run is evaluated."""
    try:
        return summary_from_json((folder / "summary.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTING)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_parts(plan: ReplayPlan, reader: LakeReader, lake: Path, folder: Path, parts: list[Part], workers: int) -> Iterator[Part]:
    """Evaluate parts in any order, here and in further processes; yields each when its file is in place."""
    if not parts:
        return
    if min(workers, len(parts)) <= 1:
        replayer = Replayer(plan, reader)
        for part in parts:
            _replay_to_file(replayer, part, folder)
            yield part
        return
    # Forked processes would inherit threads of DuckDB and Arrow in the middle of something.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(parts)) - 1, context, _start_worker, (plan, lake)) as pool:
        # The largest first, so that no worker is left alone with one at the end.
        ordered = sorted(parts, key=lambda part: (-part.requests, part.index))
        futures = {pool.submit(_work, part, folder): part for part in ordered}
        try:
            yield from _share(Replayer(plan, reader), futures, folder)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _share(replayer: Replayer, futures: Mapping[Future[None], Part], folder: Path) -> Iterator[Part]:
    """Take parts that no other process has begun, from the end; yields every part when it is done, wherever that was."""
    others = dict(futures)
    for future, part in reversed(list(futures.items())):
        if future.cancel():
            del others[future]
            _replay_to_file(replayer, part, folder)
            yield part
        for done in [each for each in others if each.done()]:
            done.result()
            yield others.pop(done)
    for done in as_completed(others):
        done.result()
        yield others[done]


def _start_worker(plan: ReplayPlan, lake: Path) -> None:
    global _replayer
    gc.set_threshold(*_COLLECTING)
    _replayer = Replayer(plan, open_for_replay(lake))


def _work(part: Part, folder: Path) -> None:
    assert _replayer is not None
    _replay_to_file(_replayer, part, folder)


def _replay_to_file(replayer: Replayer, part: Part, folder: Path) -> None:
    _write_part(replayer.replay(part), _part_file(folder, part))


def _part_file(folder: Path, part: Part) -> Path:
    return folder / f"{part.index:06}.arrow"


def _write_part(result: PartResult, file: Path) -> None:
    """Keep a part as Arrow's own file: it is read once, and to make Parquet of it twice would take longer than this."""
    counts = Counts(result.evaluated, dict(sorted(result.not_evaluated.items())))
    table = result.verdicts.replace_schema_metadata({_COUNTS: msgspec.json.encode(counts)})
    unfinished = file.with_suffix(".tmp")
    with pa.ipc.new_file(str(unfinished), table.schema, options=_PART_OPTIONS) as part:
        part.write_table(table)
    unfinished.replace(file)


def _counts_of(file: Path) -> Counts | None:
    """What a part says of its requests; None if it is not there, damaged, or of other code: then it is to be made."""
    try:
        with pa.ipc.open_file(str(file)) as part:
            stored = part.schema
        if not stored.equals(ENCODED):
            return None
        return msgspec.json.decode((stored.metadata or {})[_COUNTS.encode()], type=Counts)
    except (OSError, pa.ArrowException, KeyError, msgspec.DecodeError):
        return None


def _read_part(file: Path) -> tuple[Counts, pa.Table]:
    """A part that was there a moment ago. Raises LakeError if it cannot be read to its end."""
    counts = _counts_of(file)
    try:
        if counts is not None:
            with pa.ipc.open_file(str(file)) as part:
                return counts, part.read_all().replace_schema_metadata(None)
    except (OSError, pa.ArrowException):
        pass
    raise LakeError(f"{file}: this part of a replay cannot be read", "remove it and run the replay again: it alone is made anew")


def _merge(plan: ReplayPlan, run_id: str, folder: Path) -> RunSummary:
    """Put the parts together in their order, one after the other."""
    evaluated, not_evaluated, rows = 0, Counter[str](), 0
    unfinished = folder / "verdicts.tmp"
    with VerdictFile(unfinished) as whole:
        for file in _files(plan.parts, folder / "parts"):
            counts, table = _read_part(file)
            evaluated += counts.evaluated
            not_evaluated.update(counts.not_evaluated)
            rows += table.num_rows
            whole.write(table)
    verdicts = unfinished.replace(folder / "verdicts.parquet")
    return summarize(plan, run_id, verdicts, rows, evaluated, not_evaluated)


def _files(parts: Iterable[Part], folder: Path) -> Iterator[Path]:
    return (_part_file(folder, part) for part in parts)


def _write(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)
