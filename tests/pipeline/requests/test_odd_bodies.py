"""A body that is not an object of Kubernetes costs its own request a verdict, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import plan_replay, run_replay
from pipeline.history.fit import is_fit
from pipeline.policies.model import PolicySet
from queries import open_lake
from tests.yaml_text import load_yaml

from .conftest import CASES

ODD = load_yaml((CASES / "odd_bodies.yaml").read_text())


def test_odd_bodies_cost_their_own_requests(cluster: Any, policies: PolicySet, ingest: Callable[[Any], Path]) -> None:
    denied = "deployments.apps \"odd\" is forbidden: ValidatingAdmissionPolicy 'other' denied request: no"
    for number, case in enumerate(ODD):
        cluster.event(
            case["verb"], "apps/deployments", f"odd-{number}", case.get("code", 201), case.get("request"), case.get("response")
        )
        if "code" in case:
            status = {"metadata": {}, "code": case["code"], "reason": "Invalid", "message": denied}
            cluster.events[-1]["responseStatus"] = status
    lake = ingest(cluster)
    reader = open_lake(lake, threads=1)
    try:
        plan = plan_replay(reader, policies)
    finally:
        reader.close()
    summary = run_replay(plan, lake)
    assert dict(summary.not_evaluated) == {case["reason"]: 1 for case in ODD}
    assert summary.evaluated == 24


def test_a_request_without_a_version_is_left_out_with_its_reason(
    cluster: Any, policies: PolicySet, ingest: Callable[[Any], Path]
) -> None:
    cluster.deployment("create", "odd", replicas=3)
    # Nor does a URI tell it.
    del cluster.events[-1]["objectRef"]["apiVersion"], cluster.events[-1]["requestURI"]
    reader = open_lake(ingest(cluster), threads=1)
    try:
        plan = plan_replay(reader, policies)
    finally:
        reader.close()
    assert plan.requests == 24
    assert ("whether policies ran is not recorded: objectRef does not say which version", 1) in plan.excluded


def test_nulls_that_clients_send_are_nothing_odd() -> None:
    nulls = {"creationTimestamp": None, "labels": None, "annotations": {"note": None}, "managedFields": None, "finalizers": None}
    assert is_fit({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", **nulls}, "spec": None, "status": {}})
    assert not is_fit({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"labels": [1]}})
