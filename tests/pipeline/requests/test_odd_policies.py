"""Odd policies among those that were bound: no command ends for them, and what the others decided stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli import EXIT_IN_PART, run
from pipeline import run_replay
from pipeline.cel.defects import DEFECT
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import open_lake

Cluster = Any
Ingest = Callable[[Cluster], Path]

GROUP = "admissionregistration.k8s.io"
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"], "scope": "*"}
LIMIT = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "object.spec.replicas <= 5"}]}
ODD: dict[str, Any] = {
    # Kubernetes 1.37 takes it; this replay is of 1.36.
    "backtick": LIMIT
    | {"variables": [{"name": "a", "expression": "object.metadata.`b`"}], "validations": [{"expression": "variables.a == 1"}]},
    "unbounded": LIMIT | {"validations": [{"expression": "[authorizer.requestResource].size() == 1"}]},
    "nothing": None,
    "no-rules": {"matchConstraints": {"resourceRules": "all"}, "validations": 5},
    "no-expression": LIMIT | {"validations": [{"expression": None}, {}, "x"]},
    "no-names": LIMIT | {"variables": [{"expression": "1"}], "paramKind": {"kind": 1}},
}

UNREADABLE = {"nothing", "no-rules", "no-expression", "no-names"}


def bind(cluster: Cluster, policies: dict[str, Any]) -> None:
    """Policies and a binding of each, and enough time for all to be in force."""
    for name, spec in policies.items():
        bound = {"policyName": name, "validationActions": ["Audit"]}
        for kind, plural, value in (
            ("", "validatingadmissionpolicies", spec),
            ("Binding", "validatingadmissionpolicybindings", bound),
        ):
            metadata = {"name": name, "uid": f"{name}{kind}", "resourceVersion": str(1000 + len(cluster.events))}
            obj = {"kind": f"ValidatingAdmissionPolicy{kind}", "apiVersion": f"{GROUP}/v1", "metadata": metadata, "spec": value}
            cluster.event("create", f"{GROUP}/{plural}", name, 201, obj, obj)
            cluster.events[-1]["objectRef"].pop("namespace")
    for _ in range(3):
        cluster.deployment("update", "busy", replicas=1)
    for replicas in (1, 3, 9):
        cluster.deployment("create", f"late-{replicas}", replicas=replicas)


def counted(lake: Path) -> dict[str, Any]:
    """What a replay of what was bound says of each policy."""
    reader = open_lake(lake, threads=1)
    try:
        summary = run_replay(plan_replay_from_log(reader), lake)
    finally:
        reader.close()
    assert {item.policy for item in summary.defects} == UNREADABLE
    return {item.policy: item for item in summary.bindings}


def test_odd_recorded_policies_cost_no_other_its_verdicts(cluster: Cluster, ingest: Ingest) -> None:
    bind(cluster, {"limit": LIMIT, **ODD})
    found = counted(ingest(cluster))
    limit = found["limit"]
    assert (limit.matched, limit.admit, limit.deny) == (3, 2, 1)
    assert found["backtick"].deny == 3  # it fails: failurePolicy makes that a denial
    assert found["unbounded"].admit == 3


def test_no_command_ends_for_them(cluster: Cluster, ingest: Ingest, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bind(cluster, {"limit": LIMIT, **ODD})
    manifest = {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "mine"}, "spec": LIMIT}
    mine = tmp_path / "mine.yaml"
    mine.write_text(json.dumps(manifest))
    lake = str(ingest(cluster))
    for command, shown in (
        (["replay", "--from-log", "2026-01-02T00:00:00Z"], "unbounded"),
        (["calibrate"], "limit"),
        (["readiness", "--no-exemptions", "-f", str(mine)], "mine"),
    ):
        assert run(["-q", "--lake", lake, *command, "--workers", "1"]) == EXIT_IN_PART
        said = capsys.readouterr()
        assert shown in said.out
        for name in UNREADABLE:
            assert f"policy {name} could not be judged: the recorded ValidatingAdmissionPolicy cannot be read: " in said.err


def test_a_run_with_a_defect_names_the_policy_and_is_no_success(
    cluster: Cluster, ingest: Ingest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A finished run is not evaluated again: what its summary says of defects is what a command tells."""
    bind(cluster, {"limit": LIMIT})
    command = ["-q", "--lake", str(ingest(cluster)), "replay", "--from-log", "2026-01-02T00:00:00Z", "--workers", "1"]
    assert run(command) == 0
    (kept,) = (tmp_path / "lake" / "runs").glob("*/summary.json")
    summary = json.loads(kept.read_text())
    summary["defects"] = [{"policy": "limit", "why": f"{DEFECT}: ValueError: x (pipeline/cel/costs/bounds.py:1)", "requests": 3}]
    kept.write_text(json.dumps(summary))
    capsys.readouterr()
    assert run(command) == EXIT_IN_PART
    shown = capsys.readouterr()
    assert f"policy limit could not be judged in 3 requests: {DEFECT}: ValueError: x (pipeline/cel/costs/bounds.py:1)" in shown.err
    assert "limit" in shown.out
