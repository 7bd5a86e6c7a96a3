"""Recorded patches of webhooks in shapes that no API server writes: tests/cases/history/hostile_patches.yaml.

Every command that reads them ends without a traceback, and says that they do not fit.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.recording import START, recorded, take_in
from tests.yaml_text import load_yaml

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[2] / "cases" / "history" / "hostile_patches.yaml").read_text())
HOOK = {"configuration": "hooks", "webhook": "w.example.com"}
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
SELECTED = {"objectSelector": {"matchLabels": {"a": "b"}}}
SPECS: dict[str, tuple[str, Any]] = {
    "Pod": ("v1", {"containers": [{"name": "x", "image": "i:1"}]}),
    "Deployment": ("apps/v1", {"replicas": 1, "template": {"spec": {"containers": [{"name": "x", "image": "i:1"}]}}}),
    "Service": ("v1", {"ports": [{"port": 1}]}),
    "Namespace": ("v1", {}),
    "Widget": ("shop.example.com/v1", {"size": 1}),
}
WRITES = ((("create", False), ("patch", True)), (("create", True), ("update", False)))


def text_of(case: dict[str, Any]) -> str:
    if "text" in case:
        return str(case["text"]) * case.get("times", 1)
    patch = [{"op": "add", "path": case["add"], "value": case["value"]}] if "add" in case else case["patch"]
    return json.dumps({**HOOK, "patch": patch, "patchType": "JSONPatch"})


def events() -> list[dict[str, Any]]:
    """Each patch at two writes of every kind: a stored create and a refused patch, or a refused create and a stored update."""
    found: list[dict[str, Any]] = []
    refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422}
    for number, case in enumerate(CASES):
        prefix = "webhook.admission.k8s.io/round_0_index_0"
        notes = {f"patch.{prefix}": text_of(case), f"mutation.{prefix}": json.dumps({**HOOK, "mutated": True})}
        for kind, (version, spec) in SPECS.items():
            for verb, is_refused in WRITES[(number + len(kind)) % 2]:
                name = f"{kind.lower()}-{number}-{verb}-{is_refused}".lower()
                metadata = {"name": name, "uid": name, "resourceVersion": "1", "labels": {"a": "b"}}
                metadata |= {} if kind == "Namespace" else {"namespace": "shop"}
                body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
                at = START + timedelta(seconds=len(found))
                if verb != "create":
                    found.append(recorded(f"before-{name}", at, "create", body))
                event = recorded(name, at + timedelta(seconds=1), verb, body, annotations=notes)
                if verb == "patch":
                    event["requestObject"] = {"metadata": {"labels": {"x": "y"}}}
                if is_refused:
                    message = "it is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
                    event |= {"responseStatus": {"status": "Failure", "reason": "Invalid", "message": message, "code": 422}}
                    event["responseObject"] = refusal
                found.append(event)
    return found


def manifests(folder: Path) -> dict[str, Path]:
    group = "admissionregistration.k8s.io/v1"
    constraints = {"resourceRules": [EVERYTHING | {"operations": ["CREATE", "UPDATE"]}], **SELECTED}
    hook = {"name": HOOK["webhook"], "rules": [EVERYTHING], **SELECTED, "clientConfig": {"url": "https://hooks.example.com/"}}
    hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    other = hook | {"name": "other.example.com", "reinvocationPolicy": "IfNeeded"}
    hook |= {"matchConditions": [{"name": "c", "expression": "object.metadata.labels['a'] == 'b'"}]}
    label = "Object{metadata: Object.metadata{labels: {'team': 'x'}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}}
    judged = {"expression": "object.metadata.name != '' && has(object.spec.template)"}
    specs: dict[str, tuple[str, dict[str, Any]]] = {
        "validating": ("ValidatingAdmissionPolicy", {"spec": {"matchConstraints": constraints, "validations": [judged]}}),
        "mutating": (
            "MutatingAdmissionPolicy",
            {"spec": {"matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "IfNeeded"}},
        ),
        "hooks": ("MutatingWebhookConfiguration", {"webhooks": [hook, other]}),
    }
    found = {}
    for name, (kind, rest) in specs.items():
        found[name] = folder / f"{name}.yaml"
        found[name].write_text(json.dumps({"apiVersion": group, "kind": kind, "metadata": {"name": name}, **rest}))
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    definition = {"group": "shop.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    found["schema"] = folder / "schema.yaml"
    found["schema"].write_text(json.dumps({**head, "metadata": {"name": "widgets.shop.example.com"}, "spec": definition}))
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("hostile") / "lake", events())


@pytest.mark.parametrize(
    "command",
    [
        "replay -f validating",
        "replay -f mutating",
        "replay -f mutating -f schema",
        "replay -f hooks",
        "replay -f schema",
        "readiness -f mutating",
        "webhooks load -f hooks",
        "webhooks migrate w.example.com -f mutating",
        "calibrate",
    ],
)
def test_no_shape_of_a_recorded_patch_ends_a_command(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """An answer may want more evidence (3); a defect of the command would raise."""
    files = manifests(tmp_path)
    words = [str(files.get(word, word)) for word in command.split()]
    assert run(["-q", "--lake", str(lake), *words]) in (0, 3)
    said = capsys.readouterr().out
    assert command != "replay -f schema" or "a recorded patch of a webhook" in said
