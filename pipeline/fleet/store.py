"""The answers of a fleet's clusters, and the reports made of them: `LAKE/fleets/QUESTION/`.

`answers/` has one file per cluster, with the state of the events that it was made from. `report.json` is the last report, and
`manifests.yaml` what it is about.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ingest.durable import write_whole

from ..runs import RunStore
from .model import FleetCluster, FleetReport
from .question import Question

_FOLDER, _ANSWERS, _REPORT, _MANIFESTS = "fleets", "answers", "report.json", "manifests.yaml"
_FLEET_ID = re.compile(r"[0-9a-f]{16}")


class _Answer(msgspec.Struct, frozen=True):
    state: str
    cluster: FleetCluster


class FleetStore:
    """The fleets of one lake."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._folder = lake / _FOLDER

    def answer(self, question: Question, cluster: str, state: str) -> FleetCluster | None:
        """What was found for a cluster in the same state of its events; None if nothing, or if a run of it is gone."""
        try:
            found = msgspec.json.decode(self._answer_file(question, cluster).read_bytes(), type=_Answer)
        except (OSError, msgspec.DecodeError):
            return None
        runs = {cell.run_id for cell in found.cluster.cells}
        is_whole = all(RunStore(self._lake).run(run_id).verdicts.exists() for run_id in runs)
        return found.cluster if found.state == state and is_whole else None

    def keep_answer(self, question: Question, cluster: str, state: str, found: FleetCluster) -> None:
        """Keep the answer of a cluster. Nothing is kept in a lake that may only be read."""
        with suppress(OSError):
            _write(self._answer_file(question, cluster), msgspec.json.encode(_Answer(state, found)))

    def keep_report(self, report: FleetReport, question: Question) -> None:
        """Keep a report as the last one of its question. Raises OSError."""
        folder = self._folder / report.fleet_id
        _write(folder / _MANIFESTS, question.manifests.encode())
        _write(folder / _REPORT, msgspec.json.encode(report))

    def report(self, fleet_id: str) -> FleetReport | None:
        """The last report of a question; None without one, or with one of another version of Hindcast."""
        if not _FLEET_ID.fullmatch(fleet_id):
            return None
        try:
            return msgspec.json.decode((self._folder / fleet_id / _REPORT).read_bytes(), type=FleetReport)
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def has_reports(self) -> bool:
        """Whether any question has a report."""
        return next(self._folder.glob(f"*/{_REPORT}"), None) is not None

    def reports(self) -> Iterator[FleetReport]:
        """The last report of every question, the newest first."""
        files = sorted(self._folder.glob(f"*/{_REPORT}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for file in files:
            if (found := self.report(file.parent.name)) is not None:
                yield found

    def forget_without_runs(self) -> None:
        """Remove the questions that had runs, and have none in the lake any more. A lake that may only be read keeps them."""
        for folder in self._folder.glob("*"):
            report = self.report(folder.name)
            cells = [cell for each in (*report.clusters, *report.apart) for cell in each.cells] if report else []
            if cells and not any(RunStore(self._lake).run(cell.run_id).verdicts.exists() for cell in cells):
                shutil.rmtree(folder, ignore_errors=True)

    def _answer_file(self, question: Question, cluster: str) -> Path:
        name = hashlib.sha256(cluster.encode()).hexdigest()[:16]
        return self._folder / question.digest / _ANSWERS / f"{name}.json"


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, content)
