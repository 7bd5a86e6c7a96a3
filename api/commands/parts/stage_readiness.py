"""`hindcast readiness` for the manifests of stages other than policies, such as roles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from api.given import Given
    from pipeline.readiness.flow import Made
    from pipeline.readiness.stage_flow import Wanted
    from pipeline.stages.stage import Asked
    from queries import LakeReader
    from queries.catalog import LakeFiles


def make_reports(
    own: Context,
    given: Given,
    asked: Asked,
    wanted: Wanted,
    workers: int,
    export: Path | None,
    files: LakeFiles | None = None,
) -> list[Made]:
    """Replay the manifests of each stage, compare with the record, and look for what would keep everybody working; over the lake,
    or over these files of it."""
    from api.given import say_mistakes, walk
    from pipeline.readiness.stage_flow import make_stage_report, run_stage
    from pipeline.runs import RunKind

    from ...printing import reports
    from .made_once import made_once

    found = []
    walked = walk(own, given.texts, workers)

    def counted(reader: LakeReader) -> None:
        if export is not None:
            reports.write_outcomes(reader, export)

    for stage, rules in given.stages:
        say_mistakes(own, stage, rules, asked.replaces_all)
        run = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY, files)
        report = partial(make_stage_report, own.lake, run, wanted, walked, counted=counted)
        made = made_once(own, run.plan, (given.texts, asked, wanted), export, report)
        seen = run.plan.files
        own.tell_window(run.plan.window.words(seen.newest_us if seen else None))
        found.append(made)
    return found


def write_extra(made: Sequence[Made], path: Path) -> None:
    """Write the manifests that would keep everybody working to a file."""
    from pipeline.manifests.writing import to_yaml

    path.write_text(to_yaml([each for one in made for each in one.extra], is_compact=True), encoding="utf-8")
