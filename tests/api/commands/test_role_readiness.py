"""`hindcast readiness` and `hindcast replay` for roles: the words, the figures and the formats are those of policies."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.pipeline.stages.authorization.test_stage import ANN_READS, BY_ALL, PODS, RBAC, event, written
from tests.recording import START, Object, take_in
from tests.yaml_text import load_yaml_all

# A small log can be enough evidence under these rules.
RULES = "{matched_units_min: 1, days_min: 0, weekdays_min: 1}"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Ann reads pods, by a binding to a role. The log begins with the cluster."""
    return take_in(
        tmp_path / "lake",
        [
            *ANN_READS,
            event(14, "bob", "get", PODS, None),
        ],
    )


def files(folder: Path, *objects: Object) -> Path:
    path = folder / "roles.yaml"
    path.write_text(yaml.safe_dump_all([{"apiVersion": f"{RBAC}/v1", **each} for each in objects]))
    return path


def readiness(lake: Path, roles: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The only policy of the report."""
    rules = roles.parent / "rules.yaml"
    rules.write_text(RULES)
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(roles), "--rules", str(rules), "-o", "json", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["title"] == "Role readiness"
    (entry,) = report["policies"]
    found: dict[str, Any] = entry
    return found


EMPTY = {"kind": "ClusterRole", "metadata": {"name": "see"}, "rules": []}


def test_a_change_that_denies_is_ready_with_the_roles_that_keep_everybody_working(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = tmp_path / "extra.yaml"
    entry = readiness(lake, files(tmp_path, EMPTY), capsys, "--extra-roles", str(extra))
    assert entry["status"] == "READY WITH EXEMPTIONS"
    assert entry["denials"]["requests"] == 4
    assert [each["subject"] for each in entry["exemptions"]] == ["ann: get pods in shop"]
    role, binding = load_yaml_all(extra.read_text())
    assert (role["kind"], role["metadata"]) == ("Role", {"name": "extra-ann", "namespace": "shop"})
    assert binding["subjects"] == [{"apiGroup": RBAC, "kind": "User", "name": "ann"}]


def test_extra_roles_cover_dry_runs_and_do_not_count_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ann may also create pods, and tried to. The denials of a report and those that its extra roles undo are the same ones."""
    may = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"]}]}
    lake = take_in(
        tmp_path / "lake",
        [
            *ANN_READS[:2],
            written(1, "ClusterRole", "see", may),
            *ANN_READS[3:],
            event(14, "ann", "create", f"{PODS}?dryRun=All", BY_ALL),
        ],
    )
    entry = readiness(lake, files(tmp_path, EMPTY), capsys)
    (extra,) = entry["exemptions"]
    assert (entry["denials"]["requests"], extra["denied_requests"], extra["hides_requests"]) == (4, 4, 4)
    assert extra["subject"] == "ann: create pods, get pods in shop"


def test_without_the_search_it_is_not_ready(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = readiness(lake, files(tmp_path, EMPTY), capsys, "--no-exemptions")
    assert entry["status"] == "NOT READY"
    assert "4 of 9 judged requests" in " ".join(entry["reasons"])


def test_the_report_shows_newly_denied_requests_over_time(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    readiness(lake, files(tmp_path, EMPTY), capsys, "--no-exemptions", "--report-file", str(report))
    (chart,) = json.loads(report.read_text())["over_time"]
    assert [(row["what"], row["total"]) for row in chart["bars"]] == [("newly denied", 4), ("as recorded", 5)]


def test_what_was_refused_before_does_not_speak_against_a_change(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = readiness(lake, files(tmp_path, {**EMPTY, "metadata": {"name": "other"}}), capsys)
    assert (entry["status"], entry["denials"]["requests"]) == ("READY", 0)
    assert entry["fidelity"]["agreed"] == entry["fidelity"]["compared"] > 0


def test_little_evidence_is_insufficient(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = files(tmp_path, {**EMPTY, "metadata": {"name": "other"}})
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(roles), "--exit-code"]) == 3
    assert "INSUFFICIENT EVIDENCE" in capsys.readouterr().out


def test_replay_lists_who_is_newly_denied(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(files(tmp_path, EMPTY)), "-o", "json"]) == 0
    printed = json.dumps(json.loads(capsys.readouterr().out))
    assert "newly-denied" in printed
    assert "ClusterRoleBinding/all/ClusterRole/see" in printed


def test_mistakes_in_roles_are_named_with_their_place(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = files(tmp_path, {**EMPTY, "rules": [{"verbs": ["get"], "apiGroups": ["apps/v1"], "resources": ["deployments"]}]})
    assert run(["--lake", str(lake), "replay", "-f", str(roles), "-o", "json"]) == 0
    message = "apiGroups has 'apps/v1': a group has no version, so the rule matches nothing; it should be 'apps'"
    assert f"{roles}:1: ClusterRole see: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(("second", "newly_denied"), [(5, 4), (0, 0)])
def test_a_replay_compares_with_the_roles_of_a_moment(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], second: int, newly_denied: int
) -> None:
    """The log shows the role from its first second on; before that the role grants nothing."""
    at = (START + timedelta(seconds=second)).isoformat()
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(files(tmp_path, EMPTY)), "--against-log", at, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["requests"]
    assert (row["policy"], row["newly_denied"], row["newly_allowed"]) == ("authorization", newly_denied, 0)
