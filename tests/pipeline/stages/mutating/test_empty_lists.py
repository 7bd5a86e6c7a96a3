"""Empty lists that mutating policies make: tests/cases/mutating/empty_lists.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.request import Known
from pipeline.runs import RunKind, RunStore
from pipeline.stages.mutating.changes import changes
from pipeline.stages.registry import MUTATING
from pipeline.stages.stage import Asked
from queries import LakeReader, open_lake
from tests.pipeline.policies.conftest import CaseWorld, request
from tests.pipeline.stages.mutating.test_mutating import FOLDER, GROUP, deployment, manifests, run
from tests.recording import Log, take_in
from tests.yaml_text import load_yaml

CASES: dict[str, list[dict[str, Any]]] = load_yaml((FOLDER / "empty_lists.yaml").read_text())
RESOURCE = "shop.example.com/v1/widgets"
TEXTS = {"type": "array", "items": {"type": "string"}}
ENTRY = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "tags": {**TEXTS, "x-kubernetes-list-type": "set"}},
}
SETS = {name: {**TEXTS, "x-kubernetes-list-type": "set"} for name in ("names", "more")}
SPEC = {
    **SETS,
    "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": ENTRY},
    "nullable": {**SETS["names"], "nullable": True},
    "inner": {"type": "object", "properties": {"list": {**SETS["names"], "default": ["a"]}}},
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}},
                },
            }
        ],
    },
}


def widget(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": metadata, "spec": dict(spec)}


@pytest.mark.parametrize("case", CASES["custom"], ids=lambda case: case["name"])
def test_a_custom_resource_has_null_in_json(case: dict[str, Any]) -> None:
    """As the next webhook gets it."""
    world = CaseWorld({"namespaces": {"shop": {}}, "objects": [DEFINITION]})
    asked = request({"resource": RESOURCE, "namespace": "shop", "name": "w", "object": widget("w", case["object"])})
    found = run({"p": {"mutations": case["mutations"]}}, asked, RESOURCE, world=world).first
    assert isinstance(found.object, Known), found
    assert not list(changes((found.object.value or {})["spec"], case["json"]))


@pytest.mark.parametrize("case", CASES["built_in"], ids=lambda case: case["name"])
def test_a_go_type_decides_by_its_tags(case: dict[str, Any]) -> None:
    """A second policy sees what expressions see."""
    entered = deployment({}, {})
    entered["spec"]["template"]["spec"] = case["object"]
    asked = request({"resource": "apps/v1/deployments", "namespace": "shop", "name": "web", "object": entered})
    label = "Object{metadata: Object.metadata{annotations: {'seen': 'yes'}}}"
    policies = {"p": {"mutations": case["mutations"]}, "q": {"apply": label, "conditions": [case.get("sees", "true")]}}
    found = run(policies, asked, "apps/v1/deployments").first
    assert isinstance(found.object, Known), found
    pods = (found.object.value or {})["spec"]["template"]["spec"]
    for name, wanted in case["json"].items():
        assert (name not in pods) if wanted == "absent" else not list(changes(pods[name], wanted)), name
    assert (found.object.value or {})["metadata"].get("annotations") == {"seen": "yes"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LakeReader, Path]]:
    """One widget for each case, stored as its case says."""
    log = Log()
    log.write("create", DEFINITION)
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "uid-shop"}})
    for at, case in enumerate(CASES["custom"]):
        entered = widget(f"w{at}", case["object"])
        log.write("create", entered, answer=widget(f"w{at}", case.get("stored", case["object"])))
    path = take_in(tmp_path_factory.mktemp("empty") / "lake", log.lines)
    with closing(open_lake(path)) as reader:
        yield reader, path


def mutating(with_later: bool) -> str:
    """A mutating policy for each widget, and the opposite of what its case sees as a validating one."""
    named = {
        f"w{at}": {"conditions": [f"object.metadata.name == 'w{at}'"], "mutations": case["mutations"]}
        for at, case in enumerate(CASES["custom"])
    }
    text = manifests(named, RESOURCE)
    rules = [{"apiGroups": ["shop.example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}]
    for at, case in enumerate(CASES["custom"]):
        if not with_later or "sees" not in case:
            continue
        condition = {"name": "named", "expression": f"object.metadata.name == 'w{at}'"}
        spec = {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [condition],
            "validations": [{"expression": f"!({case['sees']})"}],
        }
        bound = {"policyName": f"v{at}", "validationActions": ["Deny"]}
        for kind, body in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", bound)):
            text += "---\n" + yaml.safe_dump({"apiVersion": GROUP, "kind": kind, "metadata": {"name": f"v{at}"}, "spec": body})
    return text


def rows_of(lake: tuple[LakeReader, Path], text: str) -> list[dict[str, Any]]:
    """The rows of requests as a whole."""
    reader, path = lake
    plan = MUTATING.plan(reader, MUTATING.read(manifests_of([("policies.yaml", text)])), Asked())
    MUTATING.run(plan, path, 1, None, RunKind.REPLAY)
    found = pl.read_parquet(RunStore(path).run(plan.run_id).verdicts).filter(pl.col("policy") == "mutating").sort("ts")
    return found.to_dicts()


def test_the_recorded_answer_shows_what_the_store_makes_of_null(lake: tuple[LakeReader, Path]) -> None:
    """So the outcome is the recorded one, and a policy whose change the store drops changes nothing."""
    found = rows_of(lake, mutating(with_later=False))
    wanted = ["changed" if case.get("stored", case["object"]) != case["object"] else "unchanged" for case in CASES["custom"]]
    assert [(row["decision"], row["flip"]) for row in found] == [(decision, "same") for decision in wanted]


def test_validating_policies_see_an_empty_list(lake: tuple[LakeReader, Path]) -> None:
    """Each of them denies: it has the opposite of what a case sees."""
    found = rows_of(lake, mutating(with_later=True))
    later = [json.loads(row["detail"] or "{}").get("later", [""])[0] for row in found]
    assert [f"'v{at}'" in text for at, text in enumerate(later)] == ["sees" in case for case in CASES["custom"]], later
