"""Every stage: one row each."""

from __future__ import annotations

from typing import Any

from .authorization.stage import Authorization
from .stage import Stage
from .validating import Validating

VALIDATING = Validating()
AUTHORIZATION = Authorization()

STAGES: tuple[Stage[Any, Any], ...] = (VALIDATING, AUTHORIZATION)


def stage_of(name: str, stages: tuple[Stage[Any, Any], ...] = STAGES) -> Stage[Any, Any]:
    """The stage of this name. Raises KeyError."""
    return {stage.name: stage for stage in stages}[name]
