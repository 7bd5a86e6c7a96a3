"""A change of a policy is judged by what each version enforces: the step from Audit to Deny makes new denials."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.sources.snapshot import ingest_snapshot
from pipeline.policies.model import PolicySet
from pipeline.readiness import verdicts_of
from pipeline.readiness.against import Base
from pipeline.readiness.build import build_report
from pipeline.readiness.change import Fate
from pipeline.readiness.exempting.manifests import to_yaml
from pipeline.readiness.model import PolicyReadiness, Status
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.report.formats import TEXT_FORMATS
from pipeline.stages.registry import VALIDATING
from pipeline.stages.validating.decode import BINDING, POLICY
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.recording import START, Log, deployment, take_in
from tests.reporting import about_of
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "changes.yaml").read_text(encoding="utf-8"))
RULES = ReadinessRules(matched_units_min=5, days_min=0, weekdays_min=1)
PREFIXES = {"shop": "d", "pay": "e"}
API = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = Log()
    for namespace, prefix in PREFIXES.items():
        for number in range(10):
            log.write("create", deployment(f"{prefix}{number}", number, namespace))
    return take_in(tmp_path_factory.mktemp("changes") / "lake", log.lines)


def version(given: Mapping[str, Any], name: str = "p") -> list[dict[str, Any]]:
    """The objects of one version of a policy; the fields are those of the cases."""
    name = given.get("policy", name)
    limit = "params.data.max" if "param" in given else f"'{given.get('limit', 5)}'"
    expression = given.get("expression", f"object.spec.replicas <= int({limit})")
    spec: dict[str, Any] = {
        "failurePolicy": given.get("failurePolicy", "Fail"),
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}]
        },
        "matchConditions": [{"name": f"c{number}", "expression": text} for number, text in enumerate(given.get("conditions", ()))],
        "validations": [{"expression": "object.spec.nothing == 1" if given.get("broken") else expression}],
    }
    if "param" in given:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    objects = [{"apiVersion": API, "kind": POLICY, "metadata": {"name": name}, "spec": spec}]
    for each in given.get("bindings", [{"name": f"{name}-all", "actions": given.get("actions", ["Deny"])}]):
        bound: dict[str, Any] = {"policyName": name, "validationActions": each["actions"]}
        if "namespace" in each:
            labels = {"kubernetes.io/metadata.name": each["namespace"]}
            bound["matchResources"] = {"namespaceSelector": {"matchLabels": labels}}
        if "param" in given:
            bound["paramRef"] = {"name": f"{name}-max", "namespace": "default", "parameterNotFoundAction": "Deny"}
        objects.append({"apiVersion": API, "kind": BINDING, "metadata": {"name": each["name"]}, "spec": bound})
    if "param" in given:
        data = {"max": str(given["param"])}
        metadata = {"name": f"{name}-max", "namespace": "default"}
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return objects


def policies_of(objects: Sequence[dict[str, Any]]) -> PolicySet:
    return parse_policy_set([("version", to_yaml(objects))])


def compared(
    lake: Path, base: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], renamed: Mapping[str, str] | None = None
) -> Report:
    """The report on the second version against the first."""
    reader = open_lake(lake, threads=1)
    try:
        old = plan_replay(reader, policies_of(base))
        ran = run_replay(old, lake)
        plan = plan_replay(reader, policies_of(new))
        summary = run_replay(plan, lake)
        about = about_of(plan, summary)
        kind = about.stage.readiness
        found = Base(kind, old.policies, plan.policies, plan, old, ran, verdicts_of(lake, ran), renamed or {})
        return build_report(reader, lake, about, {}, RULES, base=found)
    finally:
        reader.close()


def fates(entries: Sequence[PolicyReadiness]) -> dict[str, int]:
    """Requests by fate, without those that do not occur."""
    found: dict[str, int] = {}
    for entry in entries:
        assert entry.change is not None
        for fate in Fate:
            found[fate] = found.get(fate, 0) + entry.change.count(fate).requests
    return {fate: count for fate, count in found.items() if count}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_a_change_does(lake: Path, case: dict[str, Any]) -> None:
    report = compared(lake, version(case["base"]), version(case["new"]), case.get("renamed"))
    gone = sum(change.gone.requests for change in report.removed)
    found = fates(report.policies)
    if "removed" in case:
        assert gone == case["removed"]
    elif gone:
        found["gone"] = found.get("gone", 0) + gone
    assert found == case["fates"]
    statuses = [entry.status for entry in report.policies]
    assert (Status.NEW_DENIALS in statuses) == (case["status"] == "NEW DENIALS")
    assert case["status"] in statuses
    assert Status.READY not in statuses
    if "says" in case:
        assert any(case["says"] in reason for entry in report.policies for reason in entry.reasons)


def test_bindings_in_another_order_and_other_secrets_are_the_same_version(lake: Path) -> None:
    policy, *bindings = version({"bindings": [{"name": "shop", "actions": ["Deny"]}, {"name": "pay", "actions": ["Audit"]}]})

    def with_secret(password: str, *objects: dict[str, Any]) -> list[dict[str, Any]]:
        return [*objects, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": password}}]

    before, after = with_secret("a", policy, *bindings), with_secret("b", policy, *reversed(bindings))
    changes = [entry.change for entry in compared(lake, before, after).policies]
    assert [change.is_same for change in changes if change is not None] == [True, True]


VERSION = st.fixed_dictionaries(
    {
        "actions": st.sampled_from([["Audit"], ["Warn"], ["Warn", "Audit"], ["Deny"], ["Deny", "Audit"]]),
        "limit": st.integers(0, 9),
        "failurePolicy": st.sampled_from(["Fail", "Ignore"]),
        "broken": st.booleans(),
        "namespace": st.sampled_from([None, "shop", "pay"]),
    }
)


def enforced(given: Mapping[str, Any]) -> set[str]:
    """The Deployments that a version denies, by other means than the engine."""
    if "Deny" not in given["actions"]:
        return set()
    found = {
        (namespace, number)
        for namespace in PREFIXES
        for number in range(10)
        if (given["failurePolicy"] == "Fail" if given["broken"] else number > given["limit"])
    }
    return {f"{PREFIXES[space]}{number}" for space, number in found if given["namespace"] in (None, space)}


def drawn(given: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    where = {"namespace": given["namespace"]} if given["namespace"] else {}
    return version({**given, "bindings": [{"name": f"{name}-all", "actions": given["actions"], **where}]}, name)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(VERSION, VERSION), min_size=8, max_size=10))
def test_new_kept_and_gone_are_what_the_versions_enforce(lake: Path, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Each pair is a policy of its own, so one example tries a dozen changes; each pair is also flipped from Audit to Deny."""
    pairs = [*pairs, *(({**old, "actions": ["Audit"]}, {**old, "actions": ["Deny"]}) for old, _ in pairs)]
    before = [obj for number, (old, _) in enumerate(pairs) for obj in drawn(old, f"p{number}")]
    after = [obj for number, (_, new) in enumerate(pairs) for obj in drawn(new, f"p{number}")]
    for entry in compared(lake, before, after).policies:
        old, new = (enforced(each) for each in pairs[int(entry.policy[1:])])
        assert entry.change is not None
        counts = [entry.change.count(fate) for fate in (Fate.NEW, Fate.KEPT, Fate.GONE)]
        assert [(count.requests, count.units) for count in counts] == [(len(x), len(x)) for x in (new - old, new & old, old - new)]
        assert {unit.unit.partition("/")[2] for unit in entry.change.units_of(Fate.NEW)} == new - old
        if new - old:
            assert entry.status is Status.NEW_DENIALS
        else:
            assert entry.status in (Status.NO_NEW_DENIALS, Status.INSUFFICIENT_EVIDENCE)


def test_figures_of_a_policy_are_the_same_with_and_without_a_version_before(lake: Path) -> None:
    reader = open_lake(lake, threads=1)
    plan = plan_replay(reader, policies_of(version({})))
    (alone,) = build_report(reader, lake, about_of(plan, run_replay(plan, lake)), {}, RULES).policies
    reader.close()
    (entry,) = compared(lake, version({"limit": 7}), version({})).policies
    latent = replace(entry.latent, fates={})
    same = replace(entry, change=None, status=alone.status, reasons=alone.reasons, latent=latent)
    assert same == alone


def test_what_exists_and_was_not_tried_is_new_only_where_the_base_does_not_deny_it(lake: Path, tmp_path: Path) -> None:
    own = tmp_path / "lake"
    shutil.copytree(lake, own)
    listed = [deployment(f"old-{number}", number) for number in (6, 9)]
    for obj in listed:
        obj["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z"
    file = tmp_path / "snapshot.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": listed}))
    opened = Lake.open(own)
    ingest_snapshot(opened, [file], "lab", START)
    opened.close()
    for base, counts in (({"actions": ["Audit"]}, (2, 0)), ({"limit": 7}, (1, 1)), ({}, (0, 2))):
        (entry,) = compared(own, version(base), version({})).policies
        assert entry.change is not None
        assert (entry.change.latent_new, entry.change.latent_kept) == counts
        assert entry.latent.objects_denied == 2
        assert (entry.status is Status.NEW_DENIALS) == (counts[0] > 0)


@dataclass
class Reports:
    flipped: Report
    same: Report


@pytest.fixture(scope="module")
def reports(lake: Path) -> Reports:
    return Reports(
        compared(lake, [*version({"actions": ["Audit"]}), *version({}, "other")], version({})),
        compared(lake, version({}), version({})),
    )


@pytest.mark.parametrize("form", sorted(TEXT_FORMATS))
def test_every_format_says_new_denials_and_never_ready(reports: Reports, form: str) -> None:
    render = TEXT_FORMATS[form].render
    flipped, same = render(reports.flipped), render(reports.same)
    assert "NEW DENIALS" in flipped
    assert "NO NEW DENIALS" in same
    # HTML explains its charts and rules, and SARIF lists all of its rules, with the words of other verdicts.
    if form not in ("html", "sarif"):
        assert "READY" not in flipped + same
    for text, counts in ((flipped, ("8 / 8", "0 / 0")), (same, ("0 / 0", "8 / 8"))):
        if form in ("markdown", "junit", "openreports", "policyreport"):
            assert all(count in text for count in counts)


def test_a_replay_says_which_policies_have_no_other_version() -> None:
    unpaired = VALIDATING.readiness.unpaired
    found = unpaired(policies_of(version({})), policies_of(version({"policy": "old"})))
    assert found == [
        "no version before: the other version has no policy named p",
        "no version now: only the other version has a policy named old",
    ]
    assert unpaired(policies_of(version({})), policies_of(version({}))) == []
