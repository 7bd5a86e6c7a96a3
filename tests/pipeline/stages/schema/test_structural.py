"""The structure of schemas, and the check of whole definitions with their places in files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.manifests.documents import Document, read_documents
from pipeline.stages.schema.checking import check_definitions
from pipeline.stages.schema.definition import definition_of
from pipeline.stages.schema.definition_check import definition_errors, non_structural_condition
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.structural import incomplete_within, structural_errors
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "structural.yaml").read_text())
DEFINITIONS = load_yaml((Path(__file__).parents[3] / "cases" / "schema" / "definitions.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_structure_of_a_schema(case: dict[str, Any]) -> None:
    schema = props_of(case["schema"])

    def texts(errors: Any) -> list[str]:
        return sorted(str(error).removeprefix("ROOT.") for error in errors)

    assert texts(structural_errors(schema, "ROOT")) == sorted(case.get("errors", ()))
    assert texts(incomplete_within(schema, "ROOT")) == sorted(case.get("strict", ()))


def definition(change: dict[str, Any], schema: dict[str, Any], api_version: str = "v1") -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **change.get("version", {})}
    spec = {"group": "lab.example.com", "scope": "Namespaced", "names": {"plural": "jobs", "kind": "Job"}, "versions": [version]}
    return {
        "apiVersion": f"apiextensions.k8s.io/{api_version}",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.lab.example.com"},
        "spec": {**spec, **change.get("spec", {})},
    }


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case["name"])
def test_a_definition(case: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"f": case.get("field", {"type": "string"})}}},
    }
    found = definition_errors(definition_of(definition(case.get("change", {}), {**schema, **case.get("root", {})})))
    assert sorted(map(str, found)) == sorted(case.get("errors", ()))


def test_a_condition_names_the_version_and_the_preserved_fields_first() -> None:
    stored = definition({"spec": {"preserveUnknownFields": True}}, {"properties": {}})
    text = (
        "[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root]"
    )
    assert non_structural_condition(definition_of(stored)) == ("True", "Violations", text)
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "id": "x"}
    assert (non_structural_condition(definition_of(stored)) or ("", "", ""))[:2] == ("Unknown", "StructuralError")


def test_v1beta1_shares_fields_between_versions_and_preserves_by_default() -> None:
    old = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": "jobs.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "version": "v1",
            "names": {"plural": "jobs", "kind": "Job"},
            "validation": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}},
        },
    }
    found = definition_of(old)
    version = found.versions[0]
    assert (found.preserves_unknown_fields, found.is_namespaced, version.name, version.has_status) == (True, True, "v1", True)
    assert version.schema == props_of({"type": "object"})


def test_a_finding_has_the_line_of_its_field() -> None:
    text = yaml.safe_dump(definition({}, {"type": "object", "properties": {"spec": {"properties": {"f": {"type": "string"}}}}}))
    line = 1 + next(number for number, each in enumerate(text.split("\n")) if each.strip() == "spec:" and number > 9)
    (found,) = check_definitions(read_documents(text, "a.yaml"), (1, 36))
    assert (found.where, found.field) == (f"a.yaml:{line}", "spec.validation.openAPIV3Schema.properties[spec].type")


JUNK = st.sampled_from((None, 5, -1.5, "x", "", True, [], [5], [None], {}, {"a": 1}, {"a": None}, [{}]))


@given(JUNK, st.integers(0, 10_000), st.booleans())
def test_a_definition_with_junk_has_findings_or_an_error_of_the_user(junk: Any, place: int, is_old: bool) -> None:
    column = {"name": "A", "type": "string", "jsonPath": ".spec.f"}
    field = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "default": [{"a": "x"}]}
    version = {"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n"}}, "additionalPrinterColumns": [column]}
    change = {"version": version, "spec": {"conversion": {"strategy": "None", "webhook": {"clientConfig": {"url": "x"}}}}}
    rules = [{"rule": "has(self.f)", "message": "no f"}]
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"f": field}, "x-kubernetes-validations": rules}},
    }
    value = definition(change, schema, "v1beta1" if is_old else "v1")
    places = [path for path in paths(value) if path[0] not in ("apiVersion", "kind")]
    *steps, last = places[place % len(places)]
    holder: Any = value
    for step in steps:
        holder = holder[step]
    holder[last] = junk
    document = Document(value, "a.yaml")
    assert all(found.where.startswith("a.yaml") for found in check_definitions([document], (1, 36), strict=True))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, name)
        yield from paths(item, (*path, name))


def test_a_wrong_type_is_a_finding_and_the_next_definition_is_checked() -> None:
    texts = [definition({}, {"type": "object", "description": 5}), definition({}, {"type": "object", "properties": {"spec": {}}})]
    first, *others = check_definitions(read_documents(yaml.safe_dump_all(texts), "a.yaml"), (1, 36))
    assert (first.where, first.enforced, first.definition) == ("a.yaml:1", True, texts[0]["metadata"]["name"])
    assert re.search("cannot unmarshal number into .*description of type string", first.message)
    assert [each.field for each in others] == ["spec.validation.openAPIV3Schema.properties[spec].type"]


@pytest.mark.parametrize("preserves", [None, True, False])
def test_a_v1beta1_file_is_told_that_no_server_takes_it(preserves: bool | None) -> None:
    """Its default of preserveUnknownFields is no error: the version itself is what an API server refuses."""
    value = definition({}, {"type": "object"}, "v1beta1")
    value["spec"].pop("preserveUnknownFields", None)
    if preserves is not None:
        value["spec"]["preserveUnknownFields"] = preserves
    (found,) = check_definitions([Document(value, "a.yaml")], (1, 36))
    assert (found.field, found.enforced) == ("apiVersion", True)
    assert "no API server from Kubernetes 1.22 on serves apiextensions.k8s.io/v1beta1" in found.message
    assert ("preserveUnknownFields" in found.message) == (preserves is not False)
    assert "must be false" not in found.message
