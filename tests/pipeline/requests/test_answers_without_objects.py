"""A write whose answer does not show the object is judged with its history, whatever other requests and policies ask for."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline import plan_replay, run_replay
from pipeline.policies.model import PolicySet
from pipeline.runs import RunStore
from pipeline.stages.validating.load import parse_policy_set
from queries import open_lake

from .conftest import Cluster

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE, DELETE], resources: [deployments]}
  validations:
    - expression: EXPRESSION
"""
METADATA = {"name": "web", "namespace": "shop", "uid": "uid-web", "resourceVersion": "3"}
TABLE = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [{"cells": [], "object": {"metadata": METADATA}}]}


def policy(expression: str) -> PolicySet:
    return parse_policy_set([("policy.yaml", POLICY.replace("EXPRESSION", expression))])


def verdicts(lake: Path, policies: PolicySet) -> list[dict[str, Any]]:
    with closing(open_lake(lake, threads=1)) as reader:
        plan = plan_replay(reader, policies)
    run_replay(plan, lake)
    rows: list[dict[str, Any]] = pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()
    return [{name: row[name] for name in ("decision", "why", "evidence")} for row in rows if row["expression_index"] == 0]


@pytest.mark.parametrize("answer", [TABLE, dict(reversed(TABLE.items()))], ids=["as written", "in another order"])
def test_a_patch_that_is_answered_with_a_table(answer: dict[str, Any], cluster: Cluster, ingest: Callable[[Cluster], Path]) -> None:
    cluster.events.clear()
    cluster.namespace({})
    cluster.deployment("create", "web", 7)
    cluster.event("patch", "apps/deployments", "web", 200, {"metadata": {"labels": {"a": "b"}}}, answer)
    (row,) = verdicts(ingest(cluster), policy("object.spec.replicas <= 5"))
    assert (row["decision"], row["why"]) == ("deny", None), json.dumps(row)


def test_the_resource_version_of_an_update_is_that_of_the_stored_object(
    cluster: Cluster, ingest: Callable[[Cluster], Path]
) -> None:
    cluster.events.clear()
    cluster.namespace({})
    cluster.deployment("create", "web", 7)
    cluster.deployment("update", "web", 8)
    (row,) = verdicts(ingest(cluster), policy("object.metadata.resourceVersion == '2'"))
    assert (row["decision"], row["why"]) == ("admit", None), json.dumps(row)


def test_a_collection_whose_objects_change_until_their_turn(cluster: Cluster, ingest: Callable[[Cluster], Path]) -> None:
    cluster.events.clear()
    cluster.namespace({})
    cluster.deployment("create", "web", 7)
    cluster.deployment("create", "calm", 7)
    items = [cluster.events[number]["responseObject"] for number in (1, 2)]
    listed = {"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {}, "items": items}
    cluster.event("deletecollection", "apps/deployments", "", 200, None, listed, stageTimestamp="2026-01-01T00:00:09.000000Z")
    del cluster.events[-1]["objectRef"]["name"]
    cluster.deployment("update", "web", 8)
    rows = verdicts(ingest(cluster), policy("oldObject == null || oldObject.spec.replicas <= 9"))
    assert [row["evidence"] for row in rows if row["decision"] == "admit"][:2] == ["partial", "exact"], rows


def test_the_update_of_a_namespace_meets_what_its_create_wrote(cluster: Cluster, ingest: Callable[[Cluster], Path]) -> None:
    """The reference of an update of a Namespace names it as its own namespace; that of its create names none."""
    cluster.events.clear()
    cluster.namespace({"team": "blue"})
    cluster.namespace({"team": "red"})
    create, update = cluster.events
    create["requestURI"] = "/api/v1/namespaces"
    update["verb"], update["responseStatus"]["code"] = "update", 200
    update["objectRef"]["namespace"] = "shop"
    update["requestObject"] = {**update["requestObject"], "metadata": {"name": "shop", "labels": {"team": "red"}}}
    update["requestURI"] = "/api/v1/namespaces/shop"
    of_namespaces = POLICY.replace("apiGroups: [apps]", 'apiGroups: [""]').replace(
        "resources: [deployments]", "resources: [namespaces]"
    )
    rules = parse_policy_set([("policy.yaml", of_namespaces.replace("EXPRESSION", "oldObject.metadata.labels.team == 'blue'"))])
    lake = ingest(cluster)
    for _ in range(2):  # read, and kept
        (row,) = verdicts(lake, rules)
        assert (row["decision"], row["why"]) == ("admit", None), json.dumps(row)
