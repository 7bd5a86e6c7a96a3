"""DeleteOptions as policies see them: the client's options, plus the fields that the store adds before admission."""

from __future__ import annotations

from ..request import Evidence, Grade, Known, Object, Unknown
from .event import Decode, Event, head_of
from .evidence import LazyKnown
from .intended import why_no_request
from .old_object import Met
from .options import NO_URI, delete_options, query_of
from .version import Form
from .writes import keeps_bodies


def delete_options_of(event: Event, old: Evidence[Object | None], decode: Decode) -> Evidence[Object | None]:
    """The options of one delete. A deletecollection passes on a copy for each object, as sent.

    Before admission, the server settles the grace period for a pod, and makes the uid a precondition for a Namespace.
    """
    if event.request_raw is None and not keeps_bodies(event):
        return Unknown(f"options of a delete come in its body, and no body was recorded: {why_no_request(event)}")
    if event.request_raw is None and not event.request_uri:
        return NO_URI
    body = decode(event.request_raw) if event.request_raw is not None else None
    sent = delete_options(query_of(event.request_uri), body)
    source = "requestObject" if body is not None else "requestURI"
    if event.resource.group or event.verb == "deletecollection":
        return Known(sent, source)
    if event.resource.resource == "pods":
        return LazyKnown(lambda: with_pod_grace(sent, old), f"{source}, with the grace period of the pod", Grade.INFERRED)
    if event.resource.resource == "namespaces":
        return LazyKnown(lambda: with_namespace_uid(sent, event, old), f"{source}, with the uid of the namespace", Grade.INFERRED)
    return Known(sent, source)


def is_pending(event: Event, met: Met, decode: Decode) -> bool:
    """Whether a pod was being deleted already, and this request does not shorten that: then the store answers without admission.

    Only a recorded body of the version that the request met shows this; see BeforeDelete in kubernetes/apiserver
    pkg/registry/rest/delete.go.
    """
    version = met.version
    if event.resource.resource != "pods" or event.resource.group or not event.succeeded or met.grade is Grade.PARTIAL:
        return False
    if version is None or version.form is not Form.WHOLE:
        return False
    stored = head_of(version.body).meta
    if stored.deletion_timestamp is None or stored.deletion_grace_period_seconds is None:
        return False
    body = decode(event.request_raw) if event.request_raw is not None else None
    asked = delete_options(query_of(event.request_uri), body).get("gracePeriodSeconds")
    return asked is None or asked >= stored.deletion_grace_period_seconds


def with_pod_grace(options: Object, old: Evidence[Object | None]) -> Object:
    """DeleteOptions of a pod with the grace period that the server settles on before admission.

    Follows kubernetes/kubernetes pkg/registry/core/pod/strategy.go, CheckGracefulDelete, and BeforeDelete of apiserver for pods
    that are being deleted already.
    """
    if isinstance(old, Unknown) or old.value is None:
        return options
    pod, grace_seconds = old.value, options.get("gracePeriodSeconds")
    metadata = pod.get("metadata", {})
    if "deletionTimestamp" in metadata:
        grace_seconds = metadata.get("deletionGracePeriodSeconds") if grace_seconds is None else grace_seconds
    elif not pod.get("spec", {}).get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        grace_seconds = 0
    elif grace_seconds is None:
        grace_seconds = pod["spec"].get("terminationGracePeriodSeconds", 0)
    if grace_seconds is None:
        return options
    return {**options, "gracePeriodSeconds": 1 if grace_seconds < 0 else grace_seconds}


def with_namespace_uid(options: Object, event: Event, old: Evidence[Object | None]) -> Object:
    """DeleteOptions of a Namespace: its uid is a precondition (kubernetes/kubernetes pkg/registry/core/namespace/storage)."""
    stored = (old.value or {}).get("metadata", {}).get("uid") if isinstance(old, Known) else ""
    uid = stored or event.response_head.meta.uid
    preconditions = options.get("preconditions") or {}
    if not uid or preconditions.get("uid"):
        return options
    return {**options, "preconditions": {"uid": uid, **preconditions}}
