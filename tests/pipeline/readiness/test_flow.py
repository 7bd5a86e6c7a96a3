"""One flow makes every report: what it is asked with reaches each replay of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.authorization import OtherAuthorizers
from pipeline.cel.defects import DEFECT
from pipeline.readiness.ask import readiness
from pipeline.readiness.flow import Step, Wanted, latent_defects, make_report
from pipeline.readiness.model import Fidelity, Latent, LatentViolation
from pipeline.readiness.rules import ReadinessRules
from pipeline.runs import Defect, RunKind
from pipeline.stages.validating.load import parse_policy_set
from queries import open_lake
from tests.recording import START, Log, deployment, take_in
from tests.reporting import Walking, run_of

POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "plural": "validatingadmissionpolicies",
    "metadata": {"name": "may-scale", "uid": "p", "resourceVersion": "1"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}],
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
        },
        "validations": [{"expression": "authorizer.group('apps').resource('deployments').check('scale').allowed()"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "plural": "validatingadmissionpolicybindings",
    "metadata": {"name": "may-scale", "uid": "b", "resourceVersion": "2"},
    "spec": {"policyName": "may-scale", "validationActions": ["Audit"]},
}


def recorded_log(folder: Path) -> Path:
    log = Log()
    log.write("create", POLICY)
    log.write("create", BINDING)
    for name in ("web", "api"):
        log.write("create", deployment(name, 1), annotations={"authorization.k8s.io/decision": "allow"})
    return take_in(folder / "lake", log.lines)


def test_a_calibration_has_the_authorizers_that_the_report_is_asked_with(tmp_path: Path) -> None:
    lake = recorded_log(tmp_path)
    policies = load_policy_set([])
    reader = open_lake(lake)
    plan = plan_replay(reader, policies)
    reader.close()
    steps: list[Step] = []
    walking = Walking(lake)
    wanted = Wanted(ReadinessRules(days_min=5), change_delay=timedelta(0))
    made = make_report(lake, run_of(plan, run_replay(plan, lake), OtherAuthorizers.ANY), wanted, walking, steps.append)
    ((kind, bound),) = walking.walked
    assert kind is RunKind.CALIBRATION
    assert bound.other_authorizers == (("lab", OtherAuthorizers.ANY),)
    assert bound.change_delay == timedelta(0)
    assert steps == [Step.CALIBRATING, Step.REPORTING, Step.EXEMPTING]
    assert made.report.rules.days_min == 5
    assert made.fidelity is not None


def test_a_later_report_reads_the_first_comparison(tmp_path: Path) -> None:
    lake = recorded_log(tmp_path)
    reader = open_lake(lake)
    plan = plan_replay(reader, load_policy_set([]))
    reader.close()

    def fidelity() -> dict[str, Fidelity] | None:
        wanted = Wanted(remedies=False, change_delay=timedelta(0))
        return make_report(lake, run_of(plan, run_replay(plan, lake)), wanted, Walking(lake)).fidelity

    first = fidelity()
    assert first
    (kept,) = (lake / "runs").glob("*/agreement-*.json")
    content = kept.read_bytes()
    # A later report reads what an earlier one kept, and makes a damaged file again.
    *_, (*place, unknown) = json.loads(content)
    kept.write_bytes(json.dumps([[*place, unknown + 1]]).encode())
    assert fidelity() != first
    kept.write_bytes(content[:20])
    assert fidelity() == first
    assert kept.read_bytes() == content


def test_a_report_of_a_notebook_calibrates_with_its_authorizers(tmp_path: Path) -> None:
    lake = recorded_log(tmp_path)
    reader = open_lake(lake)
    plan = plan_replay(reader, load_policy_set([]), other_authorizers=OtherAuthorizers.ANY)
    reader.close()
    readiness(lake, plan, run_replay(plan, lake), change_delay=timedelta(0), other_authorizers=OtherAuthorizers.ANY)
    kept = [path.read_text() for path in (lake / "runs").glob("*/plan.json")]
    assert [text for text in kept if '"lab": "any"' in text]


def test_defects_over_what_was_not_tried_are_told(tmp_path: Path) -> None:
    lake = recorded_log(tmp_path)
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("policies", json.dumps({k: v for k, v in POLICY.items() if k != "plural"}))]))
    reader.close()
    told: list[Defect] = []
    wanted = Wanted(compares=False, remedies=False, note=told.extend)
    report = make_report(lake, run_of(plan, run_replay(plan, lake)), wanted, Walking(lake)).report
    assert told == []
    why = f"{DEFECT}: ValueError: x"
    object_ = LatentViolation("shop", "deployments.apps", "web", "", "", "unknown", why, "", START, "insufficient")
    others = replace(object_, message="object: too old"), replace(object_, outcome="deny")
    latent = Latent(violations=(object_, object_, *others))
    (entry,) = report.policies
    found = latent_defects(replace(report, policies=(replace(entry, latent=latent),)))
    assert found == [Defect("may-scale", why, 2)]
