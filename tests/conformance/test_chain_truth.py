"""What a real server answered to writes under sets of mutating policies, and what the mutating stage says of these writes.

`../shared/data/chain-a` has each write of a story as a dry run under each of 15 sets. A mutation that counts as admitted must have
been admitted: later stages refuse some of the changed objects, and until these are replayed such a row is unknown.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.checks.snapshot_time import time_taken
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from ingest.sources.snapshot_content import snapshot_content
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs import RunStore
from pipeline.stages.registry import MUTATING
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recorded_files import rows_of
from tests.sharing import shared_lake

pytestmark = pytest.mark.conformance

# Sets with mutating policies. A change that lowers the number of admitted rows that are known must say why.
SETS = ("01", "02", "03", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15")
ADMITTED_MIN = 2_290
# Policies of the set itself judge the changed object in a row of their own.
OF_THE_SET = ("own-registry", "cr-level", "home-region", "team-must", "rev-step", "status-seen", "scale-down")


@pytest.fixture(scope="module")
def chain_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = shared / "data" / "chain-a"

    def make(path: Path) -> None:
        lake = Lake.create(path)
        ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
        now = datetime(2026, 11, 27, 2, tzinfo=UTC)
        for name in ("1-before", "2-changed", "3-after"):
            snapshot = [source / "snapshots" / name]
            with closing(open_lake(path)) as reader:
                taken = time_taken(reader, "lab", snapshot_content(lake, snapshot, "lab", now), None, now)
            ingest_snapshot(lake, snapshot, "lab", taken.moment)
        lake.close()

    return shared_lake(tmp_path_factory, "chain", make)


def rows_under(lake: Path, folder: Path) -> list[dict[str, Any]]:
    """The rows of requests as wholes under the mutating policies of a set."""
    rules = MUTATING.read(manifests_of(list(texts_of([folder]))))
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, rules, Asked(kubernetes_version=(1, 36)))
    MUTATING.run(plan, lake)
    verdicts = RunStore(lake).run(plan.run_id).verdicts
    rows: list[dict[str, Any]] = pq.read_table(verdicts, filters=[("policy", "=", "mutating")]).to_pylist()
    return rows


def test_what_counts_as_admitted_was_admitted(shared: Path, chain_lake: Path) -> None:
    source = shared / "data" / "chain-a"
    truth = {(row["set"], row["auditID"]): row for row in rows_of(source / "truth.jsonl.zst")}
    wrong: list[str] = []
    counts = Counter[str]()
    for folder in sorted((source / "sets").iterdir()):
        if folder.name[:2] not in SETS:
            continue
        for row in rows_under(chain_lake, folder):
            answer = truth.get((folder.name, row["audit_id"]))
            # What the cluster refused anyway is no promise.
            if answer is None or answer["recordedCode"] >= 400 or answer.get("orderDependent"):
                continue
            refused = row["effect"] == "deny" or row["flip"] == "newly-denied"
            said = "unknown" if row["decision"] == "unknown" else "deny" if refused else "allow"
            counts[f"{said} {answer['decision']}"] += 1
            by = str(answer.get("decidedBy") or "")
            if said not in ("unknown", answer["decision"]) and by.rpartition(":")[2] not in OF_THE_SET:
                wrong.append(f"{folder.name} {row['audit_id']}: {row['decision']}, {answer['code']} of {by}")
    # The level of set 15 is given with its policies, and Pod Security has rows of its own.
    assert [each for each in wrong if not each.startswith("15") or "pod-security" not in each] == []
    assert counts["allow allow"] >= ADMITTED_MIN, counts
