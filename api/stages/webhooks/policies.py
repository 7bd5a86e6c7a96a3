"""The replay of policies next to that of webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from pipeline.readiness.run import StageRun
    from pipeline.stages.stage import Asked


def replayed_policies(own: Context, files: Sequence[Path], asked: Asked) -> StageRun:
    """The finished replay of the policies of files. Raises InputError without policies."""
    from api.commands.parts.texts import read_texts
    from api.given import given_of, walk, warn_of
    from pipeline.readiness.run import run_stage
    from pipeline.runs import RunKind
    from pipeline.stages.registry import VALIDATING

    given = given_of(read_texts(list(files)), asked.kubernetes_version, own.lake)
    warn_of(own, given)
    rules = given.needed(VALIDATING)
    return run_stage(own.lake, VALIDATING, rules, asked, walk(own, given.texts, 1), RunKind.REPLAY)
