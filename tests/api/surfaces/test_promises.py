"""Commands say READY only where a server would admit, and hide no part of their answer: tests/cases/admission."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run

CASES = Path(__file__).parents[2] / "cases" / "admission"
Rows = Callable[..., Mapping[tuple[str, str], Any]]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One lake for each log of the cases, by its folder; and one of 88 creates of ConfigMaps on nine days."""
    folder = tmp_path_factory.mktemp("promises")
    create = (CASES / "create.json").read_text()
    changes = [
        {"app-N": f"app-{n % 24}", "cm-N": f"cm-{n}", "RV": str(1_001 + n), "00ID": f"{n:04}"}
        | {"TIME": f"2026-11-{20 + n % 9}T{9 + n % 5:02}:{n % 60:02}:05"}
        for n in range(88)
    ]
    lines = []
    for each in changes:
        line = create
        for old, new in each.items():
            line = line.replace(old, new)
        lines.append(json.dumps(json.loads(line)))
    (folder / "creates.jsonl").write_text("\n".join(lines))
    logs = {"creates": folder / "creates.jsonl"} | {log.parent.name: log for log in CASES.glob("*/*.jsonl")}
    for name, log in logs.items():
        assert run(["-q", "--lake", str(folder / name), "ingest", str(log)]) == 0
    return folder


@pytest.fixture
def rows(lakes: Path, tmp_path: Path) -> Rows:
    def replayed(name: str, manifest: str, *options: str) -> Mapping[tuple[str, str], Any]:
        """The rows of a replay by the end of the audit ID and the policy; `request` is the row of the request as a whole."""
        out = tmp_path / "verdicts.parquet"
        words = ["-q", "--lake", str(lakes / name), "replay", "-f", str(CASES / name / manifest), "--export", str(out), *options]
        assert run(words) == 0
        return {(row["audit_id"][-4:], row["policy"] or "request"): row for row in pq.read_table(out).to_pylist()}

    return replayed


def test_a_mutating_policy_that_is_ready_passes_a_gate(lakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = str(lakes / "creates")
    for command in (["gate"], ["readiness", "--exit-code"]):
        assert run(["-q", "--lake", lake, *command, "-f", str(CASES / "team.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "team: READY" in shown
    assert "mutating" not in [line.split()[0] for line in shown.splitlines() if line.strip()]


def test_a_default_and_the_policy_that_requires_it_are_not_judged_apart(rows: Rows, lakes: Path, capsys: Any) -> None:
    found = rows("map-then-require", "policies.yaml")
    assert found["0002", "team"]["decision"] == "changed"
    # Mutation comes first, so that the requirement sees the label.
    assert found["0002", "need"]["decision"] == found["0002", "request"]["decision"] == "admit"
    policies = str(CASES / "map-then-require" / "policies.yaml")
    ask = ["-q", "--lake", str(lakes / "map-then-require")]
    capsys.readouterr()
    assert run([*ask, "explain", found["0002", "need"]["audit_id"], "-f", policies, "-o", "json"]) == 0
    told = [each for made in json.loads(capsys.readouterr().out)["explanations"] for each in made["policies"]]
    assert {each["decision"] for each in told if each["policy"] == "need"} == {"admit"}
    assert run([*ask, "readiness", "-f", policies]) == 0
    assert "unknown:" not in capsys.readouterr().out.partition("need: ")[2]


def test_pod_security_judges_what_mutation_leaves(rows: Rows) -> None:
    found = rows("map-pod-security", "policy.yaml")
    assert 'violates PodSecurity "baseline:latest": privileged' in found["0003", "netinit"]["why"]
    assert found["0004", "netinit"]["decision"] == "changed"
    both = rows("map-pod-security", "both.yaml")
    assert {row["decision"] for (event, _), row in both.items() if event == "0003"} == {"unknown"}


@pytest.mark.parametrize(
    ("manifest", "version", "is_refused"), [("v1alpha1", "1.33", True), ("v1beta1", "1.34", True), ("v1", "1.36", False)]
)
def test_an_entry_twice_in_a_list(rows: Rows, manifest: str, version: str, is_refused: bool) -> None:
    row = rows("map-old-servers", f"{manifest}.yaml", "--kubernetes-version", version)["0002", "mutating"]
    assert (row["decision"], row["code"]) == (("error", 403) if is_refused else ("changed", None))
    assert ('.env: duplicate entries for key [name="A"]' in (row["message"] or "")) == is_refused


def test_an_api_that_a_server_does_not_have(lakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = CASES / "map-old-servers" / "v1.yaml"
    words = ["-q", "--lake", str(lakes / "map-old-servers"), "replay", "-f", str(manifest), "--kubernetes-version", "1.33"]
    assert run(words) == 0
    said = capsys.readouterr().err
    assert f"{manifest}:" in said
    assert "Kubernetes 1.33 does not serve admissionregistration.k8s.io/v1 MutatingAdmissionPolicy: it comes with 1.36" in said


@pytest.mark.parametrize("manifest", ["audit", "deny"])
def test_a_param_that_may_be_missing_denies_whatever_the_actions_are(rows: Rows, manifest: str) -> None:
    assert rows("audit-config-error", f"{manifest}.yaml")["0001", "request"]["decision"] == "unknown"


@pytest.mark.parametrize(("version", "decision"), [("1.31", "admit"), ("1.32", "deny")])
def test_calls_of_libraries_cost_nothing_of_their_own_before_1_32(rows: Rows, version: str, decision: str) -> None:
    row = rows("cel-authorizer-cost", "policy.yaml", "--kubernetes-version", version)["0001", "request"]
    assert row["decision"] == decision


@pytest.mark.parametrize(("manifest", "text"), [("level", 'Invalid value: "restrict"'), ("version", 'Invalid value: "1.30"')])
@pytest.mark.parametrize("command", ["replay", "readiness"])
def test_labels_that_a_server_refuses(lakes: Path, capsys: Any, command: str, manifest: str, text: str) -> None:
    labels = str(CASES / "psa-labels-refused" / f"{manifest}.yaml")
    assert run(["-q", "--lake", str(lakes / "psa-labels-refused"), command, "-f", labels]) == 2
    assert text in capsys.readouterr().err


def test_a_namespace_that_nobody_has(lakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lakes / "creates"), "replay", "--level", "baseline", "--namespace", "nope"]) == 2
    assert "the log shows no namespace 'nope'" in capsys.readouterr().err


def test_quiet_hides_no_part_of_the_answer(lakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lakes / "quiet"), "least-privilege", "--subject", "approver"]) == 0
    told = capsys.readouterr()
    assert "1 of 3 requests allowed, 0 refused, 2 unknown" in told.err
    header = [line for line in told.out.splitlines() if line.startswith("#")]
    assert any("the signer of the certificate is not recorded" in line for line in header)


def test_errors_of_a_policy_are_counted_apart(lakes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "policy.yaml"
    manifest.write_text(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: wrong}\n"
        "spec:\n  matchConstraints:\n    resourceRules:\n"
        "    - {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}\n"
        "  validations: [{expression: object.replicas > 1}]\n"
    )
    assert run(["-q", "--lake", str(lakes / "creates"), "readiness", "-f", str(manifest), "-o", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert entry["denials"]["requests_failed"] == entry["denials"]["requests"] == 88
    assert [(each["expression_index"], each["requests"]) for each in entry["failed"]] == [(0, 88)]
    assert entry["reasons"][0].startswith("88 of 88 denials are errors of validations[0]: ")
    assert entry["reasons"][0].endswith("no such key: replicas; mend the policy")
