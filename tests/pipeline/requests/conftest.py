"""A small cluster's audit log: one namespace, a few Deployments over time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.policies.model import PolicySet
from pipeline.stages.validating.load import load_policy_set

START = datetime(2026, 1, 1, tzinfo=UTC)
CASES = Path(__file__).parents[2] / "cases" / "replay"


class Cluster:
    """Makes audit events as kube-apiserver would of a few requests, one second apart."""

    start = START

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, verb: str, resource: str, name: str, code: int, sent: Any, answer: Any, **other: Any) -> str:
        """Add one event and return its auditID."""
        number = len(self.events)
        group, _, plural = resource.rpartition("/")
        received = START + timedelta(seconds=number)
        namespace = {} if plural == "namespaces" else {"namespace": "shop"}
        self.events.append(
            {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": "RequestResponse",
                "auditID": f"id-{number:04}",
                "stage": "ResponseComplete",
                "requestURI": f"/apis/{group}/v1/namespaces/shop/{plural}/{name}",
                "verb": verb,
                "user": {"username": "alice", "groups": ["dev"]},
                "objectRef": {"resource": plural, "name": name, "apiGroup": group, "apiVersion": "v1", **namespace},
                "responseStatus": {"metadata": {}, "code": code},
                "requestReceivedTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.000000Z",
                "stageTimestamp": f"{received:%Y-%m-%dT%H:%M:%S}.004000Z",
                "requestObject": sent,
                "responseObject": answer,
                **other,
            }
        )
        return f"id-{number:04}"

    def namespace(self, labels: dict[str, str]) -> str:
        obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop", "uid": "ns", "labels": labels}}
        obj["metadata"]["resourceVersion"] = str(len(self.events) + 1)  # type: ignore[index]
        return self.event("create", "namespaces", "shop", 201, obj, obj)

    def deployment(self, verb: str, name: str, replicas: int, labels: dict[str, str] | None = None, code: int = 0) -> str:
        obj: dict[str, Any] = {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
            "spec": {"replicas": replicas},
        }
        if labels is not None:
            obj["metadata"]["labels"] = labels
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(len(self.events) + 1)}}
        return self.event(verb, "apps/deployments", name, code or (201 if verb == "create" else 200), obj, stored)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.namespace({"env": "prod"})
    for number in range(12):
        name = f"web-{number:02}"
        cluster.deployment("create", name, replicas=number, labels={"owner": "dana"} if number % 3 else None)
        cluster.deployment("update", name, replicas=5, labels={"owner": "dana"})
    return cluster


@pytest.fixture
def ingest(tmp_path: Path) -> Callable[[Cluster], Path]:
    """Takes the events of a cluster into a lake, under the name `lab`."""

    def ingest(cluster: Cluster) -> Path:
        log = tmp_path / f"{len(cluster.events)}.jsonl"
        log.write_text("".join(json.dumps(event) + "\n" for event in cluster.events))
        lake = Lake.create(tmp_path / "lake")
        ingest_files(lake, [log], "lab", received_ts=0.0)
        lake.close()
        return lake.path

    return ingest


@pytest.fixture
def lake(cluster: Cluster, ingest: Callable[[Cluster], Path]) -> Path:
    return ingest(cluster)


@pytest.fixture(scope="session")
def policies() -> PolicySet:
    return load_policy_set([CASES / "policies.yaml"])
