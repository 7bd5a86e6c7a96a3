"""A manifest with an expression of the newest library: refused where it is new, replayed where a cluster has it stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.cli import run
from tests.recording import Log, deployment, take_in

POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "versions"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
            ]
        },
        "validations": [{"expression": "isSemver('1.2.3')"}],
    },
}


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_lake_says_whether_an_expression_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_stored: bool) -> None:
    log = Log()
    log.write("create", POLICY if is_stored else {**POLICY, "metadata": {"name": "another"}})
    log.write("create", deployment("web", 1))
    lake, file = take_in(tmp_path / "lake", log.lines), tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    command = ["--lake", str(lake), "replay", "-f", str(file), "--kubernetes-version"]
    assert run([*command, "1.34"]) == 0
    capsys.readouterr()
    assert run([*command, "1.33"]) == (0 if is_stored else 2)
    said = capsys.readouterr().err
    assert ("undeclared reference to 'isSemver'" in said) is ("with the CEL of 1.32" in said) is not is_stored
