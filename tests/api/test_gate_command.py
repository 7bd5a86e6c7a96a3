"""`hindcast gate`: its exit code is its answer, and what it prints can be shown to anybody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from api.cli import run

POLICY = Path(__file__).parents[2] / "api" / "demo" / "policies" / "deny-external-ips.yaml"
CLEAN = "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0"


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gate") / "lake"
    shutil.copytree(demo_lake, path)
    return path


@pytest.fixture
def gate(lake: Path) -> list[str]:
    return ["-q", "--lake", str(lake), "gate", "--no-calibrate", "--workers", "1", "-f"]


@pytest.fixture
def lenient(tmp_path: Path) -> list[str]:
    rules = tmp_path / "rules.yaml"
    rules.write_text("{days_min: 0, weekdays_min: 1, matched_units_min: 1, latent_denied_max: 1000}")
    return ["--rules", str(rules)]


def test_a_policy_that_would_deny_does_not_pass(gate: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*gate, str(POLICY), "-o", "json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert entry["status"] == "NOT READY"
    assert len(entry["counterexamples"]) == 5
    # Only what the denial depends on is shown.
    assert {json.dumps(sorted(item["object"])) for item in entry["counterexamples"]} == {'["spec"]'}
    assert {json.dumps(sorted(item["object"]["spec"])) for item in entry["counterexamples"]} == {'["externalIPs"]'}


def test_denied_workloads_and_exemptions_can_be_allowed(
    gate: list[str], lenient: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*gate, str(POLICY), *lenient, "--max-denied-units", "6"]) == 1
    assert run([*gate, str(POLICY), *lenient, "--max-denied-units", "7"]) == 0
    assert run([*gate, str(POLICY), *lenient, "--allow-exemptions"]) == 0
    capsys.readouterr()
    assert run([*gate, str(POLICY), "--max-denied-units", "7"]) == 3
    capsys.readouterr()
    assert run([*gate, str(POLICY), "--max-denied-units", "7", "--allow-insufficient", "--counterexamples", "0"]) == 0
    assert "counterexamples" not in capsys.readouterr().out


def test_against_the_version_before_only_new_denials_count(
    gate: list[str], lenient: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.yaml"
    against = ["--against", str(POLICY), *lenient]
    assert run([*gate, str(POLICY), *against]) == 0
    new.write_text(POLICY.read_text().replace(CLEAN, f"({CLEAN}) && object.spec.type != 'NodePort'"))
    capsys.readouterr()
    code = run([*gate, str(new), *against, "-o", "json"])
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert code == (1 if entry["denials"]["requests"] else 0)
    assert all("externalIPs are not" not in item["message"] for item in entry["counterexamples"])
    new.write_text(POLICY.read_text().replace(CLEAN, "false").replace("messageExpression", "message").replace(" + object", " - "))
    assert run([*gate, str(new), *against, "-o", "json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    # 66 requests matched, of which the old version denied 10.
    assert entry["denials"]["requests"] == entry["exposure"]["requests_matched"] == 56


def test_named_paths_are_taken_out_of_every_form(gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("gate.xml", "gate.sarif", "gate.md")]
    written = [word for file in files for word in ("--report-file", str(file))]
    assert run([*gate, str(POLICY), "--redact", "spec.externalIPs", *written]) == 1
    out = capsys.readouterr().out
    assert "[redacted]" in out
    assert "203.0.113.7" not in out.partition("counterexamples")[2]
    assert all(file.stat().st_size for file in files)
    assert "Counterexamples" in files[2].read_text()


def test_what_contradicts_itself_is_refused(gate: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*gate, str(POLICY), "--against", str(POLICY), "--allow-exemptions"]) == 2
    assert "--allow-exemptions does not go with --against" in capsys.readouterr().err
