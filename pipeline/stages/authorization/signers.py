"""The permissions to approve or sign a certificate, and to attest a trust bundle: rights on its signer.

Follows kubernetes plugin/pkg/admission/certificates/{approval,signing,ctbattest} and pkg/certauthorization.
"""

from __future__ import annotations

from typing import Any

import re2

from ingest.notes import SIGNER as REDACTED_SIGNER

from ...authorization.rbac import quoted
from ...cel.library.authorizer import Attributes
from ...history.event import Event, decode_json
from .needs import Ask, Need, NeedKind, Way

GROUP = "certificates.k8s.io"
_REQUESTS, _BUNDLES = "certificatesigningrequests", "clustertrustbundles"
_SIGNER = re2.compile(r'signerName "((?:[^"\\]|\\.)*)"')
_UNCHANGED = "the log does not tell whether the request changed the certificate or only other fields"


def signer_need(event: Event, asked: Attributes, *, is_refused: bool) -> Need | None:
    """The permission that a request needs for a signer; None if it needs none. `is_refused`: the record says that it lacked it."""
    place = (asked.group, asked.resource, asked.subresource)
    if place == (GROUP, _REQUESTS, "approval"):
        return _need(event, "approve", is_certain=True)
    writes = event.verb in ("update", "patch")
    if place == (GROUP, _REQUESTS, "status") and writes:
        # Only a write of the certificate or of the conditions needs it; the answer shows what they are, not what they were.
        status = _part(event, "status")
        if status is not None and not status.get("certificate") and not status.get("conditions") and not is_refused:
            return None
        return _need(event, "sign", is_certain=is_refused)
    if place == (GROUP, _BUNDLES, "") and (writes or event.verb == "create"):
        spec = _part(event, "spec")
        if spec is not None and not spec.get("signerName") and not is_refused:
            return None
        # An update that changes no more than ownership needs nothing.
        return _need(event, "attest", is_certain=is_refused or event.verb == "create")
    return None


def _need(event: Event, verb: str, *, is_certain: bool) -> Need:
    """The right to a verb on the signer by its name, or on its whole domain."""
    name = _signer_name(event)
    if not name:
        return _nameless(event, verb, is_certain)
    domain = name.partition("/")[0]
    ways: tuple[Way, ...] = tuple(
        (Ask(event.user, Attributes(verb, "", GROUP, "signers", "", "", each)),) for each in (name, f"{domain}/*")
    )
    readings = (ways,) if is_certain else (ways, ((),))
    what = "attest for" if verb == "attest" else f"{verb} requests with"
    refusal = f"user not permitted to {what} signerName {quoted(name)}"
    return Need(NeedKind.SIGNER, readings, user=event.user, refusal=refusal, why_readings_differ=_UNCHANGED)


def _nameless(event: Event, verb: str, is_certain: bool) -> Need:
    """The right on a signer that the log does not name. Where the server may not have asked at all, its lack decides nothing."""
    why = "the signer of the certificate is not recorded"
    ask = Ask(event.user, Attributes(verb, "", GROUP, "signers"))
    what = "attest for" if verb == "attest" else f"{verb} requests with"
    refusal = f"user not permitted to {what} any signerName"
    return Need(NeedKind.SIGNER, user=event.user, why_unknown=why, refusal=refusal, nameless=ask if is_certain else None)


def _signer_name(event: Event) -> str:
    if found := _SIGNER.search(event.message):
        return str(found.group(1))
    return str((_part(event, "spec") or {}).get("signerName") or event.notes.get(REDACTED_SIGNER) or "")


def _part(event: Event, name: str) -> dict[str, Any] | None:
    """A part of the object as the answer has it, else as the client sent it; None where no recorded body has it."""
    for raw in (event.response_raw, event.request_raw):
        value: Any = decode_json(raw) if raw is not None else None
        if isinstance(value, dict) and value.get("kind") != "Status" and isinstance(value.get(name), dict):
            found: dict[str, Any] = value[name]
            return found
    return None
