"""Exemptions: with them applied a replay denies nothing, and without any one of them it denies something again."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingest.files import ingest_files
from ingest.lake import Lake
from pipeline.admission.policies import PolicySet, load_policy_set, parse_policy_set
from pipeline.admission.policies.decode import BINDING, POLICY
from pipeline.admission.policies.documents import read_documents
from pipeline.readiness.exclusions import Exclusion, Exposed, Kind
from pipeline.readiness.exemptions import choose_exclusions
from pipeline.readiness.manifests import Manifests, exemption_dates, json_patches, merge_patches, to_yaml, with_exclusions
from pipeline.readiness.proposal import Proposal, propose
from pipeline.readiness.review import Need, expired, present, removed, review
from pipeline.replay import plan_replay, run_replay
from queries import open_lake

DEMO = Path(__file__).parents[3] / "api" / "demo" / "policies"
EXPIRES = date(2026, 6, 1)
START = datetime(2026, 1, 1, tzinfo=UTC)

LIMIT = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit, labels: {kept: "yes"}}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [deployments]}]
  validations: [{expression: "object == null || object.spec.replicas <= 5"}]
"""
BOUND = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit-all}
spec: {policyName: limit, validationActions: [Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit-shop}
spec:
  policyName: limit
  validationActions: [Audit]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}
"""


def lake_of(folder: Path, requests: Iterable[dict[str, Any]]) -> Path:
    """A lake of writes of Deployments: `namespace`, `user`, `name`, `replicas`, and perhaps `labels`, `verb`, `groups`, `level`."""
    events = []
    deployments = {"resource": "deployments", "apiGroup": "apps", "apiVersion": "v1"}
    for number, asked in enumerate(requests):
        verb, name, namespace = asked.get("verb", "create"), asked["name"], asked["namespace"]
        received = START + timedelta(seconds=number)
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
        }
        if asked.get("labels") is not None:
            metadata["labels"] = asked["labels"]
        obj = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, "spec": {"replicas": asked["replicas"]}}
        events.append(
            {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": asked.get("level", "RequestResponse"),
                "auditID": f"id-{number:04}",
                "stage": "ResponseComplete",
                "requestURI": f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
                "verb": verb,
                "user": {"username": asked["user"], "groups": asked.get("groups", ["system:authenticated"])},
                "objectRef": {**deployments, "namespace": namespace, "name": name},
                "responseStatus": {"metadata": {}, "code": 201 if verb == "create" else 200},
                "requestReceivedTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.000000Z",
                "stageTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.004000Z",
                **({"requestObject": obj, "responseObject": obj} if asked.get("level") != "Metadata" else {}),
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "audit.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    lake = Lake.create(folder / "lake")
    ingest_files(lake, [log], "lab", received_ts=0.0)
    lake.close()
    return lake.path


def proposed(lake: Path, policies: PolicySet) -> Proposal:
    reader = open_lake(lake, threads=1)
    try:
        plan = plan_replay(reader, policies)
        return propose(reader, lake, plan, run_replay(plan, lake), Manifests.of(policies), EXPIRES)
    finally:
        reader.close()


def denied(lake: Path, policies: PolicySet) -> dict[str, int]:
    """Would-be denials of each policy, by a replay of its own."""
    reader = open_lake(lake, threads=1)
    try:
        summary = run_replay(plan_replay(reader, policies), lake)
    finally:
        reader.close()
    found = {policy.name: 0 for policy in policies.policies}
    for item in summary.bindings:
        found[item.policy] += item.deny
    return found


def without_each(proposal: Proposal) -> PolicySet:
    """For each proposed exclusion a copy of its policy that has all the others, to be replayed together."""
    objects: dict[tuple[str, str], Any] = {}
    number = 0
    for choice in proposal.choices:
        for item in choice.chosen:
            others = [(each.exclusion, EXPIRES) for each in choice.chosen if each != item]
            less = with_exclusions(proposal.before, others)
            objects |= less.renamed(choice.policy, f"without-{number}", less.bindings_of(choice.policy))[0]
            number += 1
    return Manifests(objects).policy_set()


def check(lake: Path, policies: PolicySet) -> Proposal:
    """The property: nothing is denied with all of them, something is without any one."""
    proposal = proposed(lake, policies)
    assert not any(choice.left for choice in proposal.choices)
    after = proposal.after.policy_set()
    assert all(count == 0 for count in denied(lake, after).values())
    assert all(left.denied == 0 for left in proposal.left.values())
    if any(choice.chosen for choice in proposal.choices):
        assert all(count > 0 for count in denied(lake, without_each(proposal)).values())
    return proposal


def chosen(proposal: Proposal) -> list[str]:
    return [item.exclusion.words for choice in proposal.choices for item in choice.chosen]


REQUEST = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["shop", "legacy", "pay"]),
        "user": st.sampled_from(["alice", "bob", "system:serviceaccount:cd:argo"]),
        "name": st.sampled_from(["web", "web-a", "cart", "db"]),
        "replicas": st.sampled_from([1, 2, 9]),
        "labels": st.sampled_from([None, {"tier": "gold"}, {"tier": "tin", "app": "x"}]),
        "verb": st.sampled_from(["create", "update", "delete"]),
        "groups": st.sampled_from([["system:authenticated"], ["system:authenticated", "ops"]]),
    }
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(REQUEST, min_size=1, max_size=25), st.sampled_from([LIMIT, LIMIT + BOUND]))
def test_made_up_traffic(tmp_path_factory: pytest.TempPathFactory, requests: list[dict[str, Any]], text: str) -> None:
    check(lake_of(tmp_path_factory.mktemp("traffic"), requests), parse_policy_set([("limit", text)]))


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundled") / "lake"
    shutil.copytree(demo_lake, path)
    return path


def test_the_bundled_log(lake: Path) -> None:
    policies = load_policy_set([DEMO])
    proposal = check(lake, policies)
    # What is unknown is not called clean.
    assert proposal.left["deny-external-ips"].unknown == 0
    assert proposal.left["image-registry"].unknown > 0
    assert not proposal.is_clean
    for exemption in proposal.exemptions_of("image-registry", "image-registry"):
        assert exemption.expires == EXPIRES
        assert exemption.denied_requests <= exemption.hides_requests


def test_a_namespace_is_excluded_where_everything_in_it_fails(tmp_path: Path) -> None:
    traffic = [{"namespace": "legacy", "user": "alice", "name": f"a{number}", "replicas": 9} for number in range(5)]
    traffic += [{"namespace": "shop", "user": "alice", "name": f"b{number}", "replicas": 1} for number in range(5)]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT + BOUND)]))
    assert chosen(proposal) == ["namespace legacy"]
    assert proposal.is_clean
    (exemption,) = proposal.exemptions_of("limit", "limit-all")
    assert exemption.target == f"{BINDING}/limit-all"
    assert (exemption.denied_requests, exemption.hides_requests) == (5, 5)
    assert proposal.exemptions_of("limit", "limit-shop") == ()
    assert exemption_dates(proposal.after.objects[BINDING, "limit-all"]) == {"namespace legacy": EXPIRES}


def test_a_wide_exclusion_gives_way_to_narrow_ones(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "shop", "user": "alice", "name": f"a{number}", "replicas": 9 if number < 2 else 1} for number in range(20)
    ]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT)]))
    assert chosen(proposal) == ["deployments.apps named a0", "deployments.apps named a1"]
    assert proposal.choices[0].width.passing_units == 0
    # A policy that is not bound gets a binding that only audits.
    assert proposal.after.objects[BINDING, "limit"]["spec"]["validationActions"] == ["Audit"]


def test_a_label_that_separates_exactly_is_preferred_to_many_names(tmp_path: Path) -> None:
    old, new = {"generation": "old"}, {"generation": "new"}
    traffic = [
        {"namespace": ("shop", "pay")[number % 2], "user": "alice", "name": f"a{number}", "replicas": 9 if number % 3 else 1}
        for number in range(30)
    ]
    for request in traffic:
        request["labels"] = old if request["replicas"] == 9 else new
    assert chosen(check(lake_of(tmp_path / "a", traffic), parse_policy_set([("limit", LIMIT + BOUND)])))[:1] == [
        "objects with label generation=old"
    ]
    # One object with that label that passes: the label does not separate any more.
    traffic.append({"namespace": "pay", "user": "alice", "name": "a99", "replicas": 1, "labels": old})
    proposal = check(lake_of(tmp_path / "b", traffic), parse_policy_set([("limit", LIMIT + BOUND)]))
    assert not any("label" in words for words in chosen(proposal))


def test_what_cannot_be_judged_is_never_clean(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "legacy", "user": "alice", "name": "a", "replicas": 9},
        {"namespace": "shop", "user": "alice", "name": "b", "replicas": 9, "level": "Metadata"},
    ]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT)]))
    assert proposal.left["limit"].unknown == 1
    assert not proposal.is_clean


def test_manifests_keep_what_a_person_wrote_and_patches_say_the_same(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "legacy", "user": "bot", "name": "a", "replicas": 9},
        {"namespace": "legacy", "user": "bot", "name": "b", "replicas": 1},
        {"namespace": "shop", "user": "bot", "name": "c", "replicas": 9, "verb": "update"},
    ]
    policies = parse_policy_set([("limit", LIMIT + BOUND)])
    proposal = proposed(lake_of(tmp_path, traffic), policies)
    before, after = proposal.before, proposal.after
    for patch in merge_patches(before, after):
        key = (patch["kind"], patch["metadata"]["name"])
        assert merged(before.objects[key], patch) == after.objects[key]
    for entry in json_patches(before, after):
        key = (entry["target"]["kind"], entry["target"]["name"])
        assert edited(before.objects[key], entry["patch"]) == after.objects[key]
    assert merge_patches(before, after)
    assert merge_patches(after, after) == []


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386, in its own words."""
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def edited(old: Any, operations: list[Any]) -> Any:
    """RFC 6902, as far as objects go."""
    found = copy.deepcopy(old)
    for operation in operations:
        *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        parent = found
        for step in steps:
            parent = parent[step]
        assert (last in parent) == (operation["op"] == "replace")
        parent[last] = operation["value"]
    return found


def test_exemptions_that_are_there_are_reviewed(tmp_path: Path) -> None:
    traffic = [{"namespace": "legacy", "user": "alice", "name": f"a{number}", "replicas": 9} for number in range(3)]
    traffic += [{"namespace": "pay", "user": "alice", "name": f"b{number}", "replicas": 9 * (number == 0)} for number in range(9)]
    traffic += [{"namespace": "shop", "user": "alice", "name": f"c{number}", "replicas": 1} for number in range(3)]
    lake = lake_of(tmp_path, traffic)
    text = BOUND.replace("spec: {policyName: limit, validationActions: [Audit]}", BINDING_WITH_THREE)
    manifests = Manifests.of(parse_policy_set([("limit", LIMIT + text)]))
    reader = open_lake(lake, threads=1)
    found = {item.words: item for item in review(reader, lake, manifests)}
    reader.close()
    name = "namespaceSelector: kubernetes.io/metadata.name NotIn"
    assert found[f"{name} [legacy]"].need is Need.NEEDED
    assert found[f"{name} [gone]"].need is Need.NOT_NEEDED
    wide = found[f"{name} [pay]"]
    assert wide.need is Need.TOO_WIDE
    assert wide.passing_share == pytest.approx(8 / 9)
    assert wide.narrower == ("deployments.apps named b0",)


BINDING_WITH_THREE = """spec:
  policyName: limit
  validationActions: [Audit]
  matchResources:
    namespaceSelector:
      matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [gone, legacy, pay]}]"""


def test_exemptions_expire_on_their_day() -> None:
    before = Manifests.of(parse_policy_set([("limit", LIMIT + BOUND)]))
    wanted = Exclusion("limit", "limit-all", Kind.NAMESPACE, "legacy")
    after = with_exclusions(before, [(wanted, EXPIRES), (replace(wanted, subject="pay"), None)])
    assert [(item.target, item.words) for item in expired(after, EXPIRES)] == [(f"{BINDING}/limit-all", "namespace legacy")]
    assert expired(after, EXPIRES - timedelta(days=1)) == ()
    assert Manifests.of(after.policy_set(), after.objects.values()) == after


WORDS = st.text("aBbxyYnNeEfo019:.-+_ ~#'\"\n\u00e9", max_size=6)


@given(st.dictionaries(WORDS, WORDS | st.integers() | st.booleans() | st.lists(WORDS), max_size=5))
@example({"a": "1e3", "b": "y", "c": "0x1f", "d": "12:30", "e": "1_000", "f": "2026-01-31", "g": ".5", "N": "off", "1e3": "~"})
def test_yaml_is_read_as_what_was_written(value: dict[str, Any]) -> None:
    (document,) = read_documents(to_yaml([{"kind": "Other", **value}]), "here")
    assert document.value == {"kind": "Other", **value}


@pytest.mark.parametrize("name", ["1e3", "y", "12", "0x1"])
def test_names_that_look_like_numbers_can_be_exempted(tmp_path: Path, name: str) -> None:
    traffic = [{"namespace": name, "user": name, "name": f"a{number}", "replicas": 9} for number in range(3)]
    check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT + BOUND)]))


def test_taking_out_the_last_value_takes_out_the_entry() -> None:
    manifests = Manifests.of(
        parse_policy_set(
            [
                (
                    "one",
                    LIMIT
                    + """
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: limit
  validationActions: [Audit]
  matchResources:
    objectSelector: {matchExpressions: [{key: a, operator: NotIn, values: [x]}, {key: b, operator: DoesNotExist}]}
    excludeResourceRules:
      - {apiGroups: [apps], apiVersions: ["*"], operations: ["*"], resources: [deployments], resourceNames: [x]}
""",
                )
            ]
        )
    )
    items = present(manifests)
    assert [item.words for item in items] == [
        "objectSelector: a NotIn [x]",
        "objectSelector: b DoesNotExist",
        "excludeResourceRules: deployments named x",
    ]
    binding = manifests.objects[BINDING, "b"]
    resources = [removed(binding, item.path)["spec"]["matchResources"] for item in items]
    assert [item["key"] for item in resources[0]["objectSelector"]["matchExpressions"]] == ["b"]
    assert [item["key"] for item in resources[1]["objectSelector"]["matchExpressions"]] == ["a"]
    assert resources[2]["excludeResourceRules"] == []


def row(**given: Any) -> Exposed:
    fields = {
        "policy": "p",
        "binding": "b",
        "outcome": "deny",
        "namespace": "shop",
        "user": "alice",
        "groups": (),
        "api_group": "apps",
        "resource": "deployments",
        "subresource": "",
        "name": "web",
        "unit": "deployments/web",
        "labels": {},
        "requests": 1,
    }
    return Exposed(**{**fields, **given})


def test_what_a_controller_makes_is_exempted_by_its_workload() -> None:
    pods = [row(resource="pods", api_group="", name=f"web-5d-{tail}", unit="Deployment/web") for tail in "abc"]
    passing = [row(name=f"n{number}", unit=f"deployments/n{number}", outcome="admit") for number in range(9)]
    choice = choose_exclusions([row(), *pods, *passing])
    assert [item.exclusion.words for item in choice.chosen] == ["workload web in namespace shop"]


def test_an_error_of_the_configuration_of_a_whole_policy_is_left() -> None:
    broken = row(binding=None, is_configuration=True)
    choice = choose_exclusions([broken, row()])
    assert choice.left == (broken,)
    assert len(choice.chosen) == 1


SIX = [row(name=name, unit=f"deployments/{name}", namespace=space) for name in "abc" for space in ("x", "y")]


@given(st.permutations(SIX))
def test_the_order_of_rows_does_not_matter(rows: list[Exposed]) -> None:
    assert {item.exclusion for item in choose_exclusions(rows).chosen} == {
        item.exclusion for item in choose_exclusions(sorted(rows, key=str)).chosen
    }


def test_more_match_conditions_than_a_policy_may_have_share_one() -> None:
    spaces = [f"n{number}" for number in range(90)]
    rows = [row(namespace=space, name=None, unit="?", binding=None) for space in spaces]
    rows += [row(namespace="other", name=f"o{n}", unit=f"x/{n}", binding=None, outcome="admit") for n in range(200)]
    choice = choose_exclusions(rows)
    assert {item.exclusion.kind for item in choice.chosen} == {Kind.USER_IN_NAMESPACE}
    policies = parse_policy_set([("limit", LIMIT.replace("name: limit", "name: p"))])
    after = with_exclusions(Manifests.of(policies), [(item.exclusion, None) for item in choice.chosen])
    assert len(after.policy_set().policies[0].match_conditions) == 64
    assert len(exemption_dates(after.objects[POLICY, "p"])) == 90
