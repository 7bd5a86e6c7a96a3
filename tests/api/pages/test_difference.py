"""The structural difference: what changed is always shown, and applying it to the old object gives the new one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.pages.difference import Fields, ObjectDifference, object_difference, object_lines
from api.pages.lines import Change, Fold, Line

SIGNS = {Change.SAME: " ", Change.ADDED: "+", Change.REMOVED: "-"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}, "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}, {"name": "log", "image": "log:1"}],
        "nodeName": "node-1",
        "restartPolicy": "Always",
        "serviceAccountName": "web",
        "terminationGracePeriodSeconds": 30,
    },
}


def flat(found: ObjectDifference) -> list[Line]:
    """Every line, folded or not."""
    return [line for block in found.blocks for line in (block.lines if isinstance(block, Fold) else (block,))]


def text(found: ObjectDifference) -> list[str]:
    """As a person reads it, folds closed."""
    return [
        f"… {len(block.lines)} {', '.join(block.names)}"
        if isinstance(block, Fold)
        else f"{SIGNS[block.change]} {'  ' * block.indent}{block.text}"
        for block in found.blocks
    ]


def changed(value: Any, *path: str | int, to: Any) -> Any:
    """A copy of a JSON value with one place set."""
    copy = json.loads(json.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return copy


def test_one_changed_image_is_shown_with_what_leads_to_it() -> None:
    found = object_difference(POD, changed(POD, "spec", "containers", 0, "image", to="web:2"))
    assert (found.added, found.removed) == (1, 1)
    assert text(found) == [
        "… 6 apiVersion, kind, metadata",
        "  spec:",
        "    containers:",
        "      - name: web",
        "-       image: web:1",
        "+       image: web:2",
        "… 8 nodeName, restartPolicy, serviceAccountName, terminationGracePeriodSeconds",
        "… 3 managedFields",
    ]


def test_items_with_names_are_compared_by_name_whatever_their_order() -> None:
    turned = changed(POD, "spec", "containers", to=[*reversed(POD["spec"]["containers"])])  # type: ignore[index, call-overload]
    assert object_difference(POD, turned).added == 0
    shorter = changed(POD, "spec", "containers", to=[{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}])
    assert [line.text for line in flat(object_difference(POD, shorter)) if line.change is Change.REMOVED] == [
        "- name: log",
        "image: log:1",
    ]


def test_bookkeeping_is_folded_and_not_counted() -> None:
    found = object_difference(POD, changed(POD, "metadata", "managedFields", 0, "manager", to="controller"))
    assert (found.added, found.removed) == (0, 0)
    fold = found.blocks[-1]
    assert isinstance(fold, Fold)
    assert fold.names == ("managedFields",)
    assert {line.change for line in fold.lines} == set(Change)


def test_texts_of_several_lines_are_compared_by_line() -> None:
    old = {"data": {"config": "a\nb\nc"}}
    found = object_difference(old, {"data": {"config": "a\nB\nc"}})
    assert text(found) == ["  data:", "    config: |", "      a", "-     b", "+     B", "      c"]


def test_a_changed_type_is_a_change() -> None:
    assert text(object_difference({"a": 1}, {"a": "1"})) == ["- a: 1", '+ a: "1"']
    assert text(object_difference({"a": 1}, {"a": True})) == ["- a: 1", "+ a: true"]
    assert text(object_difference({"a": {}}, {"a": {"b": 1}})) == ["- a: {}", "+ a:", "+   b: 1"]


def test_what_was_taken_out_is_marked() -> None:
    lines = flat(object_lines({"data": {"token": "REDACTED", "name": "open"}}))
    assert [line.text for line in lines if line.is_redacted] == ["token: REDACTED"]


def test_one_object_alone_is_open_but_for_its_bookkeeping() -> None:
    found = object_lines(POD)
    assert [block for block in found.blocks if isinstance(block, Fold)] == [found.blocks[-1]]
    assert {line.change for line in flat(found)} == {Change.SAME}


def test_what_nests_too_deeply_or_is_too_long_stays_a_page() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    assert len(flat(object_difference(deep, {"a": 1}))) < 100
    long = object_difference({"a": list(range(5000))}, {"a": []})
    assert long.is_cut
    assert len(flat(long)) == 3000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "name", "spec"]), JSON, max_size=4)


@given(OBJECTS, OBJECTS)
def test_something_is_marked_exactly_when_the_objects_differ(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = object_difference(old, new)
    differs = _typed(old) != _typed(new)
    assert (found.added + found.removed > 0) == differs
    back = object_difference(new, old)
    assert (back.added, back.removed) == (found.removed, found.added)


@given(OBJECTS, OBJECTS)
def test_each_side_is_there_in_full(old: dict[str, Any], new: dict[str, Any]) -> None:
    lines = flat(object_difference(old, new))
    for side, other in ((old, Change.ADDED), (new, Change.REMOVED)):
        shown = [line.text.lstrip("- ") for line in lines if line.change is not other]
        whole = [line.text.lstrip("- ") for line in flat(object_lines(side))]
        assert sorted(filter(None, shown)) == sorted(filter(None, whole))


def _typed(value: Any) -> Any:
    """JSON in which 1 and true differ, and items with unique names have no order, as on the page."""
    return json.dumps(_ordered(value), sort_keys=True)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    names = [item.get("name") if isinstance(item, dict) else None for item in value]
    named = all(isinstance(name, (str, int)) and not isinstance(name, bool) for name in names)
    items = [_ordered(item) for item in value]
    return sorted(items, key=lambda item: str(item["name"])) if named and len(set(names)) == len(names) else items


def unfolded(found: ObjectDifference) -> list[tuple[str, bool]]:
    """The lines that stand open, each with whether it is marked."""
    return [(block.text, block.decided) for block in found.blocks if isinstance(block, Line)]


def test_a_field_that_was_read_is_never_folded_and_one_that_decided_is_marked() -> None:
    fields = Fields(frozenset({"object.spec.nodeName", "object.metadata.labels.app"}), frozenset({"object.spec.nodeName"}))
    found = object_difference(POD, changed(POD, "spec", "containers", 0, "image", to="web:2"), fields)
    assert {("nodeName: node-1", True), ("app: web", False)} <= set(unfolded(found))
    assert [line.text for line in flat(found) if line.decided] == ["nodeName: node-1"]


def test_elements_are_named_by_their_index_in_their_own_version() -> None:
    containers = json.loads(json.dumps(POD))["spec"]["containers"]
    new = changed(POD, "spec", "containers", to=[{"name": "new", "image": "new:1"}, *containers])
    for field, line in {
        "object.spec.containers[1].image": "image: web:1",
        "oldObject.spec.containers[1].image": "image: log:1",
        "object.spec.containers[2].name": "- name: log",
        "object.spec.containers[0].image": "image: new:1",
    }.items():
        decided = [
            each.text for each in flat(object_difference(POD, new, Fields(frozenset({field}), frozenset({field})))) if each.decided
        ]
        assert decided == [line], field
    every = Fields(frozenset({"object.spec.containers[*].image"}))
    assert [each.text for each in flat(object_difference(POD, new, every)) if each.is_read] == [
        "image: web:1",
        "image: log:1",
        "image: new:1",
    ]


def test_of_an_object_alone_only_what_was_read_stands_open_where_the_rest_is_folded() -> None:
    fields = Fields(frozenset({'params.data["a.b"]'}), frozenset({'params.data["a.b"]'}))
    value = {"data": {"a.b": "1", **{f"k{number}": "x" for number in range(5)}}}
    assert unfolded(object_lines(value, fields, "params", folded=True)) == [("data:", False), ('a.b: "1"', True)]
    assert len(unfolded(object_lines(value, fields, "params"))) == 7


@given(OBJECTS, OBJECTS)
def test_reading_fields_changes_no_line(old: Any, new: Any) -> None:
    fields = Fields(frozenset({"object", "oldObject"}), frozenset({"object"}))
    plain, marked = object_difference(old, new), object_difference(old, new, fields)
    assert [(line.change, line.indent, line.text) for line in flat(marked)] == [
        (line.change, line.indent, line.text) for line in flat(plain)
    ]
    assert not [block for block in marked.blocks if isinstance(block, Fold) and block.label == "unchanged"]
