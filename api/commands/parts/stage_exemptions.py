"""`hindcast exemptions` for the manifests of stages other than policies, such as webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.given import Given
    from pipeline.readiness.exempting.proposal import Proposal
    from pipeline.stages.stage import Asked


def check_stages(given: Given) -> None:
    """Raise InputError for manifests of stages that know no exemptions."""
    for stage, rules in given.stages:
        if stage.readiness.written(rules) is None:
            things = stage.readiness.words.things
            raise InputError(f"{things} have no exemptions", "`hindcast readiness` says what would keep everybody working")


def proposals(own: Context, given: Given, asked: Asked, day: date, workers: int) -> Iterator[Proposal]:
    """The exemptions for the manifests of each stage, tried in replays."""
    from api.given import walk
    from pipeline.readiness.flow import propose_exemptions, run_stage
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.runs import RunKind

    from .window import check_window

    check_window(own, asked.window)
    walked = walk(own, given.texts, workers)
    for stage, rules in given.stages:
        run = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY)
        own.say("replaying with the exemptions, and without each one of them")
        yield propose_exemptions(own.lake, run, ReadinessRules(), walked, day)
        files = run.plan.files
        own.tell_window(run.plan.window.words(files.newest_us if files else None))
