"""`hindcast policy cost`: the cost of each expression over recorded requests, what ends at a limit, and what growth would do."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cli import run
from pipeline.cel import Environment
from pipeline.cel.types import DYN
from pipeline.stages.validating.cost_figures import grown_lists, quantile
from tests.recording import START, Object, recorded, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: listed, expression: has(object.entries)}]
  variables: [{name: sizes, expression: "object.entries.map(i, i.size())"}]
  validations:
  - expression: variables.sizes.all(s, s > 0)
  - expression: object.entries.all(a, object.entries.all(b, a != b || object.entries.exists(c, a == c)))
    messageExpression: "'not ' + object.metadata.name"
"""


def config(name: str, items: list[str] | None) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}}
    return body if items is None else {**body, "entries": items}


def costs(tmp_path: Path, events: list[Object], capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    take_in(tmp_path / "lake", events)
    (tmp_path / "policy.yaml").write_text(POLICY % "Fail")
    command = ["-q", "--lake", str(tmp_path / "lake"), "policy", "cost", "-f", str(tmp_path / "policy.yaml"), "-o", "json"]
    assert run([*command, "--exit-code"]) == code
    return json.loads(capsys.readouterr().out)


def writes(sizes: list[int | None]) -> list[Object]:
    lists = [None if size is None else [f"item-{number:03}" for number in range(size)] for size in sizes]
    return [
        recorded(f"id-{index}", START + timedelta(hours=index), "create", config(f"c-{index}", items))
        for index, items in enumerate(lists)
    ]


def by_hand(text: str, items: list[str]) -> int:
    """The cost of an expression by itself."""
    program = Environment((1, 36), {"object": DYN}).compile(text)
    return program.evaluate_with_cost({"object": config("c-0", items)})[1]


def test_costs_are_those_of_each_program_and_of_all_that_share_a_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = costs(tmp_path, writes([2, 2, 2, 4, None]), capsys)
    (policy,) = found["policies"]
    assert (policy["evaluations"], policy["unknown"], policy["over"], policy["verdict"]) == (5, 0, 0, "within the limits")
    figures = {row["what"]: row for row in found["expressions"]}
    items = [f"item-{number:03}" for number in range(4)]
    sizes = "object.entries.map(i, i.size())"
    assert figures["variables.sizes"]["median"] == by_hand(sizes, items[:2])
    assert figures["variables.sizes"]["most"] == by_hand(sizes, items)
    # A request that no match condition lets through pays for the conditions alone.
    assert figures["matchConditions.listed"]["evaluations"] == 5
    assert figures["all matchConditions"]["limit"] == 2_500_000
    assert figures["validations[0]"]["evaluations"] == 4
    shared = figures["all validations with messages"]
    parts = ("variables.sizes", "validations[0]", "validations[1]", "validations[1].messageExpression")
    assert shared["limit"] == 10_000_000
    assert shared["most"] == sum(figures[part]["most"] for part in parts)
    first = found["nearest"][0]
    assert (first["audit_id"], first["object"], first["alike"]) == ("id-3", "configmaps/shop/c-3", 1)
    assert first["cost"] == by_hand(
        "object.entries.all(a, object.entries.all(b, a != b || object.entries.exists(c, a == c)))", items
    )
    # The most expensive object with ten times its list.
    assert figures["variables.sizes"]["grown"] == by_hand(sizes, items * 10)


def test_what_a_limit_ends_is_counted_and_not_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = costs(tmp_path, writes([3, 500]), capsys, code=1)
    (policy,) = found["policies"]
    assert (policy["evaluations"], policy["over"], policy["verdict"]) == (2, 1, "NOT READY: over a cost limit")
    (figure,) = [row for row in found["expressions"] if row["what"] == "validations[1]"]
    assert figure["over"] == 1
    assert figure["most"] > figure["limit"] == 1_000_000
    assert found["nearest"][0]["audit_id"] == "id-1"


def test_an_object_that_was_not_recorded_has_no_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [recorded("id-0", START, "create", config("c-0", []), level="Metadata"), *writes([2])[:1]]
    found = costs(tmp_path, [events[0], {**events[1], "auditID": "id-1"}], capsys)
    (policy,) = found["policies"]
    assert (policy["evaluations"], policy["unknown"]) == (2, 1)
    assert {row["evaluations"] for row in found["expressions"]} == {1}


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_readiness_is_withheld_from_what_a_limit_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failure_policy: str
) -> None:
    take_in(tmp_path / "lake", writes([3, 500]))
    (tmp_path / "policy.yaml").write_text(POLICY % failure_policy)
    command = ["-q", "--lake", str(tmp_path / "lake"), "readiness", "-f", str(tmp_path / "policy.yaml"), "--no-calibrate"]
    assert run([*command, "--no-exemptions", "--workers", "1", "-o", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert entry["status"] == "NOT READY"
    assert any(reason.startswith("1 request goes over a CEL cost limit of the API server") for reason in entry["reasons"])


CHEAP = POLICY.replace(
    "object.entries.all(a, object.entries.all(b, a != b || object.entries.exists(c, a == c)))", "size(object.metadata.name) > 0"
)


@pytest.mark.parametrize(("base", "status", "code"), [(CHEAP, "NOT READY", 1), (POLICY, "NO NEW DENIALS", 0)])
def test_a_change_that_brings_requests_over_a_limit_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, status: str, code: int
) -> None:
    take_in(tmp_path / "lake", writes([3, 500]))
    for name, text in (("old", base), ("new", POLICY + " ")):
        (tmp_path / f"{name}.yaml").write_text(text % "Ignore")
    command = [
        "-q",
        "--lake",
        str(tmp_path / "lake"),
        "gate",
        "-f",
        str(tmp_path / "new.yaml"),
        "--against",
        str(tmp_path / "old.yaml"),
    ]
    assert run([*command, "--no-calibrate", "--workers", "1", "-o", "json"]) == code
    (entry,) = json.loads(capsys.readouterr().out)["policies"]
    assert entry["status"] == status
    assert entry["change"]["over_cost_new"] == (1 if code else 0)
    assert any("goes over a CEL cost limit" in reason for reason in entry["reasons"]) is bool(code)


def test_a_watch_withholds_readiness_from_what_a_limit_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take_in(tmp_path / "lake", writes([3, 500]))
    (tmp_path / "policy.yaml").write_text(POLICY % "Ignore")
    command = [
        "-q",
        "--lake",
        str(tmp_path / "lake"),
        "watch",
        "-f",
        str(tmp_path / "policy.yaml"),
        "--once",
        "--workers",
        "1",
        "-o",
        "json",
    ]
    for _ in range(2):  # the second reads what the first kept
        assert run(command) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["status"] for each in told] == ["NOT READY"]
        assert any("goes over a CEL cost limit" in reason for reason in told[0]["reasons"])


@given(st.lists(st.integers(0, 50), min_size=1))
def test_a_quantile_is_the_smallest_cost_that_enough_do_not_exceed(costs: list[int]) -> None:
    for share in (Fraction(1, 2), Fraction(99, 100)):
        found = quantile(Counter(costs), share)
        assert found in costs
        assert sum(cost <= found for cost in costs) >= share * len(costs) > sum(cost < found for cost in costs)


def test_outermost_lists_grow_and_all_else_stays() -> None:
    assert grown_lists({"a": [{"b": [1]}], "c": {"d": [2], "e": "text"}}, 2) == {
        "a": [{"b": [1]}, {"b": [1]}],
        "c": {"d": [2, 2], "e": "text"},
    }
