"""The mistakes in given roles and bindings, as lines on standard error."""

from __future__ import annotations

from dataclasses import replace

from api.context import Context
from pipeline.stages.authorization.lint import lint
from pipeline.stages.authorization.overlay import Proposal

_SHOWN = 10


def say_mistakes(own: Context, proposal: Proposal, is_only: bool) -> None:
    """Say which rules match nothing, and which bindings have no subject."""
    found = list(lint(replace(proposal, is_only=is_only)))
    for finding in found[:_SHOWN]:
        own.say(str(finding))
    if len(found) > _SHOWN:
        own.say(f"and {len(found) - _SHOWN:,} more mistakes in roles and bindings")
