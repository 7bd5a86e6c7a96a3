"""`hindcast gate`: its exit code is its answer, and what it prints can be shown to anybody."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path

import pytest

from api.cli import run

POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"
CLEAN = "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0"


@pytest.fixture(scope="module")
def lake(calibrated_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gate") / "lake"
    shutil.copytree(calibrated_lake, path)
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


@pytest.mark.parametrize("form", ["table", "json", "markdown", "junit", "sarif", "html"])
@pytest.mark.parametrize("command", ["gate", "readiness"])
def test_manifests_that_no_stage_reads_are_named_in_each_form_also_with_quiet(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, form: str
) -> None:
    other = tmp_path / "kyverno.yaml"
    other.write_text("apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: x}\nspec: {}\n")
    start = ["-q", "--lake", str(lake), command, "--no-calibrate", "--workers", "1"]
    run([*start, "-f", str(POLICY), "-f", str(other), "-o", form])
    shown = capsys.readouterr()
    sentence = "Hindcast cannot replay a ClusterPolicy of kyverno.io/v1"
    assert shown.err.count(sentence) == 1
    # A table leaves the caveats to its note on them; the sentence stands on the same terminal.
    assert form == "table" or sentence in html.unescape(shown.out)


def test_keys_that_yaml_reads_as_true_or_false_are_named(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = tmp_path / "labelled.yaml"
    labels = "  labels: {n: a, 'y': b, \"no\": c, On: d, true: e, 'x': f}\n"
    labelled.write_text(POLICY.read_text().replace("metadata:\n", f"metadata:\n{labels}", 1))
    run(["-q", "--lake", str(lake), "readiness", "--no-calibrate", "--workers", "1", "-f", str(labelled)])
    told = [line for line in capsys.readouterr().err.splitlines() if "is read as" in line]
    assert [line.split(": the key ")[1].split(",")[0] for line in told] == ["n is read as 'false'", "On is read as 'true'"]
    assert all(line.startswith(f"{labelled}:") for line in told)


def test_denied_workloads_and_exemptions_can_be_allowed(
    gate: list[str], lenient: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*gate, str(POLICY), *lenient, "--max-denied-workloads", "6"]) == 1
    assert run([*gate, str(POLICY), *lenient, "--max-denied-workloads", "7"]) == 0
    # A new Service is denied almost every day, so that exemptions would not hold.
    assert run([*gate, str(POLICY), *lenient, "--allow-exemptions"]) == 1
    capsys.readouterr()
    assert run([*gate, str(POLICY), "--max-denied-workloads", "7"]) == 3
    capsys.readouterr()
    assert run([*gate, str(POLICY), "--max-denied-workloads", "7", "--allow-insufficient", "--counterexamples", "0"]) == 0
    assert "counterexamples" not in capsys.readouterr().out


def test_against_the_version_before_only_new_denials_count(
    gate: list[str], lenient: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = tmp_path / "base.yaml", tmp_path / "new.yaml"
    denying = POLICY.read_text().replace("[Audit]", "[Deny]")
    base.write_text(denying)
    against = ["--against", str(base), *lenient]
    assert run([*gate, str(base), *against]) == 0
    shown = capsys.readouterr().out
    assert "NO NEW DENIALS" in shown
    assert "READY" not in shown
    new.write_text(denying.replace(CLEAN, "false").replace("messageExpression", "message").replace(" + object", " - "))
    assert run([*gate, str(new), *against, "-o", "json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    # 66 requests matched, and the old version denied 10 of them.
    assert entry["denials"]["requests"] == entry["exposure"]["requests_matched"] == 66
    assert (entry["change"]["new"]["requests"], entry["change"]["kept"]["requests"]) == (56, 10)
    assert entry["status"] == "NEW DENIALS"
    kept = {unit["audit_id"] for unit in entry["change"]["units"] if unit["fate"] == "kept"}
    assert entry["counterexamples"]
    assert not kept & {item["audit_id"] for item in entry["counterexamples"]}


def test_from_audit_to_deny_everything_audited_is_new(
    gate: list[str], lenient: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(POLICY.read_text().replace("[Audit]", "[Deny]"))
    files = [tmp_path / name for name in ("gate.xml", "gate.sarif", "gate.md")]
    written = [word for file in files for word in ("--report-file", str(file))]
    assert run([*gate, str(new), "--against", str(POLICY), *lenient, *written]) == 1
    shown = capsys.readouterr().out
    assert "10 / 7" in shown
    assert "the base denied nothing by its actions (Audit)" in shown
    assert 'message="new denials: 10 requests of 7 workloads' in files[0].read_text()
    assert {result["level"] for result in json.loads(files[1].read_text())["runs"][0]["results"]} == {"error"}
    assert "NEW DENIALS" in files[2].read_text()
    # The other way round, nothing is denied any more.
    assert run([*gate, str(POLICY), "--against", str(new), *lenient]) == 0
    assert "gone denials: only the base denies 10 requests of 7 workloads" in " ".join(capsys.readouterr().out.split())


def test_a_policy_that_has_another_name_now_can_be_paired(
    gate: list[str], lenient: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = tmp_path / "base.yaml", tmp_path / "new.yaml"
    base.write_text(POLICY.read_text().replace("[Audit]", "[Deny]"))
    new.write_text(base.read_text().replace("deny-external-ips", "no-external-ips"))
    ask = [*gate, str(new), "--against", str(base), *lenient]
    assert run(ask) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "no version before: the base has no policy named no-external-ips" in shown
    assert "--renamed deny-external-ips=no-external-ips compares with it" in shown
    assert run([*ask, "--renamed", "deny-external-ips=no-external-ips"]) == 0
    capsys.readouterr()
    assert run([*ask, "--renamed", "deny-external-ips"]) == 2
    assert run([*ask, "--renamed", "other=no-external-ips"]) == 2
    assert "--against has no policy named 'other'" in capsys.readouterr().err


def test_named_paths_are_taken_out_of_every_form(gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("gate.xml", "gate.sarif", "gate.md")]
    written = [word for file in files for word in ("--report-file", str(file))]
    assert run([*gate, str(POLICY), "--hide", "spec.externalIPs", *written]) == 1
    out = capsys.readouterr().out
    assert "[redacted]" in out
    assert "203.0.113.7" not in out.partition("counterexamples")[2]
    assert all(file.stat().st_size for file in files)
    assert "Counterexamples" in files[2].read_text()


def test_what_contradicts_itself_is_refused(gate: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*gate, str(POLICY), "--against", str(POLICY), "--allow-exemptions"]) == 2
    assert "--allow-exemptions does not go with --against" in capsys.readouterr().err
