"""Judges every cluster of a lake, one after the other, and keeps each answer next to its run.

An interrupted question goes on where it stopped when it is asked again: a run keeps its finished parts, and a cluster whose events
have not changed is not judged a second time. Memory is that of one cluster: one database serves all of them in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from ingest.errors import EvidenceError, LakeError
from ingest.lake import Lake
from queries import open_lake
from queries.lake import files_of

from ..requests.kept.facts import facts_of
from ..requests.kept.whole import losses_of
from ..runs.window import object_digest
from .across import fleet_report
from .member import Judged, Step, judge_cluster, refused
from .model import FleetReport
from .question import Question
from .store import FleetStore


def clusters_of(lake: Path) -> list[str]:
    """The names of the clusters that have events, in their order. Raises LakeError."""
    with closing(Lake.open(lake)) as opened:
        return sorted({file.cluster for file in opened.manifest.files("events")})


def judge_fleet(
    lake: Path,
    question: Question,
    *,
    clusters: list[str] | None = None,
    workers: int = 1,
    asked_ts: datetime | None = None,
    begin: Callable[[int, int, str], None] = lambda done, total, cluster: None,
    step: Step | None = None,
    judged: Judged = lambda cluster, judgement: None,
) -> FleetReport:
    """Judge some clusters of a lake, by default all. Only a report on all is kept in the lake.

    `begin` is called before each cluster, with how many are done; `step` with the progress of a replay; `judged` with the name of a
    cluster and the reports on it. Raises LakeError, EvidenceError for a lake without clusters, and InputError for manifests that
    cannot be read.
    """
    names = clusters_of(lake) if clusters is None else clusters
    if not names:
        raise EvidenceError(f"{lake}: the lake has no cluster", "ingest the logs of clusters, each with --cluster NAME")
    store, members = FleetStore(lake), []
    ledger: pa.Table | None = None
    with closing(open_lake(lake)) as whole, closing(Lake.open(lake)) as opened:
        if clusters is None:
            facts_of(whole)  # two queries count the files of all clusters; those of one cluster after the other take far longer
        for number, name in enumerate(names):
            begin(number, len(names), name)
            try:
                with closing(whole.narrowed(files_of(opened, name))) as reader:
                    state = f"{facts_of(reader).state}-{object_digest(reader)}"
                    found = store.answer(question, name, state)
                    if found is None:
                        ledger = losses_of(whole) if ledger is None else ledger
                        reader.ledger = _of_cluster(ledger, name)
                        found = judge_cluster(lake, reader, name, question, workers, step, judged)
                        store.keep_answer(question, name, state, found)
            except LakeError as error:
                found = refused(name, error)
            members.append(found)
        begin(len(names), len(names), "")
    report = fleet_report(question, members, asked_ts)
    if clusters is None:  # a report on some clusters must not replace the one on all
        with suppress(OSError):  # a lake that may only be read
            store.keep_report(report, question)
    return report


def _of_cluster(ledger: pa.Table, cluster: str) -> pa.Table:
    """The losses of one cluster, and the losses whose cluster is unknown."""
    names: list[str | None] = ledger["cluster"].to_pylist()
    return ledger.filter(pa.array([name in (None, cluster) for name in names], pa.bool_()))
