"""JUnit, SARIF and OpenReports keep to what is published, and the report's own schema describes what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest

from pipeline.readiness.model import Status
from pipeline.readiness.report import Report
from pipeline.report.data import to_json, to_yaml
from pipeline.report.formats import TEXT_FORMATS, format_of
from pipeline.report.junit import to_junit
from pipeline.report.markdown import to_markdown
from pipeline.report.openreports import to_openreports, to_policyreport
from pipeline.report.outcomes import OUTCOMES
from pipeline.report.sarif import to_sarif
from pipeline.report.schema import report_schema, schema_of_model
from tests.pipeline.report.conftest import HOSTILE
from tests.yaml_text import load_yaml, load_yaml_all

CASES = Path(__file__).parents[2] / "cases" / "report"
Strict = jsonschema.Draft202012Validator


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    Strict.check_schema(schema)
    return Strict(schema, format_checker=Strict.FORMAT_CHECKER)


def test_every_verdict_has_its_words_in_every_format() -> None:
    assert set(OUTCOMES) == set(Status)


def test_the_shipped_schema_is_that_of_the_model() -> None:
    # After a change of the model: python -m pipeline.report.schema > pipeline/report/schema/report-v1.json
    assert report_schema() == schema_of_model()


def test_json_and_yaml_are_as_their_schema_says(any_report: Report) -> None:
    for data in (json.loads(to_json(any_report)), load_yaml(to_yaml(any_report))):
        validator(report_schema()).validate(data)
        assert data["apiVersion"] == "hindcast.report/v1"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("events",), "many"),
        (("policies", 0, "status"), "MAYBE"),
        (("policies", 0, "extra"), 1),
        (("apiVersion",), "hindcast.report/v2"),
    ],
)
def test_the_schema_refuses_what_the_model_cannot_be(report: Report, path: tuple[str | int, ...], value: object) -> None:
    data = json.loads(to_json(report))
    part: Any = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    assert not validator(report_schema()).is_valid(data)


def test_sarif_is_valid(any_report: Report) -> None:
    log = json.loads(to_sarif(any_report))
    validator(json.loads((CASES / "sarif.json").read_text())).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_every_format_of_ci_shows_the_object_of_a_counterexample(report: Report) -> None:
    verdict = json.loads(to_sarif(report))["runs"][0]["results"][0]
    assert [shown["object"] for shown in verdict["properties"]["counterexamples"]] == [{"spec": {"image": HOSTILE}}]
    printed = [suite.findtext("system-out", "") for suite in Xml.fromstring(to_junit(report)).findall("testsuite")]
    assert any("counterexample: create pods pay-prod/cart-9" in text and "image: " in text for text in printed)


def test_sarif_points_at_the_policy_and_keeps_its_fingerprints(report: Report, report_with: Callable[..., Report]) -> None:
    results = json.loads(to_sarif(report))["runs"][0]["results"]
    places = {
        result["properties"]["policy"]: result["locations"][0].get("physicalLocation")
        for result in results
        if result["ruleId"] != "would-deny"
    }
    assert places["image-registry"] == {
        "artifactLocation": {"uri": "policies/image%20registry.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3},
    }
    denied = [result["locations"][0] for result in results if result["ruleId"] == "would-deny"]
    # The validation that denied; the policy itself where it is not known which one did.
    assert [place["physicalLocation"]["region"] for place in denied[:2]] == [{"startLine": 14}, {"startLine": 3}]
    assert places["new-rule"]["artifactLocation"] == {"uri": "file:///srv/new.yaml"}
    assert places["thin"] is None
    names = [result["partialFingerprints"]["hindcast/v1"] for result in results]
    assert len(set(names)) == len(names)
    later = json.loads(to_sarif(report_with(reasons=("other figures",))))["runs"][0]["results"]
    assert [result["partialFingerprints"]["hindcast/v1"] for result in later] == names[:3]


@pytest.mark.parametrize("render", [to_openreports, to_policyreport])
def test_reports_for_dashboards_are_valid(any_report: Report, render: Callable[[Report], str]) -> None:
    check = validator(json.loads((CASES / "openreports.json").read_text()))
    documents = list(load_yaml_all(render(any_report)))
    for document in documents:
        check.validate(document)
        assert sum(document["summary"].values()) == len(document["results"])
    names = [(item["kind"], item["metadata"].get("namespace")) for item in documents]
    assert len(set(names)) == len(names)


def test_each_namespace_has_its_own_report(report: Report) -> None:
    documents = list(load_yaml_all(to_openreports(report)))
    assert [(item["kind"], item["metadata"].get("namespace")) for item in documents] == [
        ("ClusterReport", None),
        ("Report", "pay-prod"),
    ]
    assert documents[0]["summary"] == {"pass": 1, "fail": 2, "warn": 2, "error": 1, "skip": 0}
    assert documents[1]["results"][0]["resources"] == [{"name": "cart-17", "namespace": "pay-prod", "kind": "Deployment"}]


def test_the_verdict_of_a_dashboard_has_the_counterexamples(report: Report) -> None:
    (cluster, *_) = load_yaml_all(to_openreports(report))
    shown = [result["properties"].get("counterexample 1", "") for result in cluster["results"]]
    assert len([text for text in shown if text]) == len([entry for entry in report.policies if entry.counterexamples]) > 0
    example = max(shown)
    assert "audit ID a5" in example
    assert example.endswith(f"object {json.dumps({'spec': {'image': HOSTILE}}, ensure_ascii=False)}")


def test_junit_is_valid(any_report: Report) -> None:
    rules = load_yaml((CASES / "junit.yaml").read_text())
    root = Xml.fromstring(to_junit(any_report))
    assert root.tag == "testsuites"
    for element in root.iter():
        rule = rules[element.tag]
        patterns = rule.get("attributes", {})
        assert set(element.attrib) == set(patterns), element.tag
        for name, value in element.attrib.items():
            assert re.fullmatch(patterns[name], value), (element.tag, name, value)
        assert re.fullmatch(rule.get("children", ""), "".join(f"{child.tag} " for child in element)), element.tag
        assert rule.get("text") or not (element.text or "").strip()


def test_junit_counts_what_it_holds(report: Report) -> None:
    (suite,) = Xml.fromstring(to_junit(report)).findall("testsuite")
    cases = suite.findall("testcase")
    for attribute, tag in (("tests", "."), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        held = cases if tag == "." else [case for case in cases if case.find(tag) is not None]
        assert suite.get(attribute) == str(len(held))
    # One case for each policy: red where it is NOT READY, with the workloads in its text.
    assert [case.get("classname", "").partition(" ")[0] for case in cases] == [entry.policy for entry in report.policies]
    assert [(suite.get("failures"), suite.get("errors"), suite.get("skipped"))] == [("1", "1", "0")]
    assert "pay-prod/Deployment/cart-17 by " in str(suite.findtext("testcase/failure"))


def test_a_workload_is_one_result_whoever_acted_for_it(report: Report) -> None:
    """A person, a controller that makes ReplicaSets and one that makes Pods: the code host shows one alert."""
    entry, *others = report.policies
    (first, *rest) = entry.owners
    alike = [replace(first, user="carol", resource="replicasets.apps", requests=9), first, *rest]
    changed = replace(report, policies=(replace(entry, owners=tuple(alike)), *others))
    results = [each for each in json.loads(to_sarif(changed))["runs"][0]["results"] if each["ruleId"] == "would-deny"]
    (found,) = (each for each in results if each["properties"]["namespace"] == "pay-prod" and each["occurrenceCount"] == 12)
    assert found["properties"]["users"] == ["carol", first.user]
    assert len([each for each in results if each["properties"]["namespace"] == "pay-prod"]) == len(
        {(row.policy, owner.unit) for row in changed.policies for owner in row.owners if owner.namespace == "pay-prod"}
    )


def test_markdown_fits_into_a_comment_and_says_what_it_left_out(report: Report) -> None:
    assert "did not fit" not in to_markdown(report)
    large = to_markdown(replace(report, policies=report.policies * 300))
    assert len(large) <= 65_536
    assert "did not fit into a comment" in large
    assert large.count("image-registry |") > 20


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("report.html", "html"),
        ("a.md", "markdown"),
        ("a.json", "json"),
        ("a.sarif", "sarif"),
        ("a.sarif.json", "sarif"),
        ("junit.xml", "junit"),
        ("a.yaml", "yaml"),
        ("a.openreports.yaml", "openreports"),
        ("a.policyreport.yaml", "policyreport"),
        ("a.pdf", None),
    ],
)
def test_a_file_name_says_its_format(name: str, form: str | None) -> None:
    assert format_of(name) == form


def test_every_format_prints_every_report(any_report: Report) -> None:
    for name, form in TEXT_FORMATS.items():
        text = form.render(any_report)
        assert text == form.render(any_report), name
        assert text.endswith("\n"), name
