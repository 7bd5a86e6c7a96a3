"""`hindcast readiness` for roles and bindings: the same verdicts, figures and formats as for policies."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from api.context import Context
from pipeline.manifests.writing import to_yaml
from pipeline.readiness.model import Fidelity
from pipeline.readiness.roles import RoleReport, fidelity_of, role_report, window_words
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay.past import load_history
from pipeline.runs import RunKind, RunStore, RunSummary
from pipeline.runs.flips import count_flips, flips
from pipeline.stages.authorization.calibration import compare_authorization
from pipeline.stages.authorization.missing import MissingRights, missing_rights
from pipeline.stages.authorization.overlay import Proposal
from pipeline.stages.grouped import GroupedPlan
from pipeline.stages.registry import AUTHORIZATION
from pipeline.stages.stage import Asked
from pipeline.stages.verdict import Flip
from queries import open_lake

from .. import reports
from .role_lint import say_mistakes


def make_report(
    own: Context, proposal: Proposal, asked: Asked, rules: ReadinessRules, calibrates: bool, with_extra: bool, export: Path | None
) -> RoleReport:
    """Replay a role change, compare the roles of the time with the record, and look for the rights that it should have kept."""
    say_mistakes(own, proposal, asked.replaces_all)
    plan = _planned(own, proposal, asked)
    summary = _run(own, plan, RunKind.REPLAY)
    fidelity: dict[str, Fidelity] | None = None
    missing: MissingRights | None = None
    with closing(open_lake(own.lake, files=plan.files)) as reader:
        history = load_history(reader, (), asked.window)
        if calibrates:
            window, others = asked.window, dict(plan.other_authorizers)
            found = compare_authorization(reader, history, others, window.since, window.until, asked.kubernetes_version)
            fidelity = fidelity_of(found)
        if with_extra:
            missing = missing_rights(
                reader, RunStore(own.lake).run(plan.run_id).verdicts, history.versions, asked.kubernetes_version
            )
            if missing.roles:
                missing = replace(missing, still_denied=_tried(own, proposal, missing, asked))
        made = role_report(reader, own.lake, plan, summary, fidelity, rules, missing)
        if export is not None:
            reports.write_outcomes(reader, export)
    own.say(window_words(plan))
    return made


def _planned(own: Context, proposal: Proposal, asked: Asked) -> GroupedPlan[Proposal]:
    with closing(open_lake(own.lake)) as reader:
        return AUTHORIZATION.plan(reader, proposal, asked)


def _run(own: Context, plan: GroupedPlan[Proposal], kind: RunKind) -> RunSummary:
    with own.progress("replaying roles") as step:
        return AUTHORIZATION.run(plan, own.lake, 1, step, kind)


def _tried(own: Context, proposal: Proposal, missing: MissingRights, asked: Asked) -> int:
    """How many requests are newly denied although the missing rights are given."""
    plan = _planned(own, proposal.joined(Proposal.from_objects((each, "extra") for each in missing.objects)), asked)
    _run(own, plan, RunKind.TRIAL)
    run = RunStore(own.lake).run(plan.run_id)
    try:
        with closing(open_lake(own.lake, files=plan.files)) as reader:
            return count_flips(flips(reader, run.verdicts))[Flip.NEWLY_DENIED]
    finally:
        run.discard()


def write_extra(made: RoleReport, path: Path) -> None:
    """Write the roles that would keep everybody working to a file."""
    path.write_text(to_yaml(made.extra, is_compact=True), encoding="utf-8")
