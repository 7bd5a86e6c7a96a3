"""The CEL costs of one policy of a replay, if they were counted, and the job that counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.pages.html import address
from api.pages.tables import Asked, Column, Table, table
from api.pages.trial import JobView, job_view
from api.stages.costs import RunCosts, costs_of_run
from api.stages.runs import policies_of_run
from api.work.jobs import Job, State
from pipeline.stages.validating.cost_figures import CostFigure, NearRequest, PolicyCost

_FIGURES_CAPTION = "CEL cost of each expression, and of all that share a budget, with the limit of the API server"
_NEAREST_CAPTION = "Requests that come nearest to a limit, one for each cost"


@dataclass(frozen=True, slots=True)
class CostView:
    """The costs of one policy: `cost` is None until they are counted; `job` counts them now, and `trouble` says why it failed."""

    run_id: str
    policy: str
    cost: PolicyCost | None
    counted: RunCosts | None
    job: JobView | None
    trouble: str
    can_count: bool
    start: str
    tables: Mapping[str, Table[Any] | None]

    def request(self, near: NearRequest) -> str:
        """The page of a request."""
        return address(f"/runs/{self.run_id}/request", cluster=near.cluster, audit_id=near.audit_id, policy=self.policy)


def cost_view(lake: Path, run_id: str, policy: str, binding: str | None, job: Job | None, asked: Asked) -> CostView:
    """The costs on the page of a policy. `job` is the newest one that counts those of this replay."""
    counted = costs_of_run(lake, run_id)
    error = job.error["message"] if job is not None and job.state is State.FAILED and job.error is not None else ""
    cost = counted.of(policy) if counted is not None else None
    return CostView(
        run_id=run_id,
        policy=policy,
        cost=cost,
        counted=counted,
        job=job_view(job) if job is not None and not job.is_over else None,
        trouble=error,
        can_count=counted is not None or policies_of_run(lake, run_id) is not None,
        start=address(f"/runs/{run_id}/costs", policy=policy, binding=binding),
        tables=_tables(cost, counted.growth, asked) if cost is not None and counted is not None else {},
    )


def _tables(cost: PolicyCost, growth: int, asked: Asked) -> Mapping[str, Table[Any] | None]:
    """The costs of each expression, and the requests that come nearest to a limit. `growth` is that of the objects."""
    figures: tuple[Column[CostFigure], ...] = (
        Column("expression", "Expression", lambda row: row.what, "name"),
        Column("median", "Median", lambda row: row.median, "n"),
        Column("p99", "p99", lambda row: row.p99, "n"),
        Column("most", "Most", lambda row: row.most, "n"),
        Column("limit", "Limit", lambda row: row.limit, "n"),
        Column("share_of_limit", "Most of limit", lambda row: row.most / row.limit, "n"),
        Column("grown", f"Objects ×{growth}", lambda row: row.grown, "n"),
    )
    nearest: tuple[Column[NearRequest], ...] = (
        Column("request", "Request", lambda row: f"{row.resource} {row.name or row.audit_id}", "name"),
        Column("expression", "Expression", lambda row: row.what, "name"),
        Column("cost", "Cost", lambda row: row.cost, "n"),
        Column("share_of_limit", "Of limit", lambda row: row.cost / row.limit, "n"),
        Column("grown_share_of_limit", f"Objects ×{growth}", lambda row: row.grown_cost / row.grown_limit, "n"),
        Column("alike", "Alike", lambda row: row.alike, "n"),
        Column("namespace", "", lambda row: row.namespace),
        Column("cluster", "", lambda row: row.cluster),
        Column("audit_id", "", lambda row: row.audit_id),
    )
    return {
        "costs": table(asked, "costs", _FIGURES_CAPTION, figures, cost.figures) if cost.figures else None,
        "nearest": table(asked, "nearest", _NEAREST_CAPTION, nearest, cost.nearest) if cost.nearest else None,
    }
