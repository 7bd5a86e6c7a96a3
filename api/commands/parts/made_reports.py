"""The reports of `hindcast readiness`, one for each stage that judges by the given manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.context import Context

if TYPE_CHECKING:
    from api.given import Texts
    from pipeline.readiness.flow import Made, Wanted
    from pipeline.stages.stage import Asked, Stage
    from queries import LakeReader
    from queries.catalog import LakeFiles


def make_reports(
    own: Context,
    texts: Texts,
    stages: Sequence[tuple[Stage[Any, Any], Any]],
    asked: Asked,
    wanted: Wanted,
    workers: int | None = None,
    export: Path | None = None,
    files: LakeFiles | None = None,
) -> list[Made]:
    """Replay the manifests of each stage, compare with the record, and look for what would keep everybody working; over the lake,
    or over these files of it. The rows behind the figures are written into the folder `export`."""
    from api.given import say_mistakes, walk
    from pipeline.readiness.flow import make_report
    from pipeline.readiness.run import run_stage
    from pipeline.runs import RunKind
    from pipeline.runs.processes import start_processes

    from ...printing import reports
    from ..replay import workers_or_default
    from .made_once import made_once

    found = []
    processes = workers_or_default(own, workers)
    start_processes(own.lake, processes)
    walked = walk(own, texts, processes)
    looked = replace(wanted, note=own.note_defects)

    def counted(reader: LakeReader) -> None:
        if export is not None:
            reports.write_outcomes(reader, export)

    for stage, rules in stages:
        say_mistakes(own, stage, rules, asked.replaces_all)
        run = run_stage(own.lake, stage, rules, asked, walked, RunKind.REPLAY, files)
        report = partial(make_report, own.lake, run, looked, walked, counted=counted)
        made = made_once(own, run.plan, (texts, asked, wanted), export, report)
        seen = run.plan.files
        own.tell_window(run.plan.window.words(seen.newest_us if seen else None))
        found.append(made)
    return found


def write_extra(made: Sequence[Made], path: Path) -> None:
    """Write the manifests that would keep everybody working to a file."""
    from pipeline.manifests.writing import to_yaml

    path.write_text(to_yaml([each for one in made for each in one.extra], is_compact=True), encoding="utf-8")
