"""The costs of a run's policies over recorded requests: a job counts them, and keeps them next to the run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from api.beside_runs import keep_costs, kept_costs, kept_manifests
from api.stages.runs import policies_of_run
from api.stored_runs import run_plan
from ingest.errors import EvidenceError
from pipeline.policies.verdict import STAGE
from pipeline.stages.validating.cost_figures import GROWTH, PolicyCost
from pipeline.stages.validating.costs import Progress, policy_costs
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.plan import ReplayPlan
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake


@dataclass(frozen=True, slots=True)
class RunCosts:
    """The costs of a run's policies over `requests` recorded requests.

    For figures named `grown` the lists of objects are `growth` times as long.
    """

    run_id: str
    requests: int
    growth: int
    policies: tuple[PolicyCost, ...]

    def of(self, policy: str) -> PolicyCost | None:
        """The costs of one policy."""
        return next((each for each in self.policies if each.policy == policy), None)


def plan_costs(lake: Path, run_id: str) -> ReplayPlan:
    """The plan of the count: the run's policies over the requests of its window that the lake holds now.

    Raises NotFoundError, and EvidenceError for a run that used the policies in force.
    """
    policies = policies_of_run(lake, run_id)
    if policies is None:
        raise EvidenceError(
            f"run {run_id} took the policies that were in force at the time of each request, and has no policies of its own",
            "replay given policies, and count the costs of that run",
        )
    stored = _stored_plan(lake, run_id)
    with closing(open_lake(lake)) as reader:
        plan = plan_replay(reader, policies, stored.window, stored.kubernetes_version)
    return replace(plan, other_authorizers=stored.other_authorizers)


def count_costs(lake: Path, run_id: str, plan: ReplayPlan, progress: Progress) -> None:
    """Count the costs of a plan of `plan_costs`, and keep them next to the run. Raises LakeError."""
    found = RunCosts(run_id, plan.requests, GROWTH, policy_costs(plan, lake, progress))
    keep_costs(lake, run_id, msgspec.json.encode(found))


def costs_of_run(lake: Path, run_id: str) -> RunCosts | None:
    """The counted costs, or None. The file of another version of Hindcast does not count."""
    body = kept_costs(lake, run_id)
    try:
        return msgspec.json.decode(body, type=RunCosts) if body is not None else None
    except msgspec.DecodeError:
        return None


def _stored_plan(lake: Path, run_id: str) -> ReplayPlan:
    """The unchanged plan of a run of policies, which are None if they were not kept next to it.

    Raises NotFoundError, and EvidenceError for a run of another stage.
    """
    document = run_plan(lake, run_id)
    if document.get("stage", STAGE) != STAGE:
        raise EvidenceError(
            f"run {run_id} is of stage {document['stage']}, and has no policies", "ask for its verdicts and its readiness"
        )
    kept = kept_manifests(lake, run_id)
    return ReplayPlan.of_document(document, parse_policy_set([("policies", kept)]) if kept is not None else None)
