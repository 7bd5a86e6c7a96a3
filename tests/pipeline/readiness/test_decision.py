"""A report becomes a decision: exemptions within limits change a verdict, and the steps to Deny ask for no more than was shown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.readiness.build import build_report
from pipeline.readiness.exempting.decision import decided as decide
from pipeline.readiness.exempting.manifests import to_yaml
from pipeline.readiness.model import NamespaceCount, PolicyReadiness, Status
from pipeline.readiness.report import Report
from pipeline.readiness.rollout import DENY, WARN, plan_rollout, ready_namespaces
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.registry import VALIDATING
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.written import PolicyActions
from queries import open_lake
from tests.reporting import about_of, manifests_of, proposing

START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = ReadinessRules(matched_units_min=5, days_min=1, weekdays_min=1)
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit-all}
spec: {policyName: limit, validationActions: [Audit]}
"""


def event(number: int, namespace: str, name: str, replicas: int) -> dict[str, Any]:
    received = START + timedelta(hours=number)
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(number + 1)}
    obj = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, "spec": {"replicas": replicas}}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"/apis/apps/v1/namespaces/{namespace}/deployments",
        "verb": "create",
        "user": {"username": "alice"},
        "objectRef": {"resource": "deployments", "apiGroup": "apps", "apiVersion": "v1", "namespace": namespace, "name": name},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.000000Z",
        "stageTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.004000Z",
        "requestObject": obj,
        "responseObject": obj,
    }


def decided(folder: Path, denied: int, rules: ReadinessRules, every: int = 1) -> Report:
    """A report over 60 Deployments in three namespaces. In `shop` the first, or every so many, are too large."""
    spaces = ("pay", "shop", "pay", "kube-system")
    events = [
        event(number, spaces[number % 4], f"d{number}", 9 if number % 4 == 1 and number // 4 in range(0, denied, every) else 1)
        for number in range(60)
    ]
    log = folder / "audit.jsonl"
    log.write_text("".join(json.dumps(item) + "\n" for item in events))
    lake = Lake.create(folder / "lake")
    ingest_files(lake, [log], "lab", received_ts=0.0)
    lake.close()
    policies = parse_policy_set([("limit", POLICY)])
    reader = open_lake(lake.path, threads=1)
    try:
        plan = plan_replay(reader, policies)
        summary = run_replay(plan, lake.path)
        report = build_report(reader, lake.path, about_of(plan, summary), {}, rules)
        return decide(proposing(reader, lake.path, plan, summary), VALIDATING.readiness, report, date(2026, 6, 1))
    finally:
        reader.close()


def test_few_exemptions_make_a_policy_ready_with_them(tmp_path: Path) -> None:
    (entry,) = decided(tmp_path, 2, RULES).policies
    assert entry.status is Status.READY_WITH_EXEMPTIONS
    assert [item.subject for item in entry.exemptions] == [
        f"deployments.apps named {name} in namespace shop" for name in ("d1", "d5")
    ]
    assert {item.who for item in entry.exemptions} == {"anyone who may write deployments in namespace shop"}
    # The patch of an object stands once and holds all.
    assert [bool(item.patch) for item in entry.exemptions] == [True, False]
    assert len(entry.exemptions[0].patch["spec"]["matchConditions"]) == 2
    # Found in the earlier half, tried on the later: 30 Deployments, all of them new there.
    assert entry.later is not None
    assert (entry.later.workloads, entry.later.workloads_denied, entry.later.new_workloads) == (30, 0, 30)
    assert any("with 95% confidence fewer than 9.5% of new workloads would be denied" in reason for reason in entry.reasons)
    assert [(step.actions, step.namespaces) for step in entry.rollout] == [(WARN, ()), (DENY, ("pay",)), (DENY, ())]
    beside = parse_policy_set([("steps", to_yaml([entry.rollout[1].manifest]))]).bindings[0]  # type: ignore[list-item]
    assert beside.name == "limit-all-deny-first"
    assert beside.match_resources is not None
    assert str(beside.match_resources.namespace_selector) == "kubernetes.io/metadata.name In [pay]"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (replace(RULES, exemptions_max=2), "3 are needed, at most 2 wanted"),
        (replace(RULES, later_units_min=31), "only 30 workloads were judged in the later half of the time, 31 wanted"),
        (replace(RULES, days_min=7), "3 exemptions would make the replay clean, but the evidence is too weak for a verdict"),
    ],
)
def test_what_breaks_a_limit_stays_not_ready(tmp_path: Path, rules: ReadinessRules, words: str) -> None:
    (entry,) = decided(tmp_path, 3, rules).policies
    assert entry.status is Status.NOT_READY
    assert any(words in reason for reason in entry.reasons)
    assert len(entry.exemptions) == 3


def test_new_names_up_to_the_end_are_not_ready_with_exemptions(tmp_path: Path) -> None:
    """One denied Deployment of a new name in every eighth hour, to the last: each can be exempted, and tomorrow's cannot."""
    (entry,) = decided(tmp_path, 15, replace(RULES, exemptions_max=100), every=2).policies
    assert (entry.denials.units, entry.denials.trend.direction) == (8, "steady")
    assert entry.status is Status.NOT_READY
    assert any("4 of 30 workloads there would still be denied" in reason for reason in entry.reasons)


def test_a_ready_policy_goes_to_deny_step_by_step(tmp_path: Path) -> None:
    (entry,) = decided(tmp_path, 0, RULES).policies
    assert entry.status is Status.READY
    assert entry.exemptions == ()
    assert [(step.actions, step.namespaces) for step in entry.rollout] == [(WARN, ()), (DENY, ("pay", "shop")), (DENY, ())]
    # What warns already begins with the namespaces; what denies already has no way to go.
    manifests = manifests_of(parse_policy_set([("limit", POLICY)]))
    assert [step.actions for step in plan_rollout(replace(entry, actions=("Warn",)), RULES, manifests, PolicyActions())] == [
        DENY,
        DENY,
    ]
    assert plan_rollout(replace(entry, actions=("Deny",)), RULES, manifests, PolicyActions()) == ()


def test_without_evidence_no_step_denies(tmp_path: Path) -> None:
    (entry,) = decided(tmp_path, 0, ReadinessRules()).policies
    assert entry.status is Status.INSUFFICIENT_EVIDENCE
    assert [step.actions for step in entry.rollout] == [WARN]
    stay: PolicyReadiness = replace(entry, actions=("Warn",))
    (step,) = plan_rollout(stay, ReadinessRules(), manifests_of(parse_policy_set([("limit", POLICY)])), PolicyActions())
    assert (step.actions, step.why[:9]) == (WARN, "stay here")


def test_namespaces_with_the_most_traffic_come_first_and_the_systems_never() -> None:
    counts = [
        NamespaceCount("a", 10, 0, 0),
        NamespaceCount("b", 90, 0, 1),
        NamespaceCount("c", 90, 1, 0),
        NamespaceCount("d", 10, 0, 9),
        NamespaceCount("kube-system", 500, 0, 0),
        NamespaceCount("", 500, 0, 0),
    ]
    assert ready_namespaces(counts, ReadinessRules()) == ("b", "a")
