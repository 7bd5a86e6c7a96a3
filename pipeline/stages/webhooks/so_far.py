"""The object that a mutating webhook meets: as sent, with the changes of the webhooks before it.

Each webhook looks at the object as the webhooks before it left it (kubernetes/apiserver
pkg/admission/plugin/webhook/mutating/dispatcher.go, Dispatch). The log has their patches from level Request on. Changes by built-in
plugins and defaults are not recorded, so such an object is PARTIAL.
"""

from __future__ import annotations

from dataclasses import replace

from ...history.event import Event, decode_json
from ...history.patching import PatchError, apply_operations, apply_patch, patch_type, why_unpatched
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Operation, Unknown
from .model import Chain, CompiledWebhook, Phase, Place
from .trace import Trace

_SHOWN = ("CREATE", "UPDATE")


class SoFar:
    """The states of one request between the mutating webhooks."""

    def __init__(self, chain: Chain, request: AdmissionRequest, event: Event | None, trace: Trace) -> None:
        self._chain = chain
        self._request = request
        self._event = event
        self._trace = trace
        self._sent: Evidence[Object | None] | None = None

    def before(self, hook: CompiledWebhook, round_number: int) -> AdmissionRequest:
        """The request as a webhook met it in a round."""
        request = self._request
        if self._event is None or request.operation.value not in _SHOWN:
            return request
        if not any(each.mutated for each in self._trace.attempts) and not self._trace.patches:
            return self._named(request, request.object)
        return self._named(request, self._patched(hook, round_number))

    def _named(self, request: AdmissionRequest, new: Evidence[Object | None]) -> AdmissionRequest:
        """Without the name that the server generates after mutating admission."""
        event = self._event
        assert event is not None
        head = event.request_head.meta
        generated = request.operation is Operation.CREATE and event.verb == "create"
        if not generated or event.request_raw is None or head.name or not head.generate_name or event.subresource:
            return replace(request, object=new)
        if isinstance(new, Known) and new.value is not None and "name" in new.value.get("metadata", {}):
            metadata = {key: value for key, value in new.value["metadata"].items() if key != "name"}
            new = Known({**new.value, "metadata": metadata}, new.source, new.grade)
        return replace(request, object=new, name=Known("", "generateName"))

    def _patched(self, hook: CompiledWebhook, round_number: int) -> Evidence[Object | None]:
        sent = self._sent
        if sent is None:
            sent = self._sent = _sent(self._event, self._request) if self._event else Unknown("no event")
        if isinstance(sent, Unknown):
            return sent
        value = sent.value
        if value is None:
            return Unknown("there is no object")
        shown = {each[:2] for each in self._trace.patches}
        for attempt in self._trace.attempts:
            if attempt.mutated and attempt[:2] not in shown and attempt.round <= round_number:
                return Unknown("patches of webhooks were not recorded")
        for patch in self._trace.patches:
            if patch.round > round_number:
                break
            if patch.round == round_number:
                place = self._chain.place_of(Phase.MUTATING, patch.configuration, patch.webhook)
                if place is None and self._chain.has(Phase.MUTATING, patch.configuration):
                    return Unknown(f"webhook {patch.webhook} is not in the given configuration {patch.configuration}")
                if (place or Place(patch.configuration, 0)) >= hook.place:
                    break
            try:
                value = apply_operations(value, patch.operations)
            except PatchError as error:
                return Unknown(f"a recorded patch of webhook {patch.webhook} does not fit: {error}")
        return Known(value, f"{sent.source} with patches of webhooks", Grade.PARTIAL)


def _sent(event: Event, request: AdmissionRequest) -> Evidence[Object | None]:
    """The object before the first webhook."""
    if event.request_raw is None:
        return Unknown("the requested object was not recorded, and webhooks changed it")
    body = decode_json(event.request_raw)
    if event.verb != "patch":
        return Known(body, "requestObject", Grade.PARTIAL) if isinstance(body, dict) else Unknown("requestObject is no object")
    old = request.old_object
    if request.operation is Operation.CREATE:
        return Known(body, "requestObject", Grade.PARTIAL) if isinstance(body, dict) else Unknown("requestObject is no object")
    if isinstance(old, Unknown) or old.value is None:
        return Unknown("the object before the patch is not known, and webhooks changed the patched one")
    kind = patch_type(body, event.request_uri, event.resource, event.subresource)
    try:
        return Known(apply_patch(kind, old.value, body), f"{kind} over {old.source}", Grade.PARTIAL)
    except PatchError as error:
        return Unknown(why_unpatched(kind, error))
