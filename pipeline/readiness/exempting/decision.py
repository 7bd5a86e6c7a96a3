"""From a report to a decision: exemptions for would-be denials, and the steps to Deny."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from ingest.counted import counted

from ...stages.readiness import StageReadiness
from ..model import PolicyReadiness, Status
from ..report import Report
from ..rollout import plan_rollout
from ..rules import ReadinessRules
from ..verdict import with_exemptions
from .exemptions import Choice
from .proposal import Proposal
from .proposing import Proposing


def decided(proposing: Proposing, kind: StageReadiness[Any, Any], report: Report, review_by: date | None) -> Report:
    """The report with exemptions where a thing is not ready, the verdicts that follow from them, and the steps to Deny.

    `kind` has the answers of the report's stage. Exemptions that are within the rules' limits are replayed before a
    verdict stands on them; wider ones are only shown.
    """
    rules = report.rules
    things = [proposing.things.name(entry.policy, entry.binding) for entry in report.policies]
    named = list(zip(report.policies, things, strict=True))
    waiting = frozenset(thing for entry, thing in named if entry.status is Status.NOT_READY and entry.denials.requests)
    proposal = proposing.nothing(review_by)
    if waiting:
        proposal = proposing.propose(review_by, waiting, partial(is_worth_replaying, rules), rules.confidence)
    found = [exempted(entry, thing, proposal, rules) for entry, thing in named]
    if kind.actions is not None:
        found = [replace(entry, rollout=plan_rollout(entry, rules, proposal.after, kind.actions)) for entry in found]
    return replace(report, policies=tuple(found))


def exempted(entry: PolicyReadiness, thing: str, proposal: Proposal, rules: ReadinessRules) -> PolicyReadiness:
    """The readiness of one policy with its proposed exemptions. The verdict changes only if the replay with them denied nothing.

    `thing` is its name in the proposal.
    """
    choice = next((choice for choice in proposal.choices if choice.policy == thing), None)
    if choice is None or entry.status is not Status.NOT_READY:
        return entry
    entry = replace(entry, later=choice.later)
    exemptions = proposal.exemptions_of(thing, entry.binding)
    left = proposal.left.get(thing)
    if left is not None and left.denied == 0 and not limits_broken(choice, rules):
        return with_exemptions(entry, exemptions, rules)
    reasons = [f"exemptions would make the replay clean, but {reason}" for reason in limits_broken(choice, rules)]
    if choice.left:
        reasons = [f"no exemption that may be proposed reaches {choice.left:,} of the denied requests"]
    elif left is not None and left.denied:
        reasons = [f"with the exemptions applied {counted(left.denied, 'request')} would still be denied"]
    return replace(entry, exemptions=exemptions, reasons=(*entry.reasons, *reasons))


def is_worth_replaying(rules: ReadinessRules, choice: Choice) -> bool:
    """Whether exemptions are within the limits, so that a verdict may stand on them."""
    return not choice.left and not limits_broken(choice, rules)


def limits_broken(choice: Choice, rules: ReadinessRules) -> list[str]:
    """Which limits on the number and the width of exemptions are broken, in words."""
    return list(_limits_broken(choice, rules))


def _limits_broken(choice: Choice, rules: ReadinessRules) -> Iterator[str]:
    later = choice.later
    if later is not None and later.workloads_denied > rules.later_denied_units_max:
        yield (
            f"those from the first half fail in the second: {later.workloads_denied:,} of {counted(later.workloads, 'workload')} "
            "there would still be denied"
        )
    elif later is not None and later.workloads < rules.later_units_min:
        yield (
            f"only {counted(later.workloads, 'workload was', 'workloads were')} judged in the later half of the "
            f"time, {rules.later_units_min} wanted"
        )
    if len(choice.chosen) > rules.exemptions_max:
        yield f"{len(choice.chosen)} are needed, at most {rules.exemptions_max:g} wanted"
    passing = choice.exposed.passing_units
    if not passing:
        yield "nothing that the policy matches passes, so they would exempt everything"
        return
    share = choice.width.passing_units / passing
    if share > rules.exempted_units_share_max:
        yield (
            f"they would also exempt {choice.width.passing_units:,} of {counted(passing, 'workload')} that pass ({share:.1%}), "
            f"at most {rules.exempted_units_share_max:.0%} wanted"
        )
