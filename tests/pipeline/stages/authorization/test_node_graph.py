"""What the Node authorizer allows because of pods that a log shows: tests/cases/authorization/node_graph.yaml."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.authorization import OtherAuthorizers
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import UserInfo
from pipeline.stages.authorization.needs import Ask
from pipeline.stages.authorization.node_graph import NodeGraph
from queries import open_lake
from tests.recording import START, Object, take_in
from tests.yaml_text import load_yaml

from .test_stage import event

CASES = load_yaml((Path(__file__).parents[3] / "cases/authorization/node_graph.yaml").read_text())
PODS = "/api/v1/namespaces/shop/pods"
SPEC = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "pull"}],
    "containers": [
        {
            "name": "c",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "a"}}}],
            "envFrom": [{"configMapRef": {"name": "from"}}],
        }
    ],
    "volumes": [
        {"name": "s", "secret": {"secretName": "volume"}},
        {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "driver"}}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ],
}


def of_pod(number: int, verb: str, name: str, part: str = "", user: str = "root", **more: Any) -> Object:
    reference = {"resource": "pods", "namespace": "shop", "name": name, "uid": f"u-{name}", "apiVersion": "v1"}
    return event(
        number, user, verb, f"{PODS}/{name}{f'/{part}' if part else ''}", level="RequestResponse",
        objectRef={**reference, **({"subresource": part} if part else {})}, **more,
    )  # fmt: skip


def pod(name: str, **spec: Any) -> Object:
    annotations = {"kubernetes.io/config.mirror": "x"} if name == "static" else {}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**SPEC, **spec}}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[int | None, Path]:
    """A lake for each minor, and one without it."""
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
    events = [
        of_pod(10, "create", "web", responseObject=pod("web")),
        of_pod(20, "create", "web", "binding", requestObject=binding, responseObject={"kind": "Status"}),
        of_pod(25, "create", "static", responseObject=pod("static", nodeName="n1", serviceAccountName="static")),
        of_pod(40, "delete", "web"),
    ]
    found: dict[int | None, Path] = {}
    for minor in {case.get("minor") for case in CASES}:
        own = event(5, "system:apiserver", "get", f"{PODS}/x", userAgent=f"kube-apiserver/v1.{minor}.2 (linux/amd64) kubernetes/1")
        found[minor] = take_in(tmp_path_factory.mktemp("nodes") / "lake", events if minor is None else [own, *events])
    return found


def question(case: dict[str, Any]) -> Attributes:
    verb, what, *place = case["asks"].split()
    resource, _, subresource = what.partition("/")
    namespace, _, name = (place[0] if place else "").rpartition("/")
    return Attributes(verb, "", "", resource, subresource, namespace, name, case.get("selector", ""))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['asks']} {case}")
def test_pods_that_the_log_shows_give_their_node_rights(case: dict[str, Any], lakes: dict[int | None, Path]) -> None:
    user = UserInfo(f"system:node:{case.get('node', 'n1')}", groups=("system:nodes", "system:authenticated"))
    times = [START + timedelta(seconds=second) for second in case["at"]]
    ask = Ask(user, question(case))
    with closing(open_lake(lakes[case.get("minor")])) as reader:
        graph = NodeGraph(reader)
        found = graph.answer("lab", ask, others=OtherAuthorizers.NODE, times=times)
        assert (found.allowed if found is not None else None) is case["allowed"]
        assert graph.answer("lab", ask, others=OtherAuthorizers.ANY, times=times) is None
        elsewhere = Ask(user, Attributes("create", "", "", "serviceaccounts", "token", "shop", "robot"))
        assert graph.answer("other", elsewhere, others=OtherAuthorizers.NODE, times=times) is None
