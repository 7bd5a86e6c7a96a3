"""The patch types: cases, and the properties that hold for all documents."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.history.json_values import json_equal
from pipeline.history.patch import PatchError, apply_json_patch, apply_merge_patch
from pipeline.history.patching import PatchType, apply_patch, patch_type
from pipeline.history.strategic import apply_strategic_merge_patch, merge_key_of
from pipeline.request import GroupVersionResource
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "history"
APPLIED = {
    "json_patch": apply_json_patch,
    "merge_patch": apply_merge_patch,
    "strategic_merge_patch": apply_strategic_merge_patch,
}
ALL = [(kind, case) for kind in APPLIED for case in load_yaml((CASES / f"{kind}.yaml").read_text(encoding="utf-8"))]

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=12
)
objects = st.dictionaries(st.text(max_size=3), documents, max_size=4)


@pytest.mark.parametrize(("kind", "case"), ALL, ids=[f"{kind}: {case['title']}" for kind, case in ALL])
def test_case(kind: str, case: dict[str, Any]) -> None:
    document = deepcopy(case["document"])
    if "error" in case:
        with pytest.raises(PatchError) as raised:
            APPLIED[kind](document, case["patch"])
        assert case["error"] in str(raised.value)
    else:
        assert APPLIED[kind](document, case["patch"]) == case["result"]
    assert document == case["document"], "the given document must stay as it was"


@given(objects, objects)
def test_json_patch_leads_from_any_object_to_any_other(source: dict[str, Any], target: dict[str, Any]) -> None:
    def pointer(key: str) -> str:
        return "/" + key.replace("~", "~0").replace("/", "~1")

    removals = [{"op": "remove", "path": pointer(key)} for key in source if key not in target]
    additions = [{"op": "add", "path": pointer(key), "value": value} for key, value in target.items()]
    assert apply_json_patch(source, [*removals, *additions]) == target


def test_copies_of_one_patch_are_at_most_three_mebibytes_of_json_together() -> None:
    """The limit of the API server (JSONPatchMaxCopyBytes). The library counts bytes of JSON as Go writes it: \\u003c for <."""
    document = {"a": "<" * 1000, "b": []}
    patch = [{"op": "copy", "from": "/a", "path": "/b/-"}] * 524
    assert len(apply_json_patch(document, patch)["b"]) == 524
    with pytest.raises(PatchError, match="accumulated size increase of copy is 3151050, exceeding the limit 3145728"):
        apply_json_patch(document, [*patch, patch[0]])
    doubling = [{"op": "copy", "from": "/b", "path": "/b/-"}] * 60
    with pytest.raises(PatchError, match="exceeding the limit 3145728"):
        apply_json_patch(document, doubling)


def without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    return {key: without_nulls(entry) for key, entry in value.items() if entry is not None} if isinstance(value, dict) else value


@given(objects, objects)
def test_a_merge_patch_applied_twice_changes_nothing_more(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_merge_patch(document, patch)
    # Nulls in a list that took the place of an object go when it is replaced by itself.
    assert without_nulls(apply_merge_patch(once, patch)) == without_nulls(once)


@given(objects)
def test_a_merge_patch_onto_nothing_is_the_patch_without_nulls(patch: dict[str, Any]) -> None:
    assert apply_merge_patch({}, patch) == without_nulls(patch)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=3) | st.none(), max_size=4), st.text(max_size=3))
def test_strategic_and_merge_patches_agree_where_there_are_no_lists(patch: dict[str, Any], value: str) -> None:
    document = {"kind": "ConfigMap", "data": {"a": value, "b": value}}
    assert apply_strategic_merge_patch(document, {"data": patch}) == apply_merge_patch(document, {"data": patch})


@given(documents, documents)
def test_json_equality_is_symmetric_and_reflexive(left: Any, right: Any) -> None:
    assert json_equal(left, left)
    assert json_equal(left, right) == json_equal(right, left)


POD = GroupVersionResource("", "v1", "pods")
WIDGET = GroupVersionResource("shop.example.com", "v1", "widgets")


@pytest.mark.parametrize(
    ("patch", "uri", "resource", "subresource", "expected"),
    [
        ([{"op": "test", "path": "/a", "value": 1}], "/x", POD, "", PatchType.JSON),
        ({"spec": {}}, "/x?force=true&fieldManager=m", POD, "", PatchType.APPLY),
        ({"apiVersion": "v1", "kind": "Pod"}, "/x?fieldManager=m", POD, "", PatchType.APPLY),
        ({"metadata": {"labels": {}}}, "/x?fieldManager=kubectl-label", POD, "", PatchType.STRATEGIC),
        ({"metadata": {"labels": {}}}, "/x", WIDGET, "", PatchType.MERGE),
        ({"spec": {"replicas": 1}}, "/x", POD, "scale", PatchType.MERGE),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, "/x", POD, "", PatchType.STRATEGIC),
    ],
)
def test_the_type_of_a_patch_follows_from_what_is_recorded(
    patch: Any, uri: str, resource: GroupVersionResource, subresource: str, expected: PatchType
) -> None:
    assert patch_type(patch, uri, resource, subresource) is expected


def test_an_apply_to_a_custom_resource_replaces_lists() -> None:
    old = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "spec": {"containers": [{"name": "a"}]}}
    patched = apply_patch(PatchType.APPLY, old, {"spec": {"containers": [{"name": "b"}]}})
    assert patched["spec"]["containers"] == [{"name": "b"}]


def test_merge_keys_belong_to_places_not_to_names() -> None:
    assert merge_key_of(("Service", "spec", "ports")) == "port"
    assert merge_key_of(("Deployment", "spec", "template", "spec", "containers", "ports")) == "containerPort"
    assert merge_key_of(("Endpoints", "subsets", "ports")) is None
