"""Type checking of policies against schemas: cases as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import InputError
from pipeline.openapi import Schemas
from pipeline.policies.model import Policy
from pipeline.request import GroupVersionKind
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.typecheck import KINDS_MAX, expression_warnings, kinds_to_check
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "typecheck"
VERSION = (1, 36)


def custom_resource(kind: str, plural: str, schema: dict[str, Any]) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"group": "shop.example.com", "names": {"kind": kind, "plural": plural}, "versions": [version]}}


SIZES = {"type": "object", "properties": {"sizes": {"type": "array", "items": {"type": "integer"}}}}
WIDGET = custom_resource("Widget", "widgets", {"type": "object", "properties": {"spec": SIZES}})


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return Schemas([WIDGET], load_yaml((CASES / "native_schemas.yaml").read_text()))


def policy_of(spec: dict[str, Any]) -> Policy:
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "checked"},
        "spec": spec,
    }
    return parse_policy_set([("case", json.dumps(document))]).policies[0]


def shown(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def blocks(warning: str) -> list[str]:
    """The blocks of a warning, each as one line without the text of the expression."""
    heads = [line for line in warning.splitlines() if "ERROR: <input>:" in line]
    return [re.sub("ERROR: <input>:", "", line) for line in heads]


@pytest.mark.parametrize("case", load_yaml((CASES / "policies.yaml").read_text()), ids=lambda case: case["name"])
def test_case(case: dict[str, Any], schemas: Schemas) -> None:
    policy = policy_of(case["spec"])
    assert list(map(shown, kinds_to_check(policy, schemas))) == case["kinds"]
    found = {each.field_ref: blocks(each.warning) for each in expression_warnings(policy, schemas, VERSION)}
    assert found == case["warnings"]


def test_only_so_many_kinds_are_checked() -> None:
    names = [f"k{number:02}" for number in range(KINDS_MAX + 3)]
    schemas = Schemas([custom_resource(name.upper(), name, {"type": "object"}) for name in names])
    rule = {"apiGroups": ["shop.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": names}
    policy = policy_of({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.gone"}]})
    assert [kind.kind for kind in kinds_to_check(policy, schemas)] == [name.upper() for name in names[:KINDS_MAX]]


def test_versions_that_are_not_served_have_no_kind() -> None:
    definition = custom_resource("Widget", "widgets", {"type": "object"})
    definition["spec"]["versions"][0]["served"] = False
    assert Schemas([definition]).schema_of(GroupVersionKind("shop.example.com", "v1", "Widget")) is None


def test_types_that_nest_too_deep_are_named(schemas: Schemas) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    nested = [{"name": f"v{number}", "expression": f"[variables.v{number - 1}]" if number else "[1]"} for number in range(600)]
    validations = [{"expression": "variables.v599.size() == 1"}]
    policy = policy_of({"matchConstraints": {"resourceRules": [rule]}, "variables": nested, "validations": validations})
    assert kinds_to_check(policy, schemas)
    with pytest.raises(InputError, match="case:1: checked: the types of the policy's variables nest deeper than"):
        expression_warnings(policy, schemas, VERSION)
