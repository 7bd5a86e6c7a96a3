"""`hindcast exemptions` of mutating policies: what they print keeps all recorded requests working."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.recording import Log, take_in
from tests.sharing import shared_lake
from tests.yaml_text import load_yaml_all

GROUP = "admissionregistration.k8s.io/v1"
SPACES = ("shop", "pay", "lab")


def policy(name: str, resource: str, key: str) -> list[dict[str, Any]]:
    """A policy that fails where an object has no such key, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    expression = f"Object{{metadata: Object.metadata{{labels: {{'{key}': object.data.{key}}}}}}}"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    return [
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {"policyName": name}},
    ]


def make(path: Path) -> None:
    log = Log(timedelta(minutes=1))
    for name in SPACES:
        log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name}})
    for number in range(12):
        space = SPACES[number % 3]
        data = {"team": "a"} if space == "shop" else {}
        metadata = {"name": f"c-{number}", "namespace": space, "uid": f"c-{number}"}
        log.write("create", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, user=f"user-{space}")
    take_in(path, log.lines)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_lake(tmp_path_factory, "mutating-exemptions", make)


def test_the_printed_policies_refuse_no_recorded_request(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two policies at once: each keeps only the exemptions that it needs."""
    given, printed = tmp_path / "given.yaml", tmp_path / "printed.yaml"
    given.write_text(yaml.safe_dump_all([*policy("team", "configmaps", "team"), *policy("owner", "configmaps", "owner")]))
    asked = ["-q", "--lake", str(lake)]
    assert run([*asked, "readiness", "-f", str(given), "-o", "json"]) == 0
    before = {each["policy"]: each["denials"]["requests"] for each in json.loads(capsys.readouterr().out)["policies"]}
    assert (before["team"], before["owner"]) == (8, 12)
    assert run([*asked, "exemptions", "-f", str(given), "-o", "manifests"]) == 0
    printed.write_text(capsys.readouterr().out)
    objects = {(each["kind"], each["metadata"]["name"]): each for each in load_yaml_all(printed.read_text()) if each}
    assert objects["MutatingAdmissionPolicy", "team"] != policy("team", "configmaps", "team")[0] or (
        objects["MutatingAdmissionPolicyBinding", "team"] != policy("team", "configmaps", "team")[1]
    )
    assert run([*asked, "readiness", "-f", str(printed), "-o", "json"]) == 0
    after = {each["policy"]: each["denials"]["requests"] for each in json.loads(capsys.readouterr().out)["policies"]}
    assert (after.get("team", 0), after.get("owner", 0)) == (0, 0)
