"""The tables of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.runs.plan import RunPlan


def plan_tables(plan: RunPlan) -> list[Table]:
    """Requests that each (policy, binding) may match, their resources, and the requests left out."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    bindings = [Column("policy"), Column("binding"), Column("requests", number=True), Column("actions")]
    classes = [Column("operation"), Column("resource"), Column("requests", number=True)]
    by_resource = plan.by_resource()
    rows = [(operation, resource, count) for (operation, resource), count in by_resource.most_common()]
    if by_resource and (others := plan.requests - by_resource.total()):
        rows.append(("", "requests of these resources and verbs that no policy matches", others))
    title = f"Run {plan.run_id}: {counted(plan.requests, 'request')} to replay"
    return [
        Table("bindings", bindings, [(item.policy, item.binding, item.requests, item.actions) for item in plan.bindings], title),
        *([Table("requests", classes, rows, "Requests to replay")] if by_resource else ()),
        Table(
            "excluded",
            [Column("reason"), Column("requests", number=True)],
            plan.excluded,
            "Requests that are not replayed, and why",
        ),
    ]
