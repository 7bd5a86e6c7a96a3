"""A report is made once: the same question over the same files of a lake has the kept answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from pipeline.readiness.flow import Made
    from pipeline.runs.plan import RunPlan


def made_once(
    own: Context,
    plan: RunPlan,
    asked: tuple[object, ...],
    export: Path | None,
    make: Callable[[], Made],
) -> Made:
    """The report of a finished run: the kept one, or what `make` makes, which is kept.

    It depends on the plan, the files of the lake, what is not in the lake yet, the code and `asked`: everything else that `make`
    was given. A report with defects is made each time, because the end of a command names them; so is one whose rows go to the
    folder `export`.
    """
    from api.beside_runs import keep_made, kept_made
    from pipeline.readiness.build import lag_caveats
    from pipeline.requests.kept.place import digest_of
    from pipeline.runs.apart import code_name

    def question() -> str:
        return digest_of([code_name(), *map(repr, (plan.files, *lag_caveats(own.lake, plan.window.until), *asked))])

    asked_now = question()  # asked once more at the end: the sink may acknowledge events meanwhile
    kept = kept_made(own.lake, plan.run_id, asked_now) if export is None else None
    if kept is not None:
        return kept
    defects = len(own.defects)
    made = make()
    keep_made(own.lake, made, asked_now if len(own.defects) == defects and asked_now == question() else "")
    return made
