"""open_lake over a lake on disk: what the manifest lists, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.schema import OBJECTS
from ingest.sources.files import ingest_files
from queries import open_lake, rows_of
from queries.catalog import install_files
from queries.rows import KnownPolicy

EVENT = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "level": "Metadata",
    "auditID": "one",
    "stage": "ResponseComplete",
    "requestURI": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "verb": "create",
    "user": {"username": "alice"},
    "objectRef": {
        "resource": "validatingadmissionpolicies",
        "name": "written",
        "apiGroup": "admissionregistration.k8s.io",
        "apiVersion": "v1",
    },
    "responseStatus": {"metadata": {}, "code": 201},
    "requestReceivedTimestamp": "2026-01-01T12:00:00.000000Z",
    "stageTimestamp": "2026-01-01T12:00:00.004000Z",
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def fill(lake: Lake, folder: Path) -> None:
    log = folder / "audit.jsonl"
    log.write_text(json.dumps(EVENT) + "\n")
    ingest_files(lake, [log], "lab", received_ts=0.0)


def test_no_lake_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake here"):
        open_lake(tmp_path)


def test_a_reader_sees_new_files_after_a_refresh(lake: Lake, tmp_path: Path) -> None:
    reader = open_lake(lake.path)
    assert reader.requests().fetchall() == []
    fill(lake, tmp_path)
    assert reader.requests().fetchall() == []
    assert reader.refresh() is True
    assert reader.requests().project("audit_id, user_name, outcome").fetchall() == [("one", "alice", "allowed")]
    assert reader.refresh() is False


def test_policies_are_known_from_snapshots_and_from_writes(lake: Lake, tmp_path: Path) -> None:
    fill(lake, tmp_path)
    listed = {
        "cluster": "lab",
        "observed_ts": datetime(2026, 1, 1, tzinfo=UTC),
        "kind": "ValidatingAdmissionPolicy",
        "name": "listed",
    }
    listed |= {"api_version": "admissionregistration.k8s.io/v1", "object": "{}", "source": "test"}
    with lake.writer() as writer:
        writer.commit(writer.write("objects", "lab", pa.Table.from_pylist([listed], OBJECTS)))
    found = rows_of(open_lake(lake.path).known_policies().order("policy"), KnownPolicy)
    assert found == [
        KnownPolicy("lab", "listed", listed=True, written=False, failed=False, denied=False),
        KnownPolicy("lab", "written", listed=False, written=True, failed=False, denied=False),
    ]


def test_days_are_those_of_utc_wherever_the_machine_is(lake: Lake, tmp_path: Path) -> None:
    fill(lake, tmp_path)
    question = "SELECT ts::DATE, hour(ts) FROM requests"
    code = f"from queries import open_lake; print(open_lake({str(lake.path)!r}).sql({question!r}).fetchall())"
    environment = {**os.environ, "TZ": "Pacific/Kiritimati"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[2], capture_output=True, check=True
    )
    assert run.stdout.decode().strip() == "[(datetime.date(2026, 1, 1), 12)]"


@pytest.mark.parametrize("content", [b"nonsense", None], ids=["damaged", "missing"])
def test_the_file_that_cannot_be_read_is_named_and_the_reader_shows_what_it_did(
    lake: Lake, tmp_path: Path, content: bytes | None
) -> None:
    fill(lake, tmp_path)
    broken = tmp_path / "broken.parquet"
    if content is not None:
        broken.write_bytes(content)
    with closing(open_lake(lake.path)) as reader:
        files = reader.files
        with pytest.raises(LakeError, match=r"broken\.parquet: the file cannot be read"):
            install_files(reader.connection, replace(files, events=(*files.events, str(broken))))
        assert reader.sql("SELECT count(*) FROM requests").fetchall() == [(1,)]
