"""What the views say of a recorded control plane, against counts that were made from its other records (check.txt, facts.txt)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from queries import LakeReader, open_lake
from tests.pipeline.history.test_reach import told_by_both

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def reader(recorded_lake: Path) -> Iterator[LakeReader]:
    reader = open_lake(recorded_lake)
    yield reader
    reader.close()


def test_failures_are_counted_by_event_and_by_request(reader: LakeReader) -> None:
    # Five requests to attach or exec carry theirs in two stages.
    assert reader.evidence().aggregate("sum(with_failures)::INT, sum(failures)::INT, sum(events)::INT").fetchall() == [
        (919, 919, 16375)
    ]
    assert reader.violations().aggregate("count(*)").fetchall() == [(914,)]


def test_denials_are_counted_by_request_and_not_by_event(reader: LakeReader) -> None:
    denied = reader.denials().filter("denier = 'vap'")
    assert denied.aggregate("count(*), count(policy), count(binding)").fetchall() == [(657, 657, 657)]
    said = reader.sql("SELECT count(*) FROM events WHERE contains(status_message, 'ValidatingAdmissionPolicy ''')")
    assert said.fetchall() == [(663,)]


def test_other_deniers_are_told_apart(reader: LakeReader) -> None:
    counts = dict(reader.sql("SELECT outcome, count(*) FROM requests GROUP BY ALL").fetchall())
    assert {
        name: counts[name] for name in ("podsecurity", "quota", "webhook", "disruption_budget", "authentication", "exists")
    } == {
        "podsecurity": 16,
        "quota": 30,
        "webhook": 1,
        "disruption_budget": 1,
        "authentication": 8,
        "exists": 2,
    }


def test_annotations_of_policies_are_told_from_those_of_webhooks(reader: LakeReader) -> None:
    by_policy = reader.audit_annotations().filter("declared_by = 'policy'")
    assert by_policy.aggregate("count(DISTINCT (cluster, audit_id, ts))").fetchall() == [(638,)]
    others = reader.audit_annotations().filter("declared_by <> 'policy'").project("policy").distinct().order("policy").fetchall()
    assert others == [("images.lab.example.com",), ("record.lab.example.com",)]


def test_policies_ran_where_the_views_say_so(reader: LakeReader, shared: Path) -> None:
    """The trace has every request whose admission reached the policies, but for Events from before there were any."""
    reached = set()
    with (shared / "data/control-plane-a/trace.jsonl.zst").open("rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"):
            reached.add(json.loads(line)["auditID"])
    rows = reader.sql("SELECT audit_id, ran, outcome, verb, resource, ran_reason FROM admission_writes").fetchall()
    wrongly_no = [row for row in rows if row[1] == "no" and row[0] in reached]
    wrongly_yes = [row for row in rows if row[1] == "yes" and row[0] not in reached and row[4] != "events"]
    assert wrongly_no == []
    assert wrongly_yes == []


def test_sql_and_python_say_the_same_of_how_far_each_request_came(reader: LakeReader) -> None:
    both = told_by_both(reader)
    assert len(both) > 16_000
    assert [sql for sql, _ in both] == [python for _, python in both]


def test_no_check_fails(reader: LakeReader) -> None:
    found = {check.name: check.rows for check in reader.checks() if check.rows}
    # Leases, Events, Secrets and tokens are recorded at level Metadata.
    assert found == {"writes_have_bodies": 7}
