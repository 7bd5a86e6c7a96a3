"""The CEL costs of one policy of a replay, if they were counted, and the job that counts them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.replay.cost_figures import NearRequest, PolicyCost

from ..jobs import Job, State
from ..run_costs import RunCosts, costs_of_run
from ..run_policies import policies_of_run
from .html import address
from .trial import JobView, job_view


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

    def request(self, near: NearRequest) -> str:
        """The page of a request."""
        return address(f"/runs/{self.run_id}/request", cluster=near.cluster, audit_id=near.audit_id, policy=self.policy)


def cost_view(lake: Path, run_id: str, policy: str, binding: str | None, job: Job | None) -> CostView:
    """The costs on the page of a policy. `job` is the newest one that counts those of this replay."""
    counted = costs_of_run(lake, run_id)
    error = job.error["message"] if job is not None and job.state is State.FAILED and job.error is not None else ""
    return CostView(
        run_id=run_id,
        policy=policy,
        cost=counted.of(policy) if counted is not None else None,
        counted=counted,
        job=job_view(job) if job is not None and not job.is_over else None,
        trouble=error,
        can_count=counted is not None or policies_of_run(lake, run_id) is not None,
        start=address(f"/runs/{run_id}/costs", policy=policy, binding=binding),
    )
