"""The validating webhooks that would look at a changed object: what they answer to it is not recorded."""

from __future__ import annotations

from ...authorization import AuthorizeUser
from ...history.world import LogHistory
from ...matching import Target
from ...request import AdmissionRequest, Unknown
from ...world import World
from ..mutating.walk import Met
from ..webhooks.calling import Called, match_webhook
from ..webhooks.model import Phase
from ..webhooks.recorded import KINDS, RecordedChains
from .answer import WEBHOOK, Answer, unknown

__all__ = ["KINDS", "WebhooksBehind"]


class WebhooksBehind:
    """The webhooks that the log shows in force. `history` must hold KINDS."""

    def __init__(self, history: LogHistory, version: tuple[int, int]) -> None:
        self._recorded = RecordedChains(history, version)

    def may_read(self, met: Met) -> bool:
        """Whether a condition of a webhook may read what comes of a request. Without any, only labels and rules decide."""
        chains = self._recorded.at(met.event.cluster, met.event.ts)
        if isinstance(chains, Unknown) or isinstance(met.request, Unknown):
            return True
        return any(list(chain.candidates(Target.of(met.request))) for chain in chains)

    def asked(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser) -> Answer | None:
        """What is not known because of a webhook; None if none looks at the object."""
        chains = self._recorded.at(request.cluster, request.ts)
        if isinstance(chains, Unknown):
            return unknown(WEBHOOK, chains.reason)
        target = Target.of(request)
        for hook in (hook for chain in chains for hook in chain.candidates(target) if hook.phase is Phase.VALIDATING):
            call = match_webhook(hook, request, target, world, authorize)
            if call is not None and call.decision in (Called.CALLED, Called.UNKNOWN):
                return unknown(f"{WEBHOOK}:{hook.webhook.name}", "its answer to the changed object is not recorded")
        return None
