"""What the Node authorizer decides of a kubelet's request without its graph of pods and nodes.

Follows kubernetes plugin/pkg/auth/authorizer/node/node_authorizer.go and NodeRules of pkg/auth/authorizer/rbac/bootstrappolicy, as
far as all minors from 1.30 on agree, and as far as a known minor decides. What depends on the graph is left open. From 1.32 on
(the feature AuthorizeNodeWithSelectors) a kubelet reads only its own Node and the pods on it; before, it reads all of both.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cel.library.authorizer import Attributes
from ..matching.field_text import parse_field_selector
from ..matching.selectors import SelectorError

_LEASES = "kube-node-lease"
_OWN_VERBS = ("get", "create", "update", "patch", "delete")
_READS = ("get", "list", "watch")
_SELECTORS_SINCE = 32  # the minor
# Subresources of pods that no minor gives to nodes.
_OTHER_PARTS = ("log", "exec", "attach", "portforward", "proxy", "binding", "ephemeralcontainers")

# Verbs that every minor gives to every node.
_STATIC = {
    ("", "services"): _READS,
    ("", "events"): ("create", "update", "patch"),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("create",),
    ("", "endpoints"): ("get",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("create", *_READS),
    ("node.k8s.io", "runtimeclasses"): _READS,
    ("storage.k8s.io", "csidrivers"): _READS,
}
# Whether nodes may use these depends on the graph, or on features of the server.
_OPEN = frozenset((
    ("", "serviceaccounts"), ("resource.k8s.io", "resourceslices"), ("certificates.k8s.io", "podcertificaterequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
))  # fmt: skip
# The minor whose server was asked about 60 other resources and paths: it gives none of them to nodes.
_ASKED_MINOR = 36
_OF_ASKED_MINOR = {("events.k8s.io", "events"): ("create", "update", "patch")}


class NodeOpinion(NamedTuple):
    """Whether the Node authorizer allows a request; where it does not, its reason, or None where its words are not known."""

    allowed: bool
    reason: str | None = ""


_ALLOWED = NodeOpinion(True)


def node_opinion(node: str, asked: Attributes, minor: int | None = None) -> NodeOpinion | None:
    """The opinion on a request of the kubelet of a node; None where it depends on more than the request and the server's minor."""
    match (asked.group, asked.resource):
        case ("", "secrets" | "configmaps"):
            return _refused(_of_read(asked))
        case ("", "persistentvolumeclaims") if asked.subresource == "status":
            return _refused("can only get/update/patch this type" if asked.verb not in ("update", "patch") else _unnamed(asked))
        case (
            ("", "persistentvolumeclaims" | "persistentvolumes")
            | ("storage.k8s.io", "volumeattachments")
            | ("resource.k8s.io", "resourceclaims")
        ):
            return _refused(_of_get(asked))
        case ("coordination.k8s.io", "leases"):
            return _refused(_of_lease(node, asked)) or _ALLOWED
        case ("storage.k8s.io", "csinodes"):
            return _refused(_of_csi_node(node, asked)) or _ALLOWED
        case ("", "pods"):
            return _of_pod(node, asked, minor)
        case ("", "nodes"):
            return _of_node(node, asked, minor)
    return _of_rules(asked, minor)


def _of_rules(asked: Attributes, minor: int | None) -> NodeOpinion | None:
    """The opinion on what NodeRules alone decides."""
    place = asked.group, asked.resource
    rules = (_STATIC, _OF_ASKED_MINOR) if minor == _ASKED_MINOR else (_STATIC,)
    if not asked.subresource and any(asked.verb in each.get(place, ()) for each in rules):
        return _ALLOWED
    return NodeOpinion(False) if minor == _ASKED_MINOR and place not in _OPEN else None


def _refused(reason: str) -> NodeOpinion | None:
    return NodeOpinion(False, reason) if reason else None


def _unnamed(asked: Attributes) -> str:
    return "" if asked.name else "No Object name found"


def _of_read(asked: Attributes) -> str:
    if asked.verb not in _READS:
        return "can only read resources of this type"
    if asked.subresource:
        return "cannot read subresource"
    return _unnamed(asked) if asked.namespace else "can only read namespaced object of this type"


def _of_get(asked: Attributes) -> str:
    if asked.verb != "get":
        return "can only get individual resources of this type"
    return "cannot get subresource" if asked.subresource else _unnamed(asked)


def _of_lease(node: str, asked: Attributes) -> str:
    if asked.verb not in _OWN_VERBS:
        return "can only get, create, update, patch, or delete a node lease"
    if asked.namespace != _LEASES:
        return f'can only access leases in the "{_LEASES}" system namespace'
    is_own = asked.verb == "create" or asked.name == node
    return "" if is_own else "can only access node lease with the same name as the requesting node"


def _of_csi_node(node: str, asked: Attributes) -> str:
    if asked.verb not in _OWN_VERBS:
        return "can only get, create, update, patch, or delete a CSINode"
    if asked.subresource:
        return "cannot authorize CSINode subresources"
    is_own = asked.verb == "create" or asked.name == node
    return "" if is_own else "can only access CSINode with the same name as the requesting node"


def _of_node(node: str, asked: Attributes, minor: int | None) -> NodeOpinion | None:
    match asked.subresource, asked.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case ("", "get" | "list" | "watch"):
            return _ALLOWED if asked.name == node else _of_others(minor)
        case ("", "delete" | "deletecollection"):
            return NodeOpinion(False)
    return None


def _of_others(minor: int | None) -> NodeOpinion | None:
    """The opinion on reads that are not of the node's own objects alone."""
    if minor is None:
        return None
    return _ALLOWED if minor < _SELECTORS_SINCE else NodeOpinion(False, None)


def _of_pod(node: str, asked: Attributes, minor: int | None) -> NodeOpinion | None:
    """Which pods a kubelet may get depends on the graph."""
    match asked.subresource, asked.verb:
        case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
            return _ALLOWED
        case ("", "update" | "patch" | "deletecollection"):
            return NodeOpinion(False)
        case ("", "list" | "watch"):
            return _ALLOWED if _selects_own(node, asked) else _of_others(minor)
        case ("", "get"):
            return _ALLOWED if minor is not None and minor < _SELECTORS_SINCE else None
    return NodeOpinion(False) if asked.subresource in _OTHER_PARTS else None


def _selects_own(node: str, asked: Attributes) -> bool:
    """Whether a field selector takes only the pods on the node. Authorizers do not see one that cannot be parsed."""
    try:
        terms = parse_field_selector(asked.field_selector or "")
    except SelectorError:
        return False
    return any((term.field, term.value, term.negated) == ("spec.nodeName", node, False) for term in terms)
