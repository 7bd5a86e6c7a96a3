"""Evidence that has expired is gone: a mark in each place of a body is looked for in the whole lake, its runs and their reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run
from api.settings import Settings
from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from pipeline.runs import RunStore
from pipeline.runs.expiry import Cut, expire_runs, expired_before
from tests.canaries import CANARY, contents
from tests.hostile import MANIFESTS
from tests.markup import read_page
from tests.querying import QueryClient
from tests.recording import Log, Object, deployment, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quotes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations:
  - expression: "object.spec.replicas < 5"
    messageExpression: "'found ' + string(object.metadata.labels.team)"
  auditAnnotations: [{key: seen, valueExpression: "string(object.metadata.labels.team)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: quotes}
spec: {policyName: quotes, validationActions: [Deny, Audit]}
"""
ORIGIN = "http://127.0.0.1:7444"
# In names, which stay as long as the event.
NAMED = "named-8c41d0e2"
BROKEN = b'{"kind":"Event","stage":5,"requestObject":{"x":"%s"}}' % CANARY.encode()


def marked(name: str, replicas: int) -> Object:
    found = deployment(name, replicas, labels={"team": CANARY}, annotations={"note": CANARY})
    found["spec"]["template"] = {"spec": {"containers": [{"name": "c", "image": f"registry/{CANARY}:1"}]}}
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    log = Log()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": CANARY}}}
    log.write("create", namespace)
    for number in range(4):
        log.write("create", marked(f"{NAMED}-{number}", 9 if number % 2 else 1), user=f"{NAMED}-user", userAgent=f"{NAMED}-agent")
    log.write("update", marked(f"{NAMED}-1", 8), user="bot")
    lake = take_in(tmp_path / "lake", log.lines)
    (tmp_path / "broken.log").write_bytes(json.dumps(log.lines[0]).encode() + b"\n" + BROKEN + b"\n")
    run(["-q", "--lake", str(lake), "ingest", str(tmp_path / "broken.log")])
    (tmp_path / "policy.yaml").write_text(POLICY)
    return lake


def judged(lake: Path) -> None:
    policy = str(lake.parent / "policy.yaml")
    for words in (
        ("readiness", "-f", policy),
        ("gate", "-f", policy),
        ("replay", "-f", policy),
        ("readiness", "-f", str(MANIFESTS / "mutating.yaml")),
        ("replay", "--level", "restricted"),
        ("replay", "-f", str(MANIFESTS / "webhooks.yaml")),
        ("fleet", "-f", policy),
        ("watch", "--once", "-f", policy),
        ("pod-security",),
        ("exemptions", "-f", policy),
        ("webhooks", "load"),
        ("calibrate",),
        ("compact",),
    ):
        assert run(["-q", "--lake", str(lake), *words]) in (0, 1, 3), words


def holding(lake: Path, mark: str = CANARY) -> list[str]:
    return sorted({str(path.relative_to(lake)) for path, data in contents(lake) if mark.encode() in data})


def settled(lake: Path) -> None:
    """The files that were replaced are deleted, as the next writer does it later."""
    opened = Lake.open(lake)
    with opened.writer() as writer:
        later = datetime.now(UTC).timestamp() + 100_000
        compact(writer, later)
        remove_retired(writer, later)
    opened.close()


DAY = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()


@pytest.mark.parametrize("option", ["--before", "--objects-before"])
def test_nothing_quotes_what_has_expired(lake: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged(lake)
    assert [each for each in holding(lake) if each.startswith("runs/")], "the test sees where runs quote a body"
    assert [each for each in holding(lake) if each.startswith("quarantine/")]
    capsys.readouterr()
    assert run(["--lake", str(lake), "expire", option, f"{DAY}T00:00:00Z", "--plan", "-o", "json"]) == 0
    planned = {row["what"]: row["files"] for row in json.loads(capsys.readouterr().out)["expired"]}
    assert run(["--lake", str(lake), "expire", option, f"{DAY}T00:00:00Z", "-o", "json"]) == 0
    done = {row["what"]: row["files"] for row in json.loads(capsys.readouterr().out)["expired"]}
    assert planned["runs"] == done["runs"] >= 4
    settled(lake)
    assert holding(lake) == []
    if option == "--before":
        assert holding(lake, NAMED) == []
    # A second call finds nothing to do.
    assert run(["--lake", str(lake), "expire", option, f"{DAY}T00:00:00Z", "-o", "json"]) == 0
    assert {row["what"]: row["files"] for row in json.loads(capsys.readouterr().out)["expired"]}["runs"] == 0


def crawled(client: QueryClient) -> Iterator[tuple[str, str]]:
    """Every page that links lead to from the first one, and the answers of the API about runs."""
    left, seen = ["/", "/api/v1/runs", "/api/v1/violations"], set[str]()
    while left and len(seen) < 150:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = client.send("GET", f"{ORIGIN}{path}")
        yield path, answer.text
        if "html" in answer.headers.get("content-type", ""):
            links = (str(link.attributes.get("href", "")) for link in read_page(answer.text).all("a"))
            left += [link.partition("#")[0] for link in links if link.startswith("/") and not link.startswith("/static")]


@pytest.mark.parametrize("option", ["--before", "--objects-before"])
def test_no_page_shows_what_has_expired(lake: Path, option: str) -> None:
    judged(lake)
    with QueryClient(Settings(lake=lake, query_seconds_max=200)) as client:
        assert any(CANARY in text for _, text in crawled(client)), "the test sees where a page quotes a body"
    assert run(["-q", "--lake", str(lake), "expire", option, f"{DAY}T00:00:00Z"]) == 0
    settled(lake)
    with QueryClient(Settings(lake=lake, query_seconds_max=200)) as client:
        pages = list(crawled(client))
    assert len(pages) > 10
    assert [path for path, text in pages if CANARY in text] == []
    if option == "--before":
        assert [path for path, text in pages if NAMED in text] == []


def test_runs_keep_their_decisions_and_say_what_is_gone(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(lake.parent / "policy.yaml")]) == 0
    (stored,) = RunStore(lake).every()
    before = pq.read_table(stored.verdicts).to_pylist()
    assert expire_runs(lake, Cut(bodies=datetime(2100, 1, 1, tzinfo=UTC))) == 1
    after = pq.read_table(stored.verdicts).to_pylist()

    def left(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        quoting = ("message", "why", "detail", "audit_annotations")
        return [{name: value for name, value in row.items() if name not in quoting} for row in rows]

    assert left(after) == left(before)
    assert not [row for row in after if row["message"] or row["audit_annotations"] or row["detail"]]
    assert pq.read_schema(stored.verdicts) == pq.read_schema(stored.verdicts).empty_table().schema
    assert stored.summary is not None
    assert stored.summary.verdicts == len(after)
    assert expired_before(stored) == datetime(2100, 1, 1, tzinfo=UTC)
    capsys.readouterr()
    assert run(["--lake", str(lake), "runs", "show", stored.run_id]) == 0
    assert "its evidence before 2100-01-01 has expired" in capsys.readouterr().err


def test_evidence_that_is_left_keeps_its_texts(lake: Path) -> None:
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(lake.parent / "policy.yaml")]) == 0
    (stored,) = RunStore(lake).every()
    before = pq.read_table(stored.verdicts)
    times = sorted(set(before["ts"].to_pylist()))
    assert expire_runs(lake, Cut(events=times[1], bodies=times[2])) == 1
    after = pq.read_table(stored.verdicts).to_pylist()
    assert [row for row in after if row["ts"] >= times[2]] == [row for row in before.to_pylist() if row["ts"] >= times[2]]
    assert {row["ts"] for row in after} == set(times[1:])
    assert not [row for row in after if row["ts"] == times[1] and row["message"]]
    # An earlier cut changes nothing more.
    assert expire_runs(lake, Cut(events=times[0], bodies=times[1])) == 0


def test_a_run_about_a_later_time_is_not_touched(lake: Path) -> None:
    words = ["-q", "--lake", str(lake), "replay", "-f", str(lake.parent / "policy.yaml"), "--since", "2020-01-01T00:00:00Z"]
    assert run(words) == 0
    (stored,) = RunStore(lake).every()
    content = stored.verdicts.read_bytes()
    assert expire_runs(lake, Cut(events=datetime(2019, 1, 1, tzinfo=UTC))) == 0
    assert stored.verdicts.read_bytes() == content
