"""The structure of schemas, and the check of whole definitions with their places in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.errors import InputError
from pipeline.manifests.documents import read_documents
from pipeline.stages.schema.checking import check_definitions
from pipeline.stages.schema.definition import definition_of
from pipeline.stages.schema.definition_check import definition_errors, non_structural_condition
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.structural import incomplete_within, structural_errors

CASES = yaml.safe_load((Path(__file__).parents[3] / "cases" / "schema" / "structural.yaml").read_text())
DEFINITIONS = yaml.safe_load((Path(__file__).parents[3] / "cases" / "schema" / "definitions.yaml").read_text())


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


def test_a_wrong_type_names_the_file() -> None:
    text = yaml.safe_dump(definition({}, {"type": "object", "description": 5}))
    with pytest.raises(InputError, match=r"a\.yaml:1: .*cannot unmarshal number into .*description of type string"):
        list(check_definitions(read_documents(text, "a.yaml"), (1, 36)))
