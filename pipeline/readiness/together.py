"""What given manifests of several stages do together: each request counts once, by the first stage that would newly refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..runs import RunStore
from ..stages.readiness import keep_counted
from ..stages.registry import IN_ORDER
from .report import RefusedFirst, Report, Together, joined
from .sql import dry_runs_kept, statement


def joined_over(lake: Path, files: LakeFiles | None, reports: Sequence[Report]) -> Report:
    """The reports on the runs of several stages as one, with what these do together; see report.joined."""
    whole = joined(reports)
    if len(whole.runs) < 2 or any(entry.change is not None for entry in whole.policies):
        return whole
    with closing(open_lake(lake, files=files)) as reader:
        return replace(whole, together=_together(reader, lake, whole))


def _together(reader: LakeReader, lake: Path, report: Report) -> Together | None:
    connection, parts = reader.connection, []
    with dry_runs_kept(connection):
        for place, stage in enumerate(each for each in IN_ORDER if each.name in report.runs):
            verdicts = RunStore(lake).run(report.runs[stage.name]).verdicts
            if not verdicts.is_file():
                return None
            keep_counted(connection, f"together_{place}", stage.readiness.counted, str(verdicts))
            columns = "cluster, audit_id, ts, policy, decision, effect, flip"
            parts.append(f"SELECT {place} AS place, '{stage.name}' AS stage, {columns} FROM together_{place}")
        connection.execute(f"CREATE OR REPLACE TEMP TABLE together AS {' UNION ALL '.join(parts)}")
        rows = connection.execute(statement("together")).fetchall()
    first = tuple(RefusedFirst(stage, policy, requests) for stage, policy, requests, _ in rows if stage is not None)
    (whole,) = (row for row in rows if row[0] is None)
    return Together(whole[2], sum(each.requests for each in first), whole[3], first)
