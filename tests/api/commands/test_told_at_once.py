"""What a user learns at once: an ingest that cannot serve, a window without requests, a comparison that was skipped."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from api.cli import run
from pipeline.readiness.sql import rows_of
from queries import open_lake
from tests.recording import START, Object, deployment, recorded, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5, message: too many}]
"""


def log_of(tmp_path: Path, events: list[Object]) -> Path:
    log = tmp_path / "audit.log"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    return log


def test_an_ingest_ends_with_what_the_lake_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        recorded(f"id-{hour}", START + timedelta(hours=hour), "create", deployment(f"web-{hour}", 1), level=level)
        for hour, level in enumerate(["Metadata", "RequestResponse", "RequestResponse", "RequestResponse"])
    ]
    log = log_of(tmp_path, events)
    assert run(["--lake", str(tmp_path / "lake"), "ingest", str(log), "--cluster", "prod-1", "-o", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["lake"] == [
        {
            "cluster": "prod-1",
            "events": 4,
            "first_ts": "2026-01-01T00:00:00Z",
            "last_ts": "2026-01-01T03:00:00Z",
            "levels": ["Metadata 25 %", "RequestResponse 75 %"],
        }
    ]
    assert "notes" not in json.loads(told.out)
    assert f"next: hindcast --lake {tmp_path / 'lake'} readiness -f POLICIES" in told.err


@pytest.mark.parametrize(
    ("verb", "level", "warning"),
    [
        ("create", "Metadata", "cluster default: 1 write is at level Metadata and no other is recorded, so no object is known"),
        ("get", "RequestResponse", "cluster default: no write (create, update, patch or delete) was recorded"),
    ],
)
def test_a_log_that_no_policy_can_be_judged_by_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, level: str, warning: str
) -> None:
    log = log_of(tmp_path, [recorded("id", START, verb, deployment("web", 1), level=level)])
    assert run(["-q", "--lake", str(tmp_path / "lake"), "ingest", str(log), "-o", "json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith(warning)
    assert "hindcast init" in note


def test_an_empty_log_is_exit_code_3_until_it_was_read_with_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "audit.log"
    log.touch()
    command = ["-q", "--lake", str(tmp_path / "lake"), "ingest", str(log)]
    assert run(command) == 3
    assert "the logs hold no event, so nothing was stored" in " ".join(capsys.readouterr().out.split())
    log_of(tmp_path, [recorded("id", START, "create", deployment("web", 1))])
    assert run(command) == 0
    assert run(command) == 0  # what it holds was read before


@pytest.mark.parametrize("command", ["readiness", "replay", "gate", "exemptions", "calibrate"])
@pytest.mark.parametrize(
    "window", [["--since", "2026-02-01"], ["--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T02:00:00Z"]]
)
def test_a_window_without_a_request_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, window: list[str]
) -> None:
    days = (timedelta(), timedelta(days=1))
    take_in(tmp_path / "lake", [recorded(f"id-{day}", START + day, "create", deployment("web", 9)) for day in days])
    (tmp_path / "policy.yaml").write_text(POLICY)
    policies = [] if command == "calibrate" else ["-f", str(tmp_path / "policy.yaml")]
    assert run(["-q", "--lake", str(tmp_path / "lake"), command, *policies, *window]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "no request lies in the window" in told.err
    assert "the events of this lake are from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z" in told.err


def test_a_comparison_that_was_skipped_is_not_an_empty_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        recorded(f"id-{hour}", START + timedelta(hours=hour), "create", deployment(f"web-{hour}", 1), user=f"user-{hour}")
        for hour in range(40)
    ]
    take_in(tmp_path / "lake", events)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "rules.yaml").write_text("days_min: 0\nweekdays_min: 1\nrelease_cycles_min: 0\nmatched_units_min: 1\n")
    command = ["-q", "--lake", str(tmp_path / "lake"), "readiness", "-f", str(tmp_path / "policy.yaml")]
    command += ["--rules", str(tmp_path / "rules.yaml"), "--workers", "1", "-o", "json"]
    for option, words in (
        ("--no-calibrate", "the replay was not compared with the recorded outcomes, so its agreement is unknown"),
        ("--calibrate", "the log recorded no outcome on these resources, so the agreement of the replay is unknown"),
    ):
        assert run([*command, option]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["policies"]
        assert entry["status"] == "READY"
        assert words in entry["reasons"]
        assert entry["fidelity"]["is_compared"] == (option == "--calibrate")


def test_recorded_policies_are_sorted_by_failures_and_denials_together(tmp_path: Path) -> None:
    """A policy that failed often and never denied comes before one that failed and denied seldom."""
    failure = '[{"message":"no","policy":"often","binding":"audit","expressionIndex":0,"validationActions":["Audit"]}]'
    key = "validation.policy.admission.k8s.io/validation_failure"
    events = [
        recorded(f"id-{hour}", START + timedelta(hours=hour), "create", deployment(f"web-{hour}", 1), annotations={key: text})
        for hour, text in enumerate([failure] * 3 + [failure.replace("often", "a-seldom")])
    ]
    denial = {
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "web" is forbidden: '
        "ValidatingAdmissionPolicy 'a-seldom' with binding 'audit' denied request: no",
        "reason": "Invalid",
        "code": 422,
    }
    events.append(
        recorded(
            "id-denied", START + timedelta(hours=9), "create", deployment("web", 1), responseStatus=denial, responseObject=denial
        )
    )
    reader = open_lake(take_in(tmp_path / "lake", events))
    try:
        rows = rows_of(reader.connection, "recorded")
    finally:
        reader.close()
    assert [(row["policy"], row["failures"], row["denied_requests"]) for row in rows] == [("often", 3, 0), ("a-seldom", 1, 1)]
