"""The webhook configurations that the log shows in force at the time of each request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ...history.snapshots import ResourceName
from ...history.world import LogHistory
from ...policies.model import ParamKind
from ...request import Object
from .. import in_force
from .decode import configuration_from_object
from .model import GROUP, Chain, Configuration, Phase

# Configurations are read when an informer hears of them, not in an interval (pkg/admission/configuration). Seen on a live 1.36
# control plane: 0.1 s.
CONFIGURATION_DELAY = timedelta(milliseconds=500)
KINDS = tuple(ParamKind(f"{GROUP}/v1", phase.kind) for phase in Phase)
RESOURCES = tuple(ResourceName(GROUP, f"{phase}webhookconfigurations") for phase in Phase)


class RecordedChains(in_force.RecordedChains[Configuration, Chain]):
    """The webhooks of each moment. `history` must hold KINDS."""

    def __init__(self, history: LogHistory, version: tuple[int, int], delay: timedelta = CONFIGURATION_DELAY) -> None:
        super().__init__(history, RESOURCES, delay)
        self._version = version

    @property
    def every(self) -> Sequence[Chain]:
        """See Chains: one chain per version of each configuration."""
        return tuple(dict.fromkeys(self.made((each,)) for each in self.recorded_rules()))

    def rule_of(self, value: Object, source: str) -> Configuration:
        """See in_force.RecordedChains."""
        return configuration_from_object(value, source)

    def chain_of(self, rules: tuple[Configuration, ...]) -> Chain:
        """See in_force.RecordedChains."""
        return Chain(rules, self._version)
