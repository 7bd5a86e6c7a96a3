"""What readiness needs to know of policies. Its build.py judges them further than the things of other stages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...policies.model import PolicySet
from ...runs import RunKind, RunStore
from ..chain.interplay import interplay
from ..readiness import Objection, StageReadiness, StageWords
from .execute import run_replay
from .explain import explain_request, policies_met
from .plan import ReplayPlan, mutating_among
from .recorded import plan_replay_from_log


class PolicyReadiness(StageReadiness[PolicySet, ReplayPlan]):
    """See StageReadiness."""

    words = StageWords(
        "policies", "Policy readiness", "ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding", "go to Deny", "policy"
    )
    has_flips = False
    caveats = (
        "up to Kubernetes 1.36 the API server records only the first failure of a request: recorded counts are lower bounds, "
        "replayed ones are not",
    )
    in_log = True

    def prepare(self, reader: LakeReader) -> None:
        """See StageReadiness: the run of the policies in force, which says how far a replay agrees with the record."""
        _remove_interrupted(Path(reader.files.lake))
        plan = plan_replay_from_log(reader)
        if plan.bindings:
            run_replay(plan, reader.files.lake)

    def objections(self, reader: LakeReader, verdicts: Path, rules: PolicySet | None) -> Sequence[Objection]:
        """See StageReadiness: mutating policies given with them."""
        return interplay(reader, verdicts) if mutating_among(rules) else ()

    def explain(self, reader: LakeReader, rules: PolicySet | None, asked: Asked) -> Sequence[Told]:
        """See StageReadiness."""
        return explain_request(reader, rules, asked)

    def explainable(self, reader: LakeReader, rules: PolicySet | None, asked: Asked) -> frozenset[str]:
        """See StageReadiness."""
        return policies_met(reader, rules, asked)


def _remove_interrupted(lake: Path) -> None:
    """Remove the unfinished runs of preparations that were stopped. The lake has changed since, so that nothing continues them."""
    for run in RunStore(lake).every():
        with suppress(ValueError, OSError):
            if set(run.asked_ns()) == {RunKind.CALIBRATION} and run.summary is None:
                run.remove()  # not if somebody makes it now
