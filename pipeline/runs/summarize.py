"""Counts the verdicts of a finished run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb

from ingest.engine import engine_cursor

from ..cel.defects import DEFECT
from .merge import Merged
from .plan import RunPlan
from .sql import statement
from .summary import BindingSummary, Defect, RunSummary


def summarize(
    plan: RunPlan, run: Merged, evaluated: int, not_evaluated: Mapping[str, int], database: duckdb.DuckDBPyConnection | None = None
) -> RunSummary:
    """Count the verdicts of a finished run; every planned (policy, binding) has its line, also where nothing matched.

    `database` is an open one, which does not change; by default it is the small one of this process.
    """
    with engine_cursor() if database is None else database.cursor() as connection:
        for name, table in (("members", run.members()), ("distinct_verdicts", run.numbered_verdicts()), ("passes", run.passes())):
            connection.register(name, table)
        counted = connection.execute(statement("summary")).fetchall()
        defects = connection.execute(statement("defects"), {"defect": DEFECT}).fetchall()
        rows = connection.execute("SELECT coalesce(sum(passes), 0)::BIGINT FROM members JOIN passes USING (set)").fetchall()[0][0]
    return RunSummary(
        run_id=plan.run_id,
        planned=plan.requests,
        evaluated=evaluated,
        not_evaluated=tuple(sorted(not_evaluated.items(), key=lambda entry: (-entry[1], entry[0]))),
        verdicts=rows,
        bindings=tuple(_bindings(plan, counted)),
        defects=(*(Defect(*row) for row in defects), *(Defect(name, why, 0) for name, why in plan.unreadable)),
    )


def _bindings(plan: RunPlan, counted: Iterable[tuple[str, str | None, *tuple[int, ...]]]) -> Iterable[BindingSummary]:
    found = {(row[0], row[1]): row[2:] for row in counted}
    for item in plan.bindings:
        yield BindingSummary(item.policy, item.binding, item.actions, *found.pop((item.policy, item.binding), ()))
    # Verdicts on a policy as a whole: its constraints did not match, or its configuration is invalid.
    for (policy, binding), counts in found.items():
        # The row of a request as a whole is no policy.
        if (policy, binding) != (plan.stage, None):
            yield BindingSummary(policy, binding, (), *counts)
