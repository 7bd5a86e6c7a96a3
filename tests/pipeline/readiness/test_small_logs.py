"""Readiness of small logs: units and their owners, critical subjects, releases, and what exists without having been tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.snapshot import ingest_snapshot
from pipeline.readiness.build import build_report
from pipeline.readiness.counting.bounds import upper_bound
from pipeline.readiness.model import PolicyReadiness, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.runs.window import Window
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.recording import START, Log, deployment, take_in
from tests.reporting import about_of

RULES = ReadinessRules()
OWNED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}


def policy(resource: str, group: str, expression: str, operations: str = "[CREATE, UPDATE]") -> str:
    return f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: ["{group}"], apiVersions: ["*"], operations: {operations}, resources: [{resource}]}}
  validations:
  - expression: {json.dumps(expression)}
"""


def workload(kind: str, name: str, image: str, **spec: Any) -> dict[str, Any]:
    api, plural = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1"), f"{kind.lower()}s"
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    body: dict[str, Any] = {"template": template, **spec}
    if kind == "CronJob":
        body = {"jobTemplate": {"spec": body}}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"app": name}, "resourceVersion": "1"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": body, "plural": plural}


Assess = Callable[..., PolicyReadiness]


@pytest.fixture
def assess(tmp_path: Path) -> Assess:
    """The readiness of one policy over a log and a snapshot that was taken before it; `since` is in hours from the log's start."""

    def assess(
        log: Log,
        text: str,
        snapshot: list[dict[str, Any]] | None = None,
        since: int | None = None,
        rules: ReadinessRules = RULES,
    ) -> PolicyReadiness:
        lake = Lake.open(take_in(tmp_path / "lake", log.lines))
        listed = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "ns", "resourceVersion": "1"}}]
        listed += [{key: value for key, value in obj.items() if key != "plural"} for obj in snapshot or []]
        for obj in listed:
            obj["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z"
        (tmp_path / "snapshot.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
        ingest_snapshot(lake, [tmp_path / "snapshot.json"], "lab", START - timedelta(hours=1))
        lake.close()
        reader = open_lake(lake.path)
        window = Window(START + timedelta(hours=since)) if since is not None else Window()
        plan = plan_replay(reader, parse_policy_set([("policy.yaml", text)]), window)
        report = build_report(reader, lake.path, about_of(plan, run_replay(plan, lake.path)), {}, rules)
        reader.close()
        (entry,) = report.policies
        return entry

    return assess


def test_an_object_that_was_only_listed_is_judged_as_if_it_were_written_again(assess: Assess) -> None:
    log = Log()
    log.write("create", workload("Deployment", "new", "good/x"))
    old = [workload("Deployment", "old", "bad/x"), workload("Deployment", "fine", "good/x")]
    entry = assess(
        log, policy("deployments", "apps", "object.spec.template.spec.containers.all(c, c.image.startsWith('good/'))"), old
    )
    assert (entry.latent.objects, entry.latent.objects_denied) == (2, 1)
    (found,) = entry.latent.violations
    assert (found.unit, found.outcome, found.assumed) == ("Deployment/old", "deny", "UPDATE by somebody")
    assert found.evidence == "inferred"
    assert found.source.startswith("snapshot of 2025-12-31")
    assert entry.status is Status.NOT_READY
    assert entry.reasons[0].startswith("1 of 2 objects that exist and were not written in the window would be denied")


def test_who_wrote_an_object_last_is_known_or_unknown_and_never_made_up(assess: Assess) -> None:
    log = Log()
    log.write("create", workload("Deployment", "early", "x"), user="mallory")
    log.write("create", workload("Deployment", "late", "x"), user="alice")
    text = policy("deployments", "apps", "request.userInfo.username != 'mallory'")
    entry = assess(log, text, [workload("Deployment", "listed", "x")], since=1)
    by_name = {found.name: found for found in entry.latent.violations}
    assert by_name["early"].outcome == "deny"
    assert by_name["early"].assumed == "UPDATE by mallory"
    assert by_name["listed"].outcome == "unknown"
    assert "no writer of it is recorded" in by_name["listed"].message
    assert entry.latent.objects == 2


def test_what_was_deleted_or_changed_out_of_sight_is_not_taken_for_what_is_there(assess: Assess) -> None:
    log = Log()
    for name in ("deleted", "changed", "kept"):
        log.write("create", workload("Deployment", name, "bad"))
    log.write("delete", workload("Deployment", "deleted", "bad"), answer={"kind": "Status", "apiVersion": "v1", "metadata": {}})
    log.write("update", workload("Deployment", "changed", "bad"), level="Metadata")
    log.write("create", workload("Deployment", "unseen", "bad"), level="Metadata")
    log.write("update", workload("Deployment", "kept", "bad"), subresource="status", level="Metadata")
    log.write("create", workload("Deployment", "new", "good"))
    text = policy("deployments", "apps", "object.spec.template.spec.containers[0].image != 'bad'")
    entry = assess(log, text, since=7)
    found = {found.name: found.outcome for found in entry.latent.violations}
    assert found == {"kept": "deny", "changed": "unknown", "unseen": "unknown"}
    assert "was not recorded whole" in next(each.message for each in entry.latent.violations if each.name == "changed")


def test_a_deployment_that_passes_today_fails_at_its_next_rollout(assess: Assess) -> None:
    log = Log()
    log.write("update", workload("Deployment", "web", "bad/x"))
    entry = assess(log, policy("pods", "", "object.spec.containers.all(c, c.image.startsWith('good/'))"))
    (found,) = entry.latent.projections
    assert (found.owner, found.outcome, found.evidence) == ("Deployment/web", "deny", "inferred")
    assert found.user == "system:serviceaccount:kube-system:replicaset-controller"
    assert found.owner_passes is None  # the policy is not about Deployments
    assert any("ReplicaSet" in note for note in found.notes)
    assert entry.status is Status.NOT_READY
    assert entry.reasons[0] == "1 of 1 pod template that exist would have their next Pod denied"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_every_kind_of_template_is_projected_with_what_its_controller_sets(assess: Assess, kind: str) -> None:
    log = Log()
    log.write("update", workload(kind, "web", "x"))
    owner = {"Deployment": "ReplicaSet", "CronJob": "Job"}.get(kind, kind)
    facts = [
        f"object.metadata.ownerReferences.exists(o, o.controller && o.kind == '{owner}')",
        "object.metadata.namespace == 'shop' && object.metadata.labels.app == 'web'",
        "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')",
        "request.operation == 'CREATE' && oldObject == null && object.spec.serviceAccountName == 'default'",
        "'system:serviceaccounts:kube-system' in request.userInfo.groups",
    ]
    entry = assess(log, policy("pods", "", " && ".join(facts)))
    assert (entry.latent.templates, entry.latent.templates_denied, entry.latent.templates_unknown) == (1, 0, 0)


@pytest.mark.parametrize(
    ("kind", "expression", "outcome"),
    [
        ("Deployment", "object.metadata.labels['pod-template-hash'] != ''", "unknown"),
        ("Deployment", "object.metadata.ownerReferences[0].name.startsWith('web-')", "unknown"),
        ("StatefulSet", "object.metadata.name != 'web-0'", "deny"),
        ("DaemonSet", "!object.spec.tolerations.exists(t, t.key == 'node.kubernetes.io/disk-pressure')", "deny"),
        ("DaemonSet", "object.metadata.name != ''", "unknown"),
        ("Job", "!object.metadata.finalizers.exists(f, f == 'batch.kubernetes.io/job-tracking')", "deny"),
        ("CronJob", "object.metadata.labels['batch.kubernetes.io/job-name'] != ''", "unknown"),
    ],
)
def test_what_the_controller_computes_stays_unknown(assess: Assess, kind: str, expression: str, outcome: str) -> None:
    log = Log()
    log.write("update", workload(kind, "web", "x"))
    (found,) = assess(log, policy("pods", "", expression)).latent.projections
    assert found.outcome == outcome, found.message


def test_a_template_whose_pods_were_judged_since_it_was_written_is_not_projected(assess: Assess) -> None:
    log = Log()
    log.write("update", workload("Deployment", "web", "bad"))
    replicas = workload("ReplicaSet", "web-5d", "bad")
    replicas["metadata"]["ownerReferences"] = [OWNED]
    log.write("create", replicas, user="system:serviceaccount:kube-system:deployment-controller")
    pod = {"apiVersion": "v1", "kind": "Pod", "plural": "pods", "spec": {"containers": [{"name": "c", "image": "bad"}]}}
    owner = {**OWNED, "kind": "ReplicaSet", "name": "web-5d", "uid": "uid-web-5d"}
    pod["metadata"] = {"name": "web-5d-x", "namespace": "shop", "uid": "u", "ownerReferences": [owner]}
    log.write("create", pod, user="system:serviceaccount:kube-system:replicaset-controller")
    entry = assess(log, policy("pods", "", "object.spec.containers[0].image != 'bad'"))
    assert entry.latent.templates == 0
    assert [(owner.unit, owner.requests) for owner in entry.owners] == [("Deployment/web", 1)]


def pod(name: str, owner: dict[str, Any] | None, image: str = "bad", namespace: str = "shop") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "plural": "pods",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def owned(kind: str, name: str, api_version: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


NOT_BAD = "object.spec.containers.all(c, c.image != 'bad')"


def test_retries_and_replicas_of_one_owner_are_one_unit_whatever_made_them(assess: Assess) -> None:
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "plural": "rollouts",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "uid-web",
            "labels": {"argocd.argoproj.io/instance": "shop", "team": "t"},
        },
    }
    replicas = workload("ReplicaSet", "web-5d", "bad")
    replicas["metadata"]["ownerReferences"] = [owned("Rollout", "web", "argoproj.io/v1alpha1")]
    log = Log()
    log.write("create", rollout)
    log.write("create", replicas, user="system:serviceaccount:argo-rollouts:argo-rollouts")
    for number in range(30):
        log.write(
            "create",
            pod(f"web-5d-{number}", owned("ReplicaSet", "web-5d")),
            user="system:serviceaccount:kube-system:replicaset-controller",
        )
    log.write("create", pod("alone", None, "good"))
    entry = assess(log, policy("pods", "", NOT_BAD, "[CREATE]"))
    assert (entry.denials.requests, entry.denials.units, entry.exposure.units_judged) == (30, 1, 2)
    assert entry.denials.unit_rate_upper == upper_bound(1, 2)
    (owner,) = entry.owners
    assert owner.chain == ("Pod/web-5d-29", "ReplicaSet/web-5d", "Rollout/web", "Application/shop")
    assert (owner.unit, owner.requests, owner.team, owner.team_source) == ("Rollout/web", 30, "t", "Rollout/web: team")
    assert owner.tool == "Argo CD"


def test_a_chain_ends_where_the_log_does(assess: Assess) -> None:
    log = Log()
    log.write("create", pod("a-1", owned("ReplicaSet", "a-77")))
    labelled = pod("b-1", owned("ReplicaSet", "b-77"))
    labelled["metadata"]["labels"] = {"pod-template-hash": "77"}
    log.write("create", labelled)
    entry = assess(log, policy("pods", "", NOT_BAD, "[CREATE]"))
    # Without the ReplicaSet only the hash in its name tells the Deployment.
    assert sorted(owner.unit for owner in entry.owners) == ["Deployment/b", "ReplicaSet/a-77"]


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_an_orphan_belongs_to_its_last_controller_whenever_the_replay_begins(assess: Assess, verb: str, is_listed: bool) -> None:
    """A Pod has no controller any more after its Job was deleted; the bodies before that, or a snapshot, still name the Job."""
    job = owned("Job", "report", "batch/v1")
    log = Log()
    log.write("create", workload("Job", "report", "bad"))
    if not is_listed:
        for number in range(3):
            log.write("create", pod(f"report-{number}", job))
    log.write("delete", workload("Job", "report", "bad"))
    orphans = [pod(f"report-{number}", None) for number in range(3)]
    for orphan in orphans:
        log.write("patch", orphan, user="system:serviceaccount:kube-system:generic-garbage-collector")
    begins = len(log.lines)
    for orphan in orphans:
        log.write(verb, orphan, **({"answer": {"kind": "Status", "apiVersion": "v1", "metadata": {}}} if verb == "delete" else {}))
    listed = [pod(f"report-{number}", job) for number in range(3)] if is_listed else None
    text = policy("pods", "", "object != null && object.spec.containers[0].image != 'bad'", "[UPDATE, DELETE]")
    for since in (None, begins):
        entry = assess(log, text, listed, since=since)
        assert entry.exposure.units_judged == 1
        assert {owner.unit for owner in entry.owners} == {"Job/report"}


def test_critical_subjects_come_first_and_by_the_rules(assess: Assess) -> None:
    log = Log()
    for user, namespace in (
        ("system:node:n1", "shop"),
        ("system:kube-scheduler", "shop"),
        ("root", "shop"),
        ("alice", "kube-system"),
        ("system:serviceaccount:hindcast:sink", "shop"),
        ("alice", "shop"),
    ):
        log.write("create", pod(f"p{len(log.lines)}", None, namespace=namespace), user=user)
    dying = pod("p0", None)
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    log.write("update", dying, user="alice")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "plural": "pods", "metadata": {"name": "kube-system", "uid": "k"}}
    listed = [{key: value for key, value in namespace.items() if key != "plural"}]
    rules = replace(RULES, break_glass_users=("root",))
    entry = assess(log, policy("pods", "", NOT_BAD), listed, rules=rules)
    found = {(str(each.kind), each.subject): each.denied for each in entry.critical}
    assert found == {
        ("node", "system:node:n1"): 1,
        ("system controller", "system:kube-scheduler"): 1,
        ("break-glass user", "root"): 1,
        ("system namespace", "kube-system"): 1,
        ("our own sink", "system:serviceaccount:hindcast:sink"): 1,
        ("finalizer traffic", "alice"): 1,
    }
    assert entry.reasons[0].startswith("critical subjects would have been denied: ")


def test_release_cycles_are_changes_of_images_and_not_of_replicas(assess: Assess) -> None:
    log = Log()
    for name, images in (("web", ["a:1", "a:1", "a:2", "a:3"]), ("api", ["b:1"])):
        for number, image in enumerate(images):
            log.write("update" if number else "create", workload("Deployment", name, image, replicas=number + 1))
    entry = assess(log, policy("deployments", "apps", "true"))
    assert (entry.exposure.releases, entry.exposure.release_cycles) == (4, 2)
    assert entry.exposure.weekdays == 1


def test_a_namespace_is_one_unit_and_was_tried_whatever_its_requests_name(assess: Assess) -> None:
    """A create names no namespace, an update names the Namespace itself as its namespace."""
    log = Log()
    for verb in ("create", "update"):
        named = {"name": "pay", "uid": "n", "resourceVersion": "1"}
        log.write(verb, {"apiVersion": "v1", "kind": "Namespace", "metadata": named})
        log.lines[-1]["objectRef"]["namespace"] = "" if verb == "create" else "pay"
    entry = assess(log, policy("namespaces", "", "has(object.metadata.labels)"))
    assert (entry.exposure.requests_judged, entry.exposure.units_judged, entry.exposure.namespaces) == (2, 1, 1)
    assert [(owner.unit, owner.requests) for owner in entry.owners] == [("Namespace/pay", 2)]
    # Only the Namespace without a recorded write was not tried.
    assert [each.name for each in entry.latent.violations] == ["shop"]


TWO_CHECKS = """
  - expression: "object.spec.replicas < 3"
    message: beyond two
  - expression: "object.spec.replicas < 9"
    message: beyond eight
"""


def test_of_several_denials_of_one_request_the_first_expression_speaks(assess: Assess) -> None:
    log = Log()
    log.write("create", deployment("web", 9))
    text = policy("deployments", "apps", "true").rsplit("  - expression", 1)[0] + TWO_CHECKS
    (owner,) = assess(log, text).owners
    assert (owner.expression_index, owner.message) == (0, "beyond two")


def test_a_policy_whose_errors_are_ignored_says_that_it_does_nothing(assess: Assess) -> None:
    log = Log()
    for number in range(3):
        log.write("create", deployment(f"web-{number}", 1))
    text = policy("deployments", "apps", "object.spec.absent > 1").replace("spec:\n", "spec:\n  failurePolicy: Ignore\n", 1)
    entry = assess(log, text)
    assert (entry.exposure.requests_judged, entry.exposure.requests_excused, entry.denials.requests) == (3, 3, 0)
    assert any(reason.startswith("of 3 of 3 judged requests the evaluation failed") for reason in entry.reasons)
