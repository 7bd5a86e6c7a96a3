"""Every stage: one row each."""

from __future__ import annotations

from typing import Any

from .authorization.stage import Authorization
from .stage import Stage
from .validating import Validating
from .webhooks.stage import Webhooks

VALIDATING = Validating()
AUTHORIZATION = Authorization()
WEBHOOKS = Webhooks()

STAGES: tuple[Stage[Any, Any], ...] = (VALIDATING, AUTHORIZATION, WEBHOOKS)


def stage_of(name: str, stages: tuple[Stage[Any, Any], ...] = STAGES) -> Stage[Any, Any]:
    """The stage of this name. Raises KeyError."""
    return {stage.name: stage for stage in stages}[name]
