"""Conditional writes against roles that grant too much with policies that refuse the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from api.cli import run
from tests.yaml_text import load_yaml

from .test_explain import TEXT
from .test_stage import lake

__all__ = ["lake"]
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "volumes"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["persistentvolumes"]}
            ]
        },
        "validations": [{"expression": 'object.spec.?storageClassName.orValue("dev") == "dev"', "message": "only dev"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "volumes"},
    "spec": {"policyName": "volumes", "validationActions": ["Deny"]},
}


def test_each_write_is_in_one_cell(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump_all([POLICY, BINDING, load_yaml(TEXT)]))
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file), "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["matrix"]
    found = {(row["cell"], row["resource"]): row["requests"] for row in rows if row["resource"] == "persistentvolumes"}
    assert found == {
        ("both allow", "persistentvolumes"): 3,
        ("both refuse", "persistentvolumes"): 1,
        ("only conditions refuse, by an error", "persistentvolumes"): 1,
    }
    (refused,) = [row for row in rows if row["cell"] == "both refuse"]
    assert refused["policies_said"] == "only dev"
