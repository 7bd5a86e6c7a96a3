"""What the Node authorizer allows because of its graph, and of the server's minor, as far as a log shows these.

A kubelet may read what the pods on its node refer to, and may ask for tokens of their service accounts (kubernetes
plugin/pkg/auth/authorizer/node/graph.go, AddPod; pkg/api/v1/pod/util.go, VisitPodSecretNames). The log shows that a pod was there
from its binding until somebody asked to delete it. It never shows all pods, so nothing is refused because of the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from queries import LakeReader

from ...authorization.node import node_opinion
from ...cel.library.authorizer import Answer, Attributes
from ...history.event import decode_json
from ...other_authorizers import NODE_PREFIX, NODES, OtherAuthorizers
from .needs import Ask
from .sql import statement

_Vertex = tuple[str, str, str, str, str]  # cluster, node, resource, namespace, name
_Span = tuple[datetime, datetime | None]
_MIRROR = "kubernetes.io/config.mirror"
# Volumes that name a secret: the field of the reference, or of the name itself.
_SECRETS_OF_VOLUMES = {
    "azureFile": "secretName",
    "secret": "secretName",
    "csi": "nodePublishSecretRef",
    **dict.fromkeys(("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"), "secretRef"),
}


class NodeGraph:
    """What the log shows of the pods of nodes, and of the servers' minors. It reads both when a question first needs them."""

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader

    def answer(self, cluster: str, ask: Ask, *, others: OtherAuthorizers, times: Collection[datetime]) -> Answer | None:
        """The answer to a node's question at some times, if it is the same and known at all of them."""
        user, asked = ask
        node = user.username.removeprefix(NODE_PREFIX)
        if others is not OtherAuthorizers.NODE or node == user.username or NODES not in user.groups or not times:
            return None
        found = node_opinion(node, asked, self._minors.get(cluster))
        if found is not None:
            return Answer(found.allowed, found.reason)
        spans = self._spans.get((cluster, node, *_vertex(asked)), ())
        is_shown = all(any(since <= ts and (until is None or ts < until) for since, until in spans) for ts in times)
        return Answer(True) if is_shown else None

    @cached_property
    def _minors(self) -> Mapping[str, int]:
        """The minor of each cluster whose API servers say one and the same in their own requests."""
        found: dict[str, set[int]] = defaultdict(set)
        for cluster, minor in self._reader.connection.execute(statement("minors")).fetchall():
            found[cluster].add(minor)
        return {cluster: minors.pop() for cluster, minors in found.items() if len(minors) == 1}

    @cached_property
    def _spans(self) -> Mapping[_Vertex, list[_Span]]:
        found: dict[_Vertex, list[_Span]] = defaultdict(list)
        for batch in self._reader.sql(statement("placed_pods")).to_arrow_reader(1024):
            for row in batch.to_pylist():
                for resource, name in _references(decode_json(row["pod"]), row["name"]):
                    vertex = (row["cluster"], row["node"], resource, row["namespace"], name)
                    found[vertex].append((row["since"], row["until"]))
        return found


def _vertex(asked: Attributes) -> tuple[str, str, str]:
    """What the graph must connect to the node, as (resource, namespace, name); nothing has an empty name there."""
    nothing = ("", "", "")
    if asked.group or not asked.name:
        return nothing
    match asked.resource, asked.subresource, asked.verb:
        case ("secrets" | "configmaps", "", "get" | "list" | "watch") | ("persistentvolumeclaims" | "pods", "", "get"):
            return asked.resource, asked.namespace, asked.name
        case ("persistentvolumeclaims", "status", "update" | "patch") | ("serviceaccounts", "token", "create"):
            return asked.resource, asked.namespace, asked.name
    return nothing


def _references(pod: Any, name: str) -> Iterator[tuple[str, str]]:
    """The pod itself and what it refers to, as (resource, name). A mirror pod gives no rights."""
    metadata, spec = (_part(pod, part) for part in ("metadata", "spec"))
    yield "pods", name
    if _MIRROR in _part(metadata, "annotations"):
        return
    containers = (each for kind in ("initContainers", "containers", "ephemeralContainers") for each in _items(spec, kind))
    found = [
        ("serviceaccounts", spec.get("serviceAccountName")),
        *(("secrets", each.get("name")) for each in _items(spec, "imagePullSecrets")),
        *(reference for each in containers for reference in _of_container(each)),
        *(reference for each in _items(spec, "volumes") for reference in _of_volume(each, name)),
    ]
    yield from ((resource, told) for resource, told in found if isinstance(told, str) and told)


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    sources = [(each, "Ref") for each in _items(container, "envFrom")]
    sources += [(_part(each, "valueFrom"), "KeyRef") for each in _items(container, "env")]
    for source, ending in sources:
        yield "secrets", _part(source, f"secret{ending}").get("name")
        yield "configmaps", _part(source, f"configMap{ending}").get("name")


def _of_volume(volume: Mapping[str, Any], pod: str) -> Iterator[tuple[str, Any]]:
    for kind, field in _SECRETS_OF_VOLUMES.items():
        told = _part(volume, kind).get(field)
        yield "secrets", told.get("name") if isinstance(told, dict) else told
    for source in (volume, *_items(_part(volume, "projected"), "sources")):
        yield "configmaps", _part(source, "configMap").get("name")
        yield "secrets", _part(source, "secret").get("name")
    yield "persistentvolumeclaims", _part(volume, "persistentVolumeClaim").get("claimName")
    if _part(volume, "ephemeral"):
        yield "persistentvolumeclaims", f"{pod}-{volume.get('name')}"


def _part(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _items(value: Mapping[str, Any], name: str) -> Iterable[dict[str, Any]]:
    found = value.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
