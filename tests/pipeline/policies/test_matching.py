"""Matching, case by case: tests/cases/matching/*.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.matching import LabelSelector, Matcher, Requirement, Rule, SelectorError, Target, match, selector_from_object
from pipeline.request import GroupVersionResource, Known, Unknown
from pipeline.stages.validating.decode import match_resources_from_object
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[2] / "cases" / "matching"
CASES = [
    pytest.param(case, id=f"{file.stem}: {case['name']}")
    for file in sorted(FOLDER.glob("*.yaml"))
    for case in load_yaml(file.read_text())
]


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any], cases: Any) -> None:
    criteria = match_resources_from_object(case["criteria"])
    request, world = cases.request(case["request"]), cases.world(case.get("world") or {})
    found = match(criteria, request, world)
    expected = case["expect"]
    matched = "unknown" if isinstance(found.matched, Unknown) else found.matched
    assert matched == expected["matched"], found
    assert found.why == expected.get("why", ""), found
    assert found.error == expected.get("error", "")
    assert found.grade == expected.get("grade", "exact")
    assert found.conversion == expected.get("conversion", "none")
    if matched is True:
        assert _text(found.matched_resource) == expected.get("resource", _text(request.resource))
        assert found.matched_kind is not None
        if "kind" in expected:
            assert isinstance(found.matched_kind, Known)
            assert found.matched_kind.value.kind == expected["kind"]
    # What a target alone decides must agree with the full answer.
    if matched is not False or found.error:
        assert Matcher(criteria).is_candidate(Target.of(request)) or "never matched" in found.why
    matcher = Matcher(criteria)
    if not (matcher.has_resource_names or matcher.object_label_keys or request.resource.resource == "namespaces"):
        another = replace(
            request, object=Unknown("not looked at"), old_object=Unknown("not looked at"), name=Unknown("not looked at")
        )
        assert match(criteria, another, world) == found


def _text(resource: Any) -> str:
    return "/".join(part for part in (resource.group, resource.version, resource.resource) if part)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({"matchLabel": {}}, "unknown field 'matchLabel'"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Is"}]},
            "operator must be one of In, NotIn, Exists, DoesNotExist, not 'Is'",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "values must be given for operator In"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "values must not be given for operator Exists",
        ),
        ({"matchExpressions": [{"operator": "Exists"}]}, "key is required"),
        ({"matchLabels": {"a": 1}}, "must map strings to strings"),
    ],
)
def test_a_wrong_selector_is_named(selector: dict[str, Any], problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        selector_from_object(selector)


KEYS = st.sampled_from(["a", "b", "c"])
LABELS = st.dictionaries(KEYS, st.sampled_from(["1", "2"]))


@given(LABELS, KEYS, st.frozensets(st.sampled_from(["1", "2"]), min_size=1))
def test_negative_operators_are_the_negation_of_positive_ones(labels: dict[str, str], key: str, values: frozenset[str]) -> None:
    assert Requirement(key, "In", values).holds(labels) is not Requirement(key, "NotIn", values).holds(labels)
    assert Requirement(key, "Exists").holds(labels) is not Requirement(key, "DoesNotExist").holds(labels)


@given(LABELS, LABELS)
def test_match_labels_select_supersets(wanted: dict[str, str], labels: dict[str, str]) -> None:
    selector = selector_from_object({"matchLabels": wanted})
    assert selector.selects(labels) is (wanted.items() <= labels.items())
    assert LabelSelector().selects(labels)


PARTS = st.sampled_from(["*", "a", "b"])


@given(
    st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"]), st.sampled_from(["*", "a", "b"]), st.sampled_from(["", "*", "x"])
)
def test_resource_patterns(resource: str, subresource: str, pattern: str, subpattern: str) -> None:
    entry = f"{pattern}/{subpattern}" if subpattern else pattern
    rule = Rule(("*",), ("*",), ("*",), (entry,))
    target = Target("CREATE", GroupVersionResource("g", "v1", resource), subresource, True)
    # A pattern without `/` is for the parent only; `x/*` accepts the parent as well.
    wanted = pattern in ("*", resource) and (subresource == subpattern or subpattern == "*")
    assert (rule.mismatch(target) is None) is wanted
