"""Events of requests to an aggregated API, as kube-apiserver and an extension API server log them.

Source: kubernetes/apiserver pkg/util/proxy/proxy.go hands on the auditID; kubernetes/kube-aggregator pkg/apiserver/handler_proxy.go
hands on the effective user only; golang net/http/httputil adds X-Forwarded-For.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.recording import START, Object

GROUP = "wardle.example.com"
CLIENT, SERVER = "10.0.0.9", "10.0.0.1"
_MS = timedelta(milliseconds=1)


def event(number: int, begin_ms: int, end_ms: int, ips: list[str], bodies: bool, **more: Any) -> Object:
    """One event of creating the flunder of this number; times are milliseconds after the second of that number."""
    at = START + timedelta(seconds=number)
    name = f"fl-{number}"
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{number}", "resourceVersion": str(number + 1)}
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Flunder", "metadata": meta, "spec": {"reference": "x"}}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"/apis/{GROUP}/v1alpha1/namespaces/shop/flunders",
        "verb": "create",
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "sourceIPs": ips,
        "userAgent": "kubectl/v1.33.1",
        "objectRef": {
            "resource": "flunders",
            "namespace": "shop",
            "name": name,
            "apiGroup": GROUP,
            "apiVersion": "v1alpha1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": f"{at + begin_ms * _MS:%Y-%m-%dT%H:%M:%S.%f}Z",
        "stageTimestamp": f"{at + end_ms * _MS:%Y-%m-%dT%H:%M:%S.%f}Z",
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        **({"requestObject": body, "responseObject": body} if bodies else {}),
        **more,
    }


def outer(number: int, **more: Any) -> Object:
    """The event of kube-apiserver: it proxies the request and sees no body."""
    return event(number, 0, 20, [CLIENT], False, **more)


def inner(number: int, **more: Any) -> Object:
    """The event of the extension API server."""
    return event(number, 5, 15, [CLIENT, SERVER], True, **more)
