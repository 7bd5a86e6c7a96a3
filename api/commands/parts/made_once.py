"""A report is made once: the same question over the same files of a lake has the kept answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from api.beside_runs import keep_made, kept_made
from api.context import Context
from pipeline.derived.place import digest_of
from pipeline.readiness.build import caveats_now
from pipeline.readiness.flow import Made
from pipeline.runs import RunSummary
from pipeline.runs.apart import code_name
from pipeline.runs.plan import RunPlan
from pipeline.stages.stage import Stage
from queries import open_lake


def made_once(
    own: Context,
    stage: Stage[Any, Any],
    run: tuple[RunPlan, RunSummary],
    asked: tuple[object, ...],
    export: Path | None,
    make: Callable[[], Made],
) -> Made:
    """The report of a finished run: the kept one, or what `make` makes, which is kept.

    It follows from the plan, the files of the lake, the code and `asked`: everything else that `make` was given. Only caveats also
    follow from what is not in the lake yet, so a kept report with other caveats does not count. A report with defects is made
    each time, because the end of a command names them; so is one whose rows go to the folder `export`.
    """
    plan, summary = run
    question = digest_of([code_name(), *map(repr, (plan.files, *asked))])
    kept = kept_made(own.lake, plan.run_id, question) if export is None else None
    if kept is not None:
        with closing(open_lake(own.lake, files=plan.files)) as reader:
            if caveats_now(reader, own.lake, stage, plan, summary) == kept.report.caveats:
                return kept
    defects = len(own.defects)
    made = make()
    keep_made(own.lake, made, question if len(own.defects) == defects else "")
    return made
