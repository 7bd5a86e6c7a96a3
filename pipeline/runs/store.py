"""The run store: the only owner of `LAKE/runs`.

The folder of a complete run holds plan.json, verdicts.parquet and summary.json, and whatever its readers keep next to these. While
a run is incomplete, `parts/` holds its finished parts. Only the owner of a run (ingest/owning.py) makes or removes it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.durable import write_whole
from ingest.inside import refuse_links_once
from ingest.owning import owned, owned_now

from .kinds import RunKind, asked_ns, in_use, mark_kind, unused
from .summary import RunSummary, summary_from_json

_RUN_ID = re.compile(r"[0-9a-f]{16}")
_PLAN, _VERDICTS, _SUMMARY, _PARTS = "plan.json", "verdicts.parquet", "summary.json", "parts"


class RunStore:
    """The runs over one lake."""

    def __init__(self, lake: str | Path) -> None:
        refuse_links_once(Path(lake))
        self._folder = Path(lake) / "runs"

    def run(self, run_id: str) -> StoredRun:
        """The place of a run, which may not exist. Raises ValueError for an invalid id, so that a caller's text never becomes a
        path."""
        if not _RUN_ID.fullmatch(run_id):
            raise ValueError(f"{ascii(run_id)[:60]}: not the id of a run")
        return StoredRun(self._folder / run_id)

    def every(self) -> Iterator[StoredRun]:
        """Every run that has a plan, complete or not, in no order."""
        if self._folder.is_dir():
            found = (StoredRun(path) for path in self._folder.iterdir() if _RUN_ID.fullmatch(path.name))
            yield from (run for run in found if run.planned_ns is not None)


class StoredRun:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = folder.name

    @property
    def verdicts(self) -> Path:
        """The file of the verdict table; it exists once the run is complete."""
        return self.folder / _VERDICTS

    @property
    def parts(self) -> Path:
        """The folder for the finished parts of an incomplete run."""
        return self.folder / _PARTS

    @property
    def unfinished(self) -> Path:
        """Where the owner of an incomplete run writes the verdict table."""
        return self.parts / "verdicts.tmp"

    @property
    def planned_ns(self) -> int | None:
        """When the plan was written, in nanoseconds; None without a plan."""
        try:
            return (self.folder / _PLAN).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    @property
    def plan_text(self) -> str:
        """The plan as JSON. Raises FileNotFoundError."""
        return (self.folder / _PLAN).read_text(encoding="utf-8")

    @property
    def summary(self) -> RunSummary | None:
        """The summary; None while the run is incomplete. Raises ValueError for a summary of another version of Hindcast."""
        try:
            return summary_from_json((self.folder / _SUMMARY).read_bytes())
        except FileNotFoundError:
            return None

    def finished(self, plan_text: str) -> RunSummary | None:
        """The summary if the run is complete, was made with this plan, and has all its verdicts; else None."""
        try:
            summary, planned = self.summary, self.plan_text
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        is_whole = summary is not None and planned == plan_text and _rows_in(self.verdicts) == summary.verdicts
        return summary if is_whole else None

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Wait until this thread alone may make or remove the run, and keep others from it while the context lasts."""
        with suppress(OSError):  # a lake that may only be read has no run that is being made
            self.folder.parent.mkdir(exist_ok=True)
        with owned(self._lock, f"run {self.run_id}"):
            yield

    def owned_now(self) -> AbstractContextManager[bool]:
        """The same without waiting: whether this thread owns the run while the context lasts."""
        return owned_now(self._lock)

    @contextmanager
    def tried(self, plan_text: str, make: Callable[[], object]) -> Iterator[Path]:
        """The verdicts of a run that is only tried: the last one who uses it removes it, unless it was asked for as a replay, too.

        `make` makes the run, or finds it complete.
        """
        is_trial = False
        try:
            with ExitStack() as used:
                with self.owned():
                    is_trial = self._is_trial() and (self.finished(plan_text) is None or bool(self.asked_ns()))
                    make()
                    used.enter_context(self.in_use())
                yield self.verdicts
        finally:
            if is_trial:
                self._remove(self._is_trial)

    def _is_trial(self) -> bool:
        return self.asked_ns().keys() <= {RunKind.TRIAL}

    @property
    def _lock(self) -> Path:
        return self.folder.with_name(f".{self.run_id}.lock")

    def begin(self, plan_text: str) -> None:
        """Keep the plan. The folder of the parts must exist."""
        write_whole(self.folder / _PLAN, plan_text.encode())

    def finish(self, summary: RunSummary) -> None:
        """Keep the summary, which makes the run complete, and remove the parts."""
        self.summarize(summary)
        shutil.rmtree(self.parts)

    def summarize(self, summary: RunSummary) -> None:
        """Keep a summary of the verdicts as they now are."""
        write_whole(self.folder / _SUMMARY, summary.to_json().encode())

    def keep(self, name: str, content: bytes) -> None:
        """Keep a file next to the run: whole or not at all, also if two processes write it at one time."""
        write_whole(self.folder / name, content)

    def kept(self, name: str) -> bytes | None:
        """A file that was kept next to the run; None if it was not."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def mark(self, kind: RunKind) -> None:
        """See kinds.mark_kind."""
        mark_kind(self.folder, kind)

    def asked_ns(self) -> dict[RunKind, int]:
        """See kinds.asked_ns."""
        return asked_ns(self.folder)

    def in_use(self) -> AbstractContextManager[None]:
        """Keep the run from being removed while the context lasts. Several may use one run at a time."""
        return in_use(self.folder)

    @property
    def size_bytes(self) -> int:
        """The bytes of all its files."""
        return sum(_size_of(Path(folder, name)) for folder, _, names in os.walk(self.folder) for name in names)

    def remove(self) -> int | None:
        """Remove the run; returns its bytes, or None if the run stays because it is in use. Without a folder it has no bytes."""
        return self._remove(lambda: True)

    def _remove(self, may: Callable[[], bool]) -> int | None:
        with ExitStack() as held:
            try:
                is_unused = held.enter_context(self.owned_now()) and held.enter_context(unused(self.folder))
            except FileNotFoundError:
                return 0
            if not (is_unused and may()):
                return None
            size = self.size_bytes
            # The folder is renamed first, so that a run exists whole or not at all. The next removal deletes the rest of an
            # interrupted one.
            leaving = self.folder.with_name(f".{self.run_id}.removed")
            shutil.rmtree(leaving, ignore_errors=True)
            self.folder.rename(leaving)
            shutil.rmtree(leaving)
        return size

    def discard(self) -> None:
        """Remove the run without asking whether it is in use: for the owner of a run that cannot be finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _rows_in(file: Path) -> int | None:
    """How many rows a Parquet file holds; None if it is missing or not whole."""
    try:
        return pq.read_metadata(file).num_rows
    except (OSError, pa.ArrowException):
        return None


def _size_of(path: Path) -> int:
    """The bytes of a file; 0 for a file that is gone: parts are renamed while others look."""
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
