"""Options of writes and of connections, from URI and body."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.history.deletion import with_namespace_uid, with_pod_grace
from pipeline.history.event import Event
from pipeline.history.kinds import kind_of
from pipeline.history.options import connect_object, delete_options, query_of, write_options
from pipeline.request import Known, Operation, Unknown

PODS = "/api/v1/namespaces/shop/pods/web"


def test_write_options_name_what_the_query_names() -> None:
    query = query_of("/x?dryRun=All&fieldManager=kubectl&fieldValidation=Strict&force=true&pretty=true")
    assert write_options(Operation.UPDATE, query) == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "kubectl",
        "fieldValidation": "Strict",
    }
    assert write_options(Operation.CREATE, {}) == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}


def test_a_body_of_delete_options_wins_over_the_query() -> None:
    body = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "propagationPolicy": "Orphan"}
    options = delete_options(query_of("/x?gracePeriodSeconds=5"), body)
    assert options == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Orphan"}
    assert delete_options(query_of("/x?gracePeriodSeconds=0"), None)["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("subresource", "rest", "expected"),
    [
        (
            "exec",
            "?command=sh&command=-c&command=id&container=a&stdin=true&stdout=1&tty=false",
            {"stdin": True, "stdout": True, "container": "a", "command": ["sh", "-c", "id"]},
        ),
        ("exec", "", {"command": None}),
        ("attach", "?container=a&stdout=true&stderr=0", {"stdout": True, "container": "a"}),
        ("portforward", "?ports=80&ports=443", {"ports": [80, 443]}),
        ("portforward", "", {}),
        ("proxy", "/metrics/a%20b?x=y", {"path": "/metrics/a b"}),
        ("proxy", "", {}),
    ],
)
def test_connect_objects(subresource: str, rest: str, expected: dict[str, Any], build: Any) -> None:
    event = Event.from_row(build(verb="get", subresource=subresource, request_uri=f"{PODS}/{subresource}{rest}"))
    kind = kind_of(event.resource, subresource)
    assert kind is not None
    assert connect_object(kind, event) == {"kind": kind.kind, "apiVersion": "v1", **expected}


RUNNING = {"metadata": {}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("pod", "sent", "settled"),
    [
        (RUNNING, {}, 30),
        (RUNNING, {"gracePeriodSeconds": 5}, 5),
        (RUNNING, {"gracePeriodSeconds": -1}, 1),
        ({**RUNNING, "spec": {"terminationGracePeriodSeconds": 30}}, {}, 0),
        ({**RUNNING, "status": {"phase": "Succeeded"}}, {"gracePeriodSeconds": 5}, 0),
        ({**RUNNING, "metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 7}}, {}, 7),
    ],
)
def test_the_grace_period_of_a_pod(pod: dict[str, Any], sent: dict[str, Any], settled: int) -> None:
    assert with_pod_grace(sent, Known(pod, "test"))["gracePeriodSeconds"] == settled


def test_without_the_pod_the_options_stay_as_sent() -> None:
    assert with_pod_grace({"a": 1}, Unknown("not recorded")) == {"a": 1}


def test_a_namespace_is_deleted_on_condition_of_its_uid(build: Any) -> None:
    event = Event.from_row(build(verb="delete", resource="namespaces"))
    old = Known({"metadata": {"uid": "u"}}, "test")
    assert with_namespace_uid({}, event, old) == {"preconditions": {"uid": "u"}}
    assert with_namespace_uid({"preconditions": {"uid": "v"}}, event, old) == {"preconditions": {"uid": "v"}}
