"""Exemptions: with them applied a replay denies nothing, and without any one of them it denies something again."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.documents import read_documents
from pipeline.policies.model import PolicySet
from pipeline.readiness.ask import verdicts_of
from pipeline.readiness.exempting.decision import limits_broken
from pipeline.readiness.exempting.exclusions import Exclusion, Kind
from pipeline.readiness.exempting.exemptions import Choice
from pipeline.readiness.exempting.manifests import exemption_dates, json_patches, merge_patches, to_yaml
from pipeline.readiness.exempting.proposal import Proposal
from pipeline.readiness.exempting.review import Need, overdue, present, removed, review
from pipeline.readiness.exempting.search import NOTHING, Search
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.registry import VALIDATING
from pipeline.stages.validating.decode import BINDING, POLICY
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import LakeReader, open_lake
from tests.recording import START, Log, deployment, take_in
from tests.reporting import excluding, manifests_of, policies_of, proposing
from tests.yaml_text import load_yaml

DEMO = Path(__file__).parents[3] / "api" / "demo" / "policies"
REVIEW_BY = date(2026, 6, 1)
RULES = ReadinessRules()

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
    log = Log(timedelta(seconds=1))
    for asked in requests:
        labels = {"labels": asked["labels"]} if asked.get("labels") is not None else {}
        obj = deployment(asked["name"], asked["replicas"], asked["namespace"], **labels)
        log.write(asked.get("verb", "create"), obj, **{key: asked[key] for key in ("user", "groups", "level") if key in asked})
    return take_in(folder / "lake", log.lines)


@contextmanager
def reading(lake: Path) -> Iterator[LakeReader]:
    reader = open_lake(lake, threads=1)
    try:
        yield reader
    finally:
        reader.close()


def proposed(reader: LakeReader, lake: Path, policies: PolicySet) -> Proposal:
    plan = plan_replay(reader, policies)
    return proposing(reader, lake, plan, run_replay(plan, lake)).propose(REVIEW_BY)


def denied(reader: LakeReader, lake: Path, policies: PolicySet) -> dict[str, int]:
    """The requests that each policy would deny, by a replay of its own. Several bindings may deny one request."""
    summary = run_replay(plan_replay(reader, policies), lake)
    found: dict[str, set[str]] = {policy.name: set() for policy in policies.policies}
    for row in pq.read_table(verdicts_of(lake, summary), columns=["policy", "audit_id", "effect"]).to_pylist():
        if row["effect"] == "deny":
            found[row["policy"]].add(row["audit_id"])
    return {name: len(requests) for name, requests in found.items()}


def without_each(proposal: Proposal) -> dict[tuple[str, str], Any]:
    """For each proposed exclusion a copy of its policy that has all the others, to be replayed next to the policies."""
    objects: dict[tuple[str, str], Any] = {}
    number = 0
    for choice in proposal.choices:
        for item in choice.chosen:
            others = [(each.exclusion, REVIEW_BY) for each in choice.chosen if each != item]
            less = excluding(proposal.before, others)
            bindings = [(BINDING, each) for each in less.bindings_of(choice.policy)]
            objects |= less.renamed((POLICY, choice.policy), f"without-{number}", bindings)[0]
            number += 1
    return objects


def check(lake: Path, policies: PolicySet) -> Proposal:
    """All of them leave only denials that none reaches; without any one more is denied. Both are replayed together."""
    with reading(lake) as reader:
        proposal = proposed(reader, lake, policies)
        beyond = {choice.policy: choice.left for choice in proposal.choices}
        assert all(left.denied <= beyond[name] for name, left in proposal.left.items())
        less = without_each(proposal)
        found = denied(reader, lake, policies_of(proposal.after.replaced(less)))
    kept = {name: found[name] for name in beyond}
    assert all(count <= beyond[name] for name, count in kept.items())
    owners = [choice.policy for choice in proposal.choices for _ in choice.chosen]
    assert all(found[f"without-{number}"] > kept[name] for number, name in enumerate(owners))
    return proposal


def runs_of(folder: Path) -> int:
    return len(list((folder / "lake" / "runs").glob("*/summary.json")))


def chosen(proposal: Proposal) -> list[str]:
    return [item.exclusion.words for choice in proposal.choices for item in choice.chosen]


# What a request may be, so that every kind of exclusion has something to do and something to get wrong.
REQUEST = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["Deployment", "Deployment", "Pod", "ConfigMap", "Namespace", "Node"]),
        "namespace": st.sampled_from(["shop", "legacy", "pay"]),
        "user": st.sampled_from(["alice", "bob", "system:serviceaccount:cd:argo"]),
        "name": st.sampled_from(["web", "web-a", "web-a-1", "cart", "db", None]),
        "owner": st.sampled_from([None, None, ("ReplicaSet", "web-a"), ("StatefulSet", "db"), ("Job", "web")]),
        "replicas": st.sampled_from([1, 2, 9, None]),
        "labels": st.sampled_from([None, {"tier": "gold"}, {"tier": "tin", "app": "x"}]),
        "verb": st.sampled_from(["create", "create", "update", "delete"]),
        "groups": st.sampled_from([["system:authenticated"], ["system:authenticated", "ops"]]),
        "level": st.sampled_from(["RequestResponse"] * 5 + ["Metadata"]),
        "code": st.sampled_from([None, None, None, 403]),
        "subresource": st.sampled_from([None, None, None, "status"]),
    }
)
ASKED = (
    "object == null || !has(object.spec) || !has(object.spec.replicas) || object.spec.replicas <= 5",
    "object.spec.replicas < 9",  # an error where there is none, and where there is no object
    "request.userInfo.username != 'alice'",
    "!('ops' in request.userInfo.groups) || request.operation != 'UPDATE'",
    "object == null || has(object.metadata.labels)",
    "object == null || !has(object.metadata.labels) || !('tier' in object.metadata.labels) || object.metadata.labels.tier != 'tin'",
    "!has(request.name) || !request.name.startsWith('web')",
    "oldObject == null || object == null || has(object.metadata.ownerReferences)",
    "!has(request.namespace) || request.namespace != 'legacy'",
    "namespaceObject == null || namespaceObject.metadata.name != 'pay'",
)
POLICY_SPEC = st.fixed_dictionaries(
    {
        "asked": st.sampled_from(ASKED),
        "resources": st.sampled_from(["*", "deployments", "pods", "namespaces", "deployments/*", "configmaps"]),
        "operations": st.sampled_from([["*"], ["CREATE"], ["CREATE", "UPDATE"], ["DELETE", "UPDATE"]]),
        "failurePolicy": st.sampled_from(["Fail", "Ignore"]),
        "spares": st.sampled_from([None, "request.userInfo.username != 'bob'", "object == null || has(object.metadata.labels)"]),
        "bindings": st.lists(
            st.sampled_from(
                [
                    {},
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}},
                    {"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}},
                ]
            ),
            max_size=2,
        ),
    }
)


def made_up(asked: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The verb, the object and the rest of one generated request."""
    kind, name, verb = asked["kind"], asked["name"], asked["verb"]
    metadata: dict[str, Any] = {"name": name or "made-x7", "uid": f"{kind}-{name}", "resourceVersion": "1"}
    if kind not in ("Namespace", "Node"):
        metadata["namespace"] = asked["namespace"]
    if asked["labels"] is not None:
        metadata["labels"] = asked["labels"]
    if asked["owner"]:
        owner, its_name = asked["owner"]
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": owner, "name": its_name, "uid": "u", "controller": True}]
    spec = {} if asked["replicas"] is None else {"replicas": asked["replicas"]}
    obj = {"apiVersion": "apps/v1" if kind == "Deployment" else "v1", "kind": kind, "metadata": metadata, "spec": spec}
    more = {key: asked[key] for key in ("user", "groups", "level")}
    if asked["subresource"] and verb == "update":
        more["subresource"] = asked["subresource"]
    if asked["code"]:
        message = f'{kind.lower()}s "{metadata["name"]}" is forbidden: exceeded quota: q'
        status = {"metadata": {}, "status": "Failure", "reason": "Forbidden", "message": message, "code": asked["code"]}
        more |= {"answer": {"kind": "Status", "apiVersion": "v1", **status}, "responseStatus": status}
    return verb, obj, more


def made_up_log(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    log = Log(timedelta(seconds=1))
    for asked in requests:
        verb, obj, more = made_up(asked)
        log.write(verb, obj, **more)
        if asked["name"] is None and verb == "create":
            event = log.lines[-1]
            del event["objectRef"]["name"]
            if "requestObject" in event:
                event["requestObject"] = copy.deepcopy(event["requestObject"])
                del event["requestObject"]["metadata"]["name"]
                event["requestObject"]["metadata"]["generateName"] = "made-"
    return log.lines


def made_up_policies(specs: Sequence[dict[str, Any]]) -> PolicySet:
    objects: list[dict[str, Any]] = []
    for number, spec in enumerate(specs):
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": spec["operations"], "resources": [spec["resources"]]}
        conditions = [{"name": "spared", "expression": spec["spares"]}] if spec["spares"] else []
        body = {"matchConstraints": {"resourceRules": [rule]}, "matchConditions": conditions}
        body |= {"validations": [{"expression": spec["asked"]}], "failurePolicy": spec["failurePolicy"]}
        objects.append({"kind": POLICY, "metadata": {"name": f"p{number}"}, "spec": body})
        for each, resources in enumerate(spec["bindings"]):
            bound = {"policyName": f"p{number}", "validationActions": ["Audit"], "matchResources": resources}
            objects.append({"kind": BINDING, "metadata": {"name": f"p{number}-b{each}"}, "spec": bound})
    return parse_policy_set([("made up", to_yaml([{"apiVersion": "admissionregistration.k8s.io/v1", **obj} for obj in objects]))])


# An example takes seconds, so a failing one is shown as it is.
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(REQUEST, min_size=30, max_size=60), st.lists(POLICY_SPEC, min_size=10, max_size=14))
def test_made_up_traffic(
    tmp_path_factory: pytest.TempPathFactory, requests: list[dict[str, Any]], specs: list[dict[str, Any]]
) -> None:
    """Every policy of an example is one of its own, tried over the same log: a dozen times the examples for one lake."""
    lake = take_in(tmp_path_factory.mktemp("traffic") / "lake", made_up_log(requests))
    proposal = check(lake, made_up_policies(specs))
    event(f"policies with exemptions: {sum(bool(choice.chosen) for choice in proposal.choices)}")
    event(f"exemptions: {sum(len(choice.chosen) for choice in proposal.choices)}")
    for kind in sorted({item.exclusion.kind for choice in proposal.choices for item in choice.chosen}):
        event(f"kind: {kind}")


@pytest.fixture(scope="module")
def lake(calibrated_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundled") / "lake"
    shutil.copytree(calibrated_lake, path)
    return path


def test_the_bundled_log(lake: Path) -> None:
    policies = load_policy_set([DEMO])
    proposal = check(lake, policies)
    assert proposal.left["deny-external-ips"].unknown == proposal.left["image-registry"].unknown == 0
    for exemption in proposal.exemptions_of("image-registry", "image-registry"):
        assert exemption.review_by == exemption.expires == REVIEW_BY
        assert exemption.who
        assert exemption.denied_requests <= exemption.hides_requests


def test_a_proposal_with_unknown_requests_is_not_clean(tmp_path: Path) -> None:
    """The later half of the bundled log lacks the writes that made many of its objects, so their patches stay unknown."""
    with (DEMO.parent / "audit.jsonl.zst").open("rb") as packed:
        lines = zstandard.ZstdDecompressor().stream_reader(packed).read().splitlines()
    lake = take_in(tmp_path / "lake", [json.loads(line) for line in lines[len(lines) // 2 :]])
    with reading(lake) as reader:
        proposal = proposed(reader, lake, load_policy_set([DEMO / "image-registry.yaml"]))
    left = proposal.left["image-registry"]
    assert left.denied == 0
    assert left.unknown > 100
    assert not proposal.is_clean


SHAPES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: with-params}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}
  validations: [{expression: "object.spec.replicas <= int(params.data.max)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: strict}
spec:
  policyName: with-params
  paramRef: {name: low, namespace: default, parameterNotFoundAction: Deny}
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [shop, pay]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: lax}
spec: {policyName: with-params, paramRef: {name: high, parameterNotFoundAction: Deny}, validationActions: [Warn, Audit]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: low, namespace: default}, data: {max: "2"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: high, namespace: shop}, data: {max: "8"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: high, namespace: pay}, data: {max: "8"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-deletes}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [DELETE], resources: ["*"]}]}
  matchConditions: [{name: not-root, expression: request.userInfo.username != "root"}]
  validations: [{expression: oldObject.spec.replicas == 0}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cluster-scoped}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Cluster}]}
  validations: [{expression: "object == null || 'team' in object.metadata.?labels.orValue({})"}]
"""


def test_policies_of_every_shape(tmp_path: Path) -> None:
    """Params, bindings with selectors, subresources, deletes, match conditions of its own, objects in no namespace."""
    log = Log(timedelta(seconds=1))
    for number in range(12):
        namespace, user = ("shop", "pay")[number % 2], ("alice", "bob", "root")[number % 3]
        web = deployment(f"web-{number}", number, namespace)
        log.write("create", web, user=user)
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": web["metadata"], "spec": {"replicas": number + 1}}
        log.write("update", scale | {"plural": "deployments", "apiVersion": "apps/v1"}, user=user, subresource="scale")
        if number % 4 == 0:
            log.write("delete", web, user=user)
        labels = {"labels": {"team": "a"}} if number % 3 else {}
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"role-{number}", **labels},
        }
        log.write("create", role, user=user)
    proposal = check(take_in(tmp_path / "lake", log.lines), parse_policy_set([("shapes", SHAPES)]))
    assert {choice.policy for choice in proposal.choices if choice.chosen} == {"with-params", "no-deletes", "cluster-scoped"}


def test_a_namespace_is_excluded_where_everything_in_it_fails(tmp_path: Path) -> None:
    traffic = [{"namespace": "legacy", "user": "alice", "name": f"a{number}", "replicas": 9} for number in range(5)]
    traffic += [{"namespace": "shop", "user": "alice", "name": f"b{number}", "replicas": 1} for number in range(5)]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT + BOUND)]))
    assert chosen(proposal) == ["namespace legacy"]
    assert proposal.is_clean
    # Those of this test: what the search tried is nobody's wish.
    assert runs_of(tmp_path) == 2
    (exemption,) = proposal.exemptions_of("limit", "limit-all")
    assert exemption.target == f"{BINDING}/limit-all"
    assert (exemption.denied_requests, exemption.hides_requests) == (5, 5)
    assert proposal.exemptions_of("limit", "limit-shop") == ()
    assert exemption_dates(proposal.after.objects[BINDING, "limit-all"]) == {"namespace legacy": REVIEW_BY}


def test_a_wide_exclusion_gives_way_to_narrow_ones(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "shop", "user": "alice", "name": f"a{number}", "replicas": 9 if number < 2 else 1} for number in range(20)
    ]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT)]))
    assert chosen(proposal) == ["deployments.apps named a0 in namespace shop", "deployments.apps named a1 in namespace shop"]
    assert proposal.choices[0].width.passing_units == 0


def test_a_policy_that_is_not_bound_gets_a_binding_that_only_audits(tmp_path: Path) -> None:
    traffic = [{"namespace": "legacy", "user": "alice", "name": f"a{number}", "replicas": 9} for number in range(5)]
    traffic += [{"namespace": "shop", "user": "alice", "name": f"b{number}", "replicas": 1} for number in range(5)]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT)]))
    assert chosen(proposal) == ["namespace legacy"]
    assert proposal.after.objects[BINDING, "limit"]["spec"]["validationActions"] == ["Audit"]


def test_a_label_that_separates_exactly_is_preferred_to_many_names(tmp_path: Path) -> None:
    old, new = {"generation": "old"}, {"generation": "new"}
    traffic = [
        {"namespace": ("shop", "pay")[number % 2], "user": "alice", "name": f"a{number}", "replicas": 9 if number % 3 else 1}
        for number in range(30)
    ]
    for request in traffic:
        request["labels"] = old if request["replicas"] == 9 else new
    # Who may write an object may put a label on it, so a label is exempt within a namespace only.
    assert chosen(check(lake_of(tmp_path / "a", traffic), parse_policy_set([("limit", LIMIT + BOUND)]))) == [
        "objects with label generation=old in namespace pay",
        "objects with label generation=old in namespace shop",
    ]
    # One object with that label that passes: the label does not separate any more.
    traffic.insert(0, {"namespace": "pay", "user": "alice", "name": "a99", "replicas": 1, "labels": old})
    proposal = check(lake_of(tmp_path / "b", traffic), parse_policy_set([("limit", LIMIT + BOUND)]))
    assert "objects with label generation=old in namespace pay" not in chosen(proposal)


def test_what_cannot_be_judged_is_never_clean(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "legacy", "user": "alice", "name": "a", "replicas": 9},
        {"namespace": "shop", "user": "alice", "name": "b", "replicas": 9, "level": "Metadata"},
    ]
    proposal = check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT)]))
    assert proposal.left["limit"].unknown == 1
    assert not proposal.is_clean


def test_widths_are_counted_on_root_owners_as_verdicts_are(tmp_path: Path) -> None:
    """Pods of two ReplicaSets of one Deployment, which only the ReplicaSets' own record tells, are one workload."""
    log = Log()
    for number in range(2):
        replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned_by("Deployment", "web", f"web-{number}")}
        log.write("create", replicas)
        for tail in "abc":
            metadata = owned_by("ReplicaSet", f"web-{number}", f"web-{number}-{tail}")
            log.write("create", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"hostNetwork": True}})
    log.write("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fine", "namespace": "shop"}, "spec": {}})
    pods = (
        LIMIT.replace("[apps]", '[""]')
        .replace("deployments", "pods")
        .replace("object.spec.replicas <= 5", "!has(object.spec.hostNetwork)")
    )
    proposal = check(take_in(tmp_path / "lake", log.lines), parse_policy_set([("limit", pods)]))
    (choice,) = proposal.choices
    assert (choice.exposed.denied_requests, choice.exposed.denied_units, choice.exposed.passing_units) == (6, 1, 1)
    assert chosen(proposal) == ["workload web in namespace shop"]


def owned_by(kind: str, owner: str, name: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    return {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "ownerReferences": [reference]}


def test_manifests_keep_what_a_person_wrote_and_patches_say_the_same(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "legacy", "user": "bot", "name": "a", "replicas": 9},
        {"namespace": "legacy", "user": "bot", "name": "b", "replicas": 1},
        {"namespace": "shop", "user": "bot", "name": "c", "replicas": 9, "verb": "update"},
    ]
    policies = parse_policy_set([("limit", LIMIT + BOUND)])
    lake = lake_of(tmp_path, traffic)
    with reading(lake) as reader:
        proposal = proposed(reader, lake, policies)
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
    manifests = manifests_of(parse_policy_set([("limit", LIMIT + text)]))
    with reading(lake) as reader:
        found = {item.words: item for item in review(reader, lake, VALIDATING, manifests)}
    name = "namespaceSelector: kubernetes.io/metadata.name NotIn"
    assert found[f"{name} [legacy]"].need is Need.NEEDED
    assert found[f"{name} [gone]"].need is Need.NOT_NEEDED
    wide = found[f"{name} [pay]"]
    assert wide.need is Need.TOO_WIDE
    assert wide.passing_share == pytest.approx(8 / 9)
    assert wide.narrower == ("deployments.apps named b0 in namespace pay",)


BINDING_WITH_THREE = """spec:
  policyName: limit
  validationActions: [Audit]
  matchResources:
    namespaceSelector:
      matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [gone, legacy, pay]}]"""


def test_exemptions_are_to_be_reviewed_by_their_day() -> None:
    before = manifests_of(parse_policy_set([("limit", LIMIT + BOUND)]))
    wanted = Exclusion("limit", "limit-all", Kind.NAMESPACE, "legacy")
    after = excluding(before, [(wanted, REVIEW_BY), (replace(wanted, subject="pay"), None)])
    assert [(item.target, item.words) for item in overdue(after, REVIEW_BY)] == [(f"{BINDING}/limit-all", "namespace legacy")]
    assert overdue(after, REVIEW_BY - timedelta(days=1)) == ()
    assert manifests_of(policies_of(after)) == after


WORDS = st.text("aBbxyYnNeEfo019:.-+_ ~#'\"\n\u00e9", max_size=6)


@given(st.dictionaries(WORDS, WORDS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.lists(WORDS), max_size=5))
@example({"a": "1e3", "b": "y", "c": "0x1f", "d": "12:30", "e": "1_000", "f": "2026-01-31", "g": ".5", "N": "off", "1e3": "~"})
@example({"a": 2**63 - 1, "b": -(2**63)})
def test_yaml_is_read_as_what_was_written(value: dict[str, Any]) -> None:
    """Integers beyond 64 bits are left out: an API server stores them as floating point numbers."""
    (document,) = read_documents(to_yaml([{"kind": "Other", **value}]), "here")
    assert document.value == {"kind": "Other", **value}


@pytest.mark.parametrize("name", ["1e3", "y", "12", "0x1"])
def test_names_that_look_like_numbers_can_be_exempted(tmp_path: Path, name: str) -> None:
    traffic = [{"namespace": name, "user": name, "name": f"a{number}", "replicas": 9} for number in range(3)]
    check(lake_of(tmp_path, traffic), parse_policy_set([("limit", LIMIT + BOUND)]))


def test_taking_out_the_last_value_takes_out_the_entry() -> None:
    manifests = manifests_of(
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


Row = dict[str, Any]
EXPOSED = pa.schema(
    [(name, pa.string()) for name in ("policy", "binding", "outcome", "cluster", "namespace", "user_name", "api_group", "resource")]
    + [(name, pa.string()) for name in ("subresource", "name", "labels", "generate_name")]
    + [(name, pa.list_(pa.string())) for name in ("user_groups", "chain")]
    + [(name, pa.bool_()) for name in ("is_configuration", "is_behind", "is_later")]
    + [("requests", pa.int64())]
)


def row(**given: Any) -> Row:
    """A row of sql/exposed.sql."""
    fields: Row = {
        "policy": "p",
        "binding": "b",
        "outcome": "deny",
        "cluster": "",
        "namespace": "shop",
        "user_name": "alice",
        "user_groups": [],
        "api_group": "apps",
        "resource": "deployments",
        "subresource": "",
        "name": "web",
        "chain": ["Deployment/web"],
        "labels": {},
        "generate_name": "",
        "requests": 1,
        "is_configuration": False,
        "is_behind": True,
        "is_later": False,
    }
    found = {**fields, **given}
    return {**found, "labels": json.dumps(found["labels"])}


@contextmanager
def searching(rows: Iterable[Row]) -> Iterator[Search]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", pa.Table.from_pylist(list(rows), EXPOSED))
        connection.execute("CREATE TEMP TABLE exposed AS FROM rows")
        yield Search(connection)


def choose_exclusions(rows: Iterable[Row]) -> Choice:
    with searching(rows) as search:
        return search.choose({"p": NOTHING})["p"]


def choose_validated(rows: Iterable[Row]) -> Choice:
    with searching(rows) as search:
        return search.choose_validated({"p": NOTHING})["p"]


def hides(exclusion: Exclusion, each: Row) -> bool:
    """Whether an exclusion takes a request out, by the words of its kind."""
    if each["is_configuration"]:
        return False
    match exclusion.kind:
        case Kind.NAMESPACE:
            return bool(each["namespace"]) and (each["namespace"], each["binding"]) == (exclusion.subject, exclusion.binding)
        case Kind.USER:
            return bool(each["user_name"] == exclusion.subject)
        case Kind.GROUP:
            return exclusion.subject in each["user_groups"]
    if each["namespace"] != exclusion.namespace:
        return False
    match exclusion.kind:
        case Kind.USER_IN_NAMESPACE:
            return bool(each["user_name"] == exclusion.subject)
        case Kind.LABEL:
            key, _, value = exclusion.subject.partition("=")
            return bool(json.loads(each["labels"]).get(key) == value)
        case Kind.OBJECT:
            return (each["api_group"], each["resource"], each["name"]) == (*exclusion.resource, exclusion.subject)
    return bool(each["name"] == exclusion.subject or each["name"].startswith(f"{exclusion.subject}-"))


MADE = ["Pod/web-5d-x", "ReplicaSet/web-5d", "Deployment/web"]


def test_what_a_controller_makes_is_exempted_by_its_workload() -> None:
    pods = [row(resource="pods", api_group="", name=f"web-5d-{tail}", chain=MADE) for tail in "abc"]
    passing = [row(name=f"n{number}", chain=[f"Deployment/n{number}"], outcome="admit") for number in range(9)]
    choice = choose_exclusions([row(), *pods, *passing])
    assert [item.exclusion.words for item in choice.chosen] == ["workload web in namespace shop"]


def test_what_the_server_names_is_exempted_by_what_it_names_it_after() -> None:
    made = {"resource": "pods", "api_group": "", "generate_name": "runner-"}
    pods = [row(**made, name=f"runner-{tail}", chain=[f"Pod/runner-{tail}"]) for tail in "abc"]
    passing = [row(resource="pods", api_group="", name=f"n{n}", chain=[f"Pod/n{n}"], outcome="admit") for n in range(9)]
    choice = choose_exclusions([*pods, *passing])
    assert [item.exclusion.words for item in choice.chosen] == ["workload runner in namespace shop"]


def test_an_error_of_the_configuration_of_a_whole_policy_is_left() -> None:
    broken = row(binding=None, is_configuration=True)
    passing = [row(name=f"n{number}", chain=[f"Deployment/n{number}"], outcome="admit") for number in range(9)]
    choice = choose_exclusions([broken, row(), *passing])
    assert choice.left == 1
    assert len(choice.chosen) == 1


SIX = [row(name=name, chain=[f"Deployment/{name}"], namespace=space) for name in "abc" for space in ("x", "y")]


@given(st.permutations(SIX))
@settings(max_examples=10)
def test_the_order_of_rows_does_not_matter(rows: list[Row]) -> None:
    assert choose_exclusions(rows) == choose_exclusions(SIX)


DRAWN = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(["deny", "deny", "admit", "unknown"]),
        "binding": st.sampled_from(["b", "c"]),
        "namespace": st.sampled_from(["shop", "pay", ""]),
        "user_name": st.sampled_from(["alice", "bob", "system:node:n1", ""]),
        "user_groups": st.sampled_from([[], ["dev"], ["dev", "ops", "dev"]]),
        "name": st.sampled_from(["web", "web-5d", "web-5d-a", "-x", "a-\u00e9-b"]),
        "chain": st.sampled_from([["Pod/web"], MADE, ["Pod/x", "Job/web"]]),
        "labels": st.sampled_from([{}, {"app": "web"}, {"app": "web", "tier": "1"}, {"pod-template-hash": "5d"}]),
        "generate_name": st.sampled_from(["", "web-"]),
        "requests": st.integers(1, 3),
        "is_configuration": st.sampled_from([False, False, False, True]),
        "is_later": st.booleans(),
    }
)


@given(st.lists(DRAWN, min_size=1, max_size=20))
@settings(max_examples=12)
def test_what_exclusions_take_out_is_counted_from_the_rows(drawn: list[Row]) -> None:
    """Every figure of a choice follows from the rows and the words of its exclusions."""
    rows = [row(**each) for each in drawn]

    def workloads(chosen: Iterable[Row]) -> set[tuple[str, str]]:
        return {(each["namespace"], each["chain"][-1]) for each in chosen}

    def figures(taken: list[Row]) -> list[int]:
        of = {outcome: [each for each in taken if each["outcome"] == outcome] for outcome in ("deny", "admit", "unknown")}
        requests = [sum(each["requests"] for each in of[outcome]) for outcome in of]
        passing = workloads(of["admit"]) - workloads(of["deny"])
        return [*requests, len(workloads(of["deny"])), len(passing), len(workloads(taken))]

    for choice in (choose_exclusions(rows), choose_validated(rows)) if any(each["outcome"] == "deny" for each in rows) else ():
        for item in [*choice.chosen, None]:
            exclusions = [item.exclusion] if item else [each.exclusion for each in choice.chosen]
            taken = [each for each in rows if any(hides(exclusion, each) for exclusion in exclusions)]
            width = item.width if item else choice.width
            assert figures(taken) == [
                *(width.denied_requests, width.passing_requests, width.unknown_requests),
                *(width.denied_units, width.passing_units, width.units),
            ]
        assert choice.left == sum(each["requests"] for each in rows if each["outcome"] == "deny" and each not in taken)


def test_no_proposal_is_wide_or_given_to_oneself() -> None:
    """Whole resources, controllers, broad groups, and labels or names without a namespace are never proposed."""
    by_controller = {
        "user_name": "system:serviceaccount:kube-system:replicaset-controller",
        "user_groups": ["system:serviceaccounts:kube-system"],
    }
    made = [row(**by_controller, resource="pods", api_group="", name=f"web-5d-{tail}", chain=MADE) for tail in "abc"]
    labelled = [
        row(name=f"x{n}", chain=[f"Deployment/x{n}"], labels={"app": "x"}, user_groups=["system:authenticated"]) for n in range(5)
    ]
    nodes = [
        row(
            name=None,
            namespace="",
            chain=["Node/*"],
            user_name="system:node:n1",
            user_groups=["system:nodes"],
            resource="nodes",
            labels={"a": "b"},
        )
    ]
    for item in choose_exclusions([*made, *labelled, *nodes]).chosen:
        exclusion = item.exclusion
        assert not (exclusion.kind in (Kind.USER, Kind.USER_IN_NAMESPACE, Kind.GROUP) and exclusion.subject.startswith("system:"))
        assert exclusion.kind not in (Kind.LABEL, Kind.WORKLOAD) or exclusion.namespace
    assert choose_exclusions(nodes).left == 1


def forbidding(expression: str, variables: str = "[]") -> str:
    return LIMIT.replace('"object == null || object.spec.replicas <= 5"', json.dumps(expression)).replace(
        "  validations:", f"  variables: {variables}\n  validations:"
    )


@pytest.mark.parametrize(
    ("expression", "variables", "kinds"),
    [
        ("object.metadata.?labels[?'cost'].orValue('') != '99'", "[]", {Kind.LABEL}),
        ("variables.cost != '99'", "[{name: cost, expression: \"object.metadata.?labels[?'cost'].orValue('')\"}]", {Kind.LABEL}),
        ("!object.metadata.name.startsWith('a')", "[]", {Kind.OBJECT, Kind.WORKLOAD}),
        ("!request.name.startsWith('a')", "[]", {Kind.OBJECT, Kind.WORKLOAD}),
        ("request.userInfo.username != 'mallory'", "[]", {Kind.USER, Kind.USER_IN_NAMESPACE, Kind.GROUP}),
        ("request.namespace != 'legacy'", "[]", {Kind.NAMESPACE}),
    ],
)
def test_the_value_that_a_policy_forbids_is_never_exempt(tmp_path: Path, expression: str, variables: str, kinds: set[Kind]) -> None:
    traffic = [
        {"namespace": "legacy", "user": "mallory", "name": f"a{number}", "replicas": 1, "labels": {"cost": "99"}}
        for number in range(4)
    ]
    traffic += [
        {"namespace": "shop", "user": "alice", "name": f"b{number}", "replicas": 1, "labels": {"cost": "1"}} for number in range(8)
    ]
    lake = lake_of(tmp_path, traffic)
    with reading(lake) as reader:
        proposal = proposed(reader, lake, parse_policy_set([("limit", forbidding(expression, variables))]))
    (choice,) = proposal.choices
    assert choice.exposed.denied_requests == 4
    assert choice.chosen
    assert not {item.exclusion.kind for item in choice.chosen} & kinds


def by(user: str, expression: str, tmp_path: Path) -> list[Exclusion]:
    """What is proposed where a user's writes of two objects are denied, and those of another one pass."""
    traffic = [
        {"namespace": "shop", "user": user, "name": f"job-{number}", "replicas": 1, "labels": {"by": "keeper"}}
        for number in range(2)
    ] + [{"namespace": "shop", "user": "bob", "name": f"job-{number}", "replicas": 1} for number in range(4)]
    lake = lake_of(tmp_path, traffic)
    with reading(lake) as reader:
        policies = parse_policy_set([("policy.yaml", forbidding(expression))])
        return [item.exclusion for choice in proposed(reader, lake, policies).choices for item in choice.chosen]


ABOUT_USERS = "request.userInfo.username == 'bob'"
GC = "system:serviceaccount:kube-system:generic-garbage-collector"


def test_a_controller_is_exempt_from_a_policy_that_asks_who_sends_a_request(tmp_path: Path) -> None:
    """The objects that it happened to write say nothing of the next ones."""
    assert [(each.kind, each.subject) for each in by(GC, ABOUT_USERS, tmp_path)] == [(Kind.CONTROLLER, GC)]


@pytest.mark.parametrize("user", ["mallory", "system:anonymous", "system:node:n1", "system:serviceaccount:shop:bot"])
def test_nobody_else_is_exempt_from_it(tmp_path: Path, user: str) -> None:
    assert Kind.CONTROLLER not in {each.kind for each in by(user, ABOUT_USERS, tmp_path)}


def test_a_controller_is_not_exempt_from_a_policy_about_objects(tmp_path: Path) -> None:
    found = by(GC, "object.metadata.?labels[?'by'].orValue('') != 'keeper'", tmp_path)
    assert Kind.CONTROLLER not in {each.kind for each in found}


def days(denied_names: Callable[[int], str]) -> list[Row]:
    """The rows of ten days: one denied Service and three that pass each day. The first five are the earlier half."""
    found = []
    for number in range(10):
        name = denied_names(number)
        found.append(row(name=name, chain=[f"Service/{name}"], is_later=number >= 5))
        for each in range(3):
            found.append(
                row(name=f"ok-{number}-{each}", chain=[f"Service/ok-{number}-{each}"], outcome="admit", is_later=number >= 5)
            )
    return found


def test_exemptions_of_the_earlier_half_are_tried_on_the_later() -> None:
    steady = choose_validated(days(lambda number: f"old-{number % 3}"))
    assert [item.exclusion.subject for item in steady.chosen] == ["old-0", "old-1", "old-2"]
    assert steady.later is not None
    assert (steady.later.workloads, steady.later.workloads_denied) == (18, 0)
    # The three old ones are not new: fifteen are, and none of them is denied.
    assert (steady.later.new_workloads, steady.later.new_workloads_denied) == (15, 0)
    assert steady.later.new_rate_upper == pytest.approx(1 - 0.05 ** (1 / 15))


def test_a_new_name_every_day_is_not_exempted_away() -> None:
    found = choose_validated(days(lambda number: f"new-{number}"))
    assert found.later is not None
    assert (found.later.workloads_denied, found.later.new_workloads_denied, found.later.new_workloads) == (5, 5, 20)
    assert any(
        "fail in the second: 5 of 20 workloads there would still be denied" in words for words in limits_broken(found, RULES)
    )


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=12)
def test_no_later_denial_means_that_the_earlier_exemptions_hide_them_all(drawn: list[tuple[str, bool, bool]]) -> None:
    """Whatever the traffic: exemptions from the earlier half either hide every later denial, or the trial counts what they miss."""
    rows = [
        row(name=name, chain=[f"Deployment/{name}"], outcome="deny" if denied else "admit", is_later=later)
        for name, denied, later in drawn
    ]
    found = choose_validated(rows)
    assert found.later is not None
    chosen = {item.exclusion for item in found.chosen}
    missed = [each for each in rows if each["outcome"] == "deny" and not any(hides(exclusion, each) for exclusion in chosen)]
    if not found.later.workloads_denied:
        assert not missed
        assert found.later.exemptions == len(chosen)
    new = {each["name"] for each in rows if each["is_later"]} - {each["name"] for each in rows if not each["is_later"]}
    assert found.later.new_workloads == len(new)
    assert found.later.new_workloads_denied <= found.later.workloads_denied <= found.later.workloads


ROLES = """
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: dev, namespace: shop},
   rules: [{apiGroups: [apps], resources: [deployments], verbs: [create, get]}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: dev, namespace: shop},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: dev},
   subjects: [{kind: Group, name: team-shop}, {kind: User, name: dana}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: look, namespace: shop},
   rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: look, namespace: shop},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: look}, subjects: [{kind: User, name: eve}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ci},
   rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ci},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ci},
   subjects: [{kind: ServiceAccount, name: deployer, namespace: ci}, {kind: Group, name: "system:masters"}]}
"""


def test_each_proposal_says_who_can_use_it(tmp_path: Path) -> None:
    traffic = [
        {"namespace": "shop", "user": "alice", "name": f"a{number}", "replicas": 9 if number < 2 else 1} for number in range(20)
    ]
    lake = lake_of(tmp_path, traffic)
    policies = parse_policy_set([("limit", LIMIT)])
    with reading(lake) as reader:
        assert {*proposed(reader, lake, policies).who.values()} == {"anyone who may write deployments in namespace shop"}
    listed = load_yaml(ROLES)
    for obj in listed:
        obj["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z"
    (tmp_path / "roles.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": listed}))
    opened = Lake.open(lake)
    ingest_snapshot(opened, [tmp_path / "roles.yaml"], "lab", START)
    opened.close()
    with reading(lake) as reader:
        (words,) = set(proposed(reader, lake, policies).who.values())
    assert words == "anyone who may write deployments in namespace shop: group team-shop, user dana, service account ci/deployer"


def test_a_label_that_its_writers_set_themselves_is_never_exempt_everywhere(tmp_path: Path) -> None:
    """Whoever may write a Deployment may label it. So an exemption for a label holds in one namespace, and names its writers."""
    traffic = [
        {"namespace": ("shop", "pay")[number % 2], "user": "alice", "name": f"a{number}", "replicas": 9 if number % 3 else 1}
        for number in range(30)
    ]
    for request in traffic:
        request["labels"] = {"tier": "special" if request["replicas"] == 9 else "plain"}
    lake = lake_of(tmp_path, traffic)
    listed = load_yaml(ROLES)
    for obj in listed:
        obj["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z"
    (tmp_path / "roles.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": listed}))
    opened = Lake.open(lake)
    ingest_snapshot(opened, [tmp_path / "roles.yaml"], "lab", START)
    opened.close()
    with reading(lake) as reader:
        proposal = proposed(reader, lake, parse_policy_set([("limit", LIMIT + BOUND)]))
    writers = "anyone who may write deployments in namespace"
    assert {item.words: who for item, who in proposal.who.items()} == {
        "objects with label tier=special in namespace pay": f"{writers} pay: service account ci/deployer",
        "objects with label tier=special in namespace shop": (
            f"{writers} shop: group team-shop, user dana, service account ci/deployer"
        ),
    }
    assert proposal.denies_nothing


def test_more_match_conditions_than_a_policy_may_have_share_one() -> None:
    spaces = [f"n{number}" for number in range(90)]
    rows = [row(namespace=space, name=None, chain=["?"], binding=None) for space in spaces]
    rows += [row(namespace="other", name=f"o{n}", chain=[f"x/{n}"], binding=None, outcome="admit") for n in range(200)]
    choice = choose_exclusions(rows)
    assert {item.exclusion.kind for item in choice.chosen} == {Kind.USER_IN_NAMESPACE}
    policies = parse_policy_set([("limit", LIMIT.replace("name: limit", "name: p"))])
    after = excluding(manifests_of(policies), [(item.exclusion, None) for item in choice.chosen])
    assert len(policies_of(after).policies[0].match_conditions) == 64
    assert len(exemption_dates(after.objects[POLICY, "p"])) == 90
