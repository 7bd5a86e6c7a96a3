"""What readiness needs to know of policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...cel import ReadSet
from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...policies.model import Policy, PolicySet
from ...request import Object
from ...runs import RunKind, RunStore, RunSummary
from ...runs.plan import RunPlan
from ...runs.window import Window
from ...tables import Table
from ..chain.interplay import interplay
from ..over_time import OverTime
from ..readiness import Agreed, Objection, Place, StageReadiness, StageWords
from .agreement import kept_agreement
from .difference import difference
from .encode import binding_to_object, policy_to_object
from .execute import run_replay
from .exempting import PolicyExemptions
from .explain import explain_request, policies_met
from .expression_reads import ExpressionReads
from .judges import Judges
from .plan import ReplayPlan, mutating_among
from .reading import PolicyReading
from .recorded import plan_replay_from_log
from .tables import difference_table, not_evaluated_table, summary_table
from .written import PolicyActions


class PolicyReadiness(PolicyReading, StageReadiness[PolicySet, ReplayPlan]):
    """See StageReadiness."""

    words = StageWords(
        "policies",
        "Policy readiness",
        "ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding",
        "go to Deny",
        "policy",
        goes_to_deny=True,
    )
    has_flips = False
    shows_recorded = True
    tells_steps = True
    caveats = (
        "up to Kubernetes 1.36 the API server records only the first failure of a request: recorded counts are lower bounds, "
        "replayed ones are not",
    )
    in_log = True
    actions = PolicyActions()
    exemptions = PolicyExemptions()

    def prepare(self, reader: LakeReader) -> None:
        """See StageReadiness: the run of the policies in force, and how far it agrees with the record."""
        _remove_interrupted(Path(reader.files.lake))
        plan = plan_replay_from_log(reader)
        if plan.bindings:
            run_replay(plan, reader.files.lake)
            self.agreement(reader, plan)

    def calibration(
        self, reader: LakeReader, plan: ReplayPlan, others: OtherAuthorizers | None, change_delay: timedelta
    ) -> ReplayPlan:
        """See StageReadiness: the policies that the log shows in force at the time of each request."""
        return plan_replay_from_log(reader, plan.window, plan.kubernetes_version, change_delay, others)

    def agreement(self, reader: LakeReader, plan: ReplayPlan) -> Sequence[Agreed]:
        """See StageReadiness."""
        return kept_agreement(reader, RunStore(Path(reader.files.lake)).run(plan.run_id), plan.kubernetes_version)

    def judges(self, reader: LakeReader, plan: ReplayPlan) -> Judges | None:
        """See StageReadiness. Policies in force differ from request to request, so that none of them can be asked."""
        return Judges(reader, plan) if plan.policies is not None else None

    def stored_plan(self, document: Mapping[str, Any], rules: PolicySet | None) -> ReplayPlan:
        """See StageReadiness."""
        return ReplayPlan.of_document(document, rules)

    def steps_of(self, rules: PolicySet) -> Mapping[str, str]:
        """See StageReadiness."""
        return {policy.name: _rules_text(policy) for policy in rules.policies}

    def names(self, rules: PolicySet | None, plan: RunPlan) -> Sequence[str]:
        """See StageReadiness: also those that no binding binds."""
        if rules is None:
            raise ValueError("a version before needs policies of its own")
        return [each.name for each in rules.policies]

    def is_same(self, rules: PolicySet, before: PolicySet, name: str) -> bool:
        """See StageReadiness: with their bindings, and with the objects that were given with them."""
        given, given_before = ([each.object for each in version.without_secrets().objects] for version in (rules, before))
        return given == given_before and _of_policy(before, name) == _of_policy(rules, name)

    def alike(self, rules: PolicySet, before: PolicySet, name: str, taken: Collection[str]) -> str:
        """See StageReadiness; policies are alike if they have the same spec."""
        kept = {policy.name for policy in rules.policies} | set(taken)
        specs = {policy.name: policy_to_object(policy)["spec"] for policy in rules.policies}
        found = [each.name for each in before.policies if each.name not in kept and policy_to_object(each)["spec"] == specs[name]]
        return found[0] if len(found) == 1 else ""

    def places(self, rules: PolicySet) -> Sequence[Place]:
        """See StageReadiness. Policies from the log or standard input have no file to point at."""
        return [
            Place(policy.name, policy.source, tuple(each.source for each in policy.validations))
            for policy in rules.policies
            if policy.source.rpartition(":")[2].isdigit() and policy.source.rpartition(":")[0] != "standard input"
        ]

    def expression_reads(self, rules: PolicySet, version: tuple[int, int]) -> Callable[[str, int | None], ReadSet]:
        """See StageReadiness."""
        return ExpressionReads(rules, version).of

    def run_tables(self, reader: LakeReader, plan: ReplayPlan, summary: RunSummary, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness."""
        return [summary_table(summary), not_evaluated_table(plan, summary)]

    def changes(self, before: Path, after: Path) -> Sequence[Table]:
        """See StageReadiness: by expression."""
        return [difference_table(difference(before, after))]

    def over_time(self, reader: LakeReader, verdicts: Path, window: Window, rules: PolicySet | None) -> Sequence[OverTime]:
        """See StageReadiness: the pages of policies have charts of their own."""
        return ()

    def objections(self, reader: LakeReader, verdicts: Path, rules: PolicySet | None) -> Sequence[Objection]:
        """See StageReadiness: mutating policies given with them."""
        return interplay(reader, verdicts) if mutating_among(rules) else ()

    def explain(self, reader: LakeReader, rules: PolicySet | None, asked: Asked) -> Sequence[Told]:
        """See StageReadiness."""
        return explain_request(reader, rules, asked)

    def explainable(self, reader: LakeReader, rules: PolicySet | None, asked: Asked) -> frozenset[str]:
        """See StageReadiness."""
        return policies_met(reader, rules, asked)


def _of_policy(policies: PolicySet, name: str) -> tuple[list[Object], dict[str, Object]]:
    """A policy and its bindings by name, as objects. The order of bindings says nothing."""
    own = [policy_to_object(policy) for policy in policies.policies if policy.name == name]
    return own, {binding.name: binding_to_object(binding) for binding in policies.bindings if binding.policy_name == name}


def _rules_text(policy: Policy) -> str:
    constraints = policy.match_constraints
    rules = constraints.resource_rules if constraints else ()
    return "; ".join(
        f"{', '.join(rule.operations)} of {', '.join(rule.resources)} in {', '.join(group or 'core' for group in rule.api_groups)}"
        for rule in rules
    )


def _remove_interrupted(lake: Path) -> None:
    """Remove the unfinished runs of preparations that were stopped. The lake has changed since, so that nothing continues them."""
    for run in RunStore(lake).every():
        with suppress(ValueError, OSError):
            if set(run.asked_ns()) == {RunKind.CALIBRATION} and run.summary is None:
                run.remove()  # not if somebody makes it now
