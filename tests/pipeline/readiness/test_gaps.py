"""Why nothing was judged: the sentences among the reasons of a report, and the remedies. Cases are in cases/readiness/gaps.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.explaining.missing import explained, most_frequent
from pipeline.readiness.build import build_report
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.recording import Log, deployment, take_in
from tests.reporting import about_of
from tests.yaml_text import load_yaml

CASES: dict[str, Any] = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "gaps.yaml").read_text())
API = "admissionregistration.k8s.io/v1"


def _log(level: str) -> Log:
    log = Log()
    for name, env in (("shop", "prod"), ("depot", "prod"), ("lab", "dev")):
        log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": env}}})
    for namespace, app in (("shop", "web"), ("depot", "web"), ("lab", "db")):
        labels = {"app": app, "a": "first"}
        log.write("create", deployment(f"one-{namespace}", 1, namespace, labels=labels), level=level)
    return log


def _policies(case: dict[str, Any]) -> str:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": case.get("operations", ["CREATE"])}
    conditions = [{"name": "only", "expression": case["condition"]}] if "condition" in case else []
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["deployments"]}], **case["spec"]},
        "matchConditions": conditions,
        "validations": [{"expression": "object.spec.replicas < 5"}],
    }
    documents = [{"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}]
    if "binding" in case:
        bound = {"policyName": "p", "validationActions": ["Deny"], "matchResources": case["binding"]}
        documents.append({"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": bound})
    return "---\n".join(json.dumps(document) + "\n" for document in documents)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gaps")
    return {level: take_in(folder / level / "lake", _log(level).lines) for level in ("RequestResponse", "Metadata")}


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_a_report_says_why_nothing_was_judged(case: dict[str, Any], lakes: dict[str, Path]) -> None:
    lake = lakes[case.get("level", "RequestResponse")]
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("p.yaml", _policies(case))]))
    summary = run_replay(plan, lake)
    (entry,) = build_report(reader, lake, about_of(plan, summary), {}, ReadinessRules()).policies
    reader.close()
    said = "\n".join(entry.reasons)
    for text in case.get("says", ()):
        assert text in said
    assert entry.reasons[0] == case.get("first", entry.reasons[0])
    assert not [text for text in case.get("absent", ()) if text in said]


@pytest.mark.parametrize("case", CASES["remedies"], ids=lambda case: case["reason"])
def test_a_reason_has_the_remedy_that_helps(case: dict[str, Any]) -> None:
    found = explained(case["reason"])
    assert case["remedy"] in found.remedy
    assert bool(case["remedy"]) == bool(found.remedy)
    assert found.longer_helps is case["longer"]


def test_the_most_frequent_reasons_come_first() -> None:
    found = most_frequent([("b", 1), ("a", 1), ("c", 7), ("d", 2)])
    assert [(each.reason, each.requests) for each in found] == [("c", 7), ("d", 2), ("a", 1)]
