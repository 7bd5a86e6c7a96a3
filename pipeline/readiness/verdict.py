"""From figures to a verdict. A pure function: the same figures under the same rules give the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ingest.counted import counted

from ..stages.readiness import Objection
from .change import Change, FateCount
from .exempting.measures import Exemption, LaterTrial
from .model import CriticalKind, Denials, Exposure, FailedExpression, Fidelity, Latent, PolicyReadiness, Status
from .rules import ReadinessRules

_NOT_ASSESSED = Latent()
_NONE: Mapping[tuple[CriticalKind, str], int] = {}


def decide(
    exposure: Exposure,
    denials: Denials,
    fidelity: Fidelity,
    rules: ReadinessRules,
    critical: Mapping[tuple[CriticalKind, str], int] = _NONE,
    latent: Latent = _NOT_ASSESSED,
    failed: Sequence[FailedExpression] = (),
    silent: Sequence[FailedExpression] = (),
) -> tuple[Status, tuple[str, ...]]:
    """The verdict without exemptions, and its reasons in plain words, the deciding ones first.

    `critical` counts the denied requests of critical subjects, by kind and name, in the order in which the reasons list them.

    A would-be denial decides against the policy even on little evidence. A clean replay decides for it only on enough evidence.
    A reason says if fidelity is unknown, but that alone does not withhold READY: a policy that was never bound has no fidelity.
    """
    against = [
        *_failed_reasons(denials, failed),
        *_critical_reasons(critical, rules),
        *_denial_reasons(denials, exposure, rules),
        *_latent_reasons(latent, rules),
        *_cost_reasons(exposure),
    ]
    if exposure.requests_matched == 0:
        silence = "no recorded request matched, so the replay says nothing about it"
        return (Status.NOT_READY, (*against, silence)) if against else (Status.INSUFFICIENT_EVIDENCE, (silence,))
    gaps = _evidence_gaps(exposure, fidelity, rules)
    excused = [*_excused(exposure), *_silent_remarks(denials, silent)]
    if against:
        return Status.NOT_READY, (*against, *gaps, *excused)
    if gaps:
        return Status.INSUFFICIENT_EVIDENCE, (*gaps, *excused)
    return Status.READY, (*_grounds(exposure, denials, fidelity, latent, rules), *excused)


def decide_again(entry: PolicyReadiness, rules: ReadinessRules) -> tuple[Status, tuple[str, ...]]:
    """The verdict on the figures of a report under other rules, without exemptions.

    Bounds and trend stay as they were computed, at the confidence of the report's own rules.
    """
    hit = {(row.kind, row.subject): row.denied for row in entry.critical if row.denied}
    status, reasons = decide(entry.exposure, entry.denials, entry.fidelity, rules, hit, entry.latent, entry.failed, entry.silent)
    return (Status.NOT_READY, (*entry.objections, *reasons)) if entry.objections else (status, reasons)


def objected(entry: PolicyReadiness, objections: Sequence[Objection]) -> PolicyReadiness:
    """The verdict with what its stage says against it apart from denials.

    Against a version before, the verdict is on the change. There an objection decides only if the base has no such policy.
    """
    own = [each for each in objections if (each.policy, each.binding) == (entry.policy, entry.binding)]
    if not own:
        return entry
    deciding, remarks = ([each.text for each in own if each.decides is decides] for decides in (True, False))
    is_new = entry.change is None or entry.change.base is None
    if not deciding or not is_new:
        return replace(entry, reasons=(*entry.reasons, *deciding, *remarks))
    status = entry.status if entry.status is Status.NEW_DENIALS else Status.NOT_READY
    return replace(entry, status=status, objections=tuple(deciding), reasons=(*deciding, *entry.reasons, *remarks))


def decide_change(
    change: Change, exposure: Exposure, fidelity: Fidelity, actions: Sequence[str], rules: ReadinessRules
) -> tuple[Status, tuple[str, ...]]:
    """The verdict on one (policy, binding) against the version before, and its reasons.

    It says whether the change makes new denials, never that the policy may go to Deny. A new denial decides even on little
    evidence. A request that a cost limit ends only under the new version makes it NOT READY. NO NEW DENIALS needs the evidence
    that READY needs, unless the binding denies nothing or the policy is the same.
    """
    context = [*_base_reasons(change, actions), *_beside_reasons(change)]
    against, costs = _new_reasons(change, rules), _new_cost_reasons(change)
    if against:
        return Status.NEW_DENIALS, (*against, *costs, *context)
    if costs:
        return Status.NOT_READY, (*costs, *context)
    unsure = _unsure_reasons(change)
    if unsure:
        return Status.INSUFFICIENT_EVIDENCE, (*unsure, *context)
    is_certain = not change.is_enforced or change.is_same
    if exposure.requests_matched == 0 and not is_certain:
        silence = "no recorded request matched, so the replay says nothing about the change"
        return Status.INSUFFICIENT_EVIDENCE, (silence, *context)
    gaps = [] if is_certain else _evidence_gaps(exposure, fidelity, rules)
    if gaps:
        return Status.INSUFFICIENT_EVIDENCE, (*gaps, *context)
    return Status.NO_NEW_DENIALS, (*_no_new_grounds(change, exposure, rules), *context, *_excused(exposure))


def _new_reasons(change: Change, rules: ReadinessRules) -> list[str]:
    reasons = []
    if sum(change.critical_new.values()) > rules.critical_denied_max:
        shown = [f"{subject} ({counted(denied, 'request')})" for subject, denied in list(change.critical_new.items())[:3]]
        more = f" and {len(change.critical_new) - 3:,} more" if len(change.critical_new) > 3 else ""
        reasons.append(f"the change newly denies critical subjects: {', '.join(shown)}{more}")
    if change.new.units > rules.denied_units_max:
        reasons.append(f"new denials: {_amount(change.new)} would be denied that the base does not deny")
    if change.latent_new > rules.latent_denied_max:
        reasons.append(
            f"{counted(change.latent_new, 'object or pod template', 'objects and pod templates')} that exist and were not tried in "
            "the window would be denied by this version and not by the base"
        )
    return reasons


def _new_cost_reasons(change: Change) -> list[str]:
    over = change.over_cost_new
    return [f"{_over_cost(over)}; under the base {'it does' if over == 1 else 'they do'} not"] if over else []


def _unsure_reasons(change: Change) -> list[str]:
    reasons = []
    if change.unsure.requests:
        reasons.append(
            f"perhaps new denials: {_amount(change.unsure)} would be denied, and whether the base denied them is unknown"
        )
    if change.latent_unsure:
        reasons.append(
            f"{counted(change.latent_unsure, 'object or pod template', 'objects and pod templates')} that exist would be denied, "
            "and whether the base denies them is unknown"
        )
    return reasons


def _base_reasons(change: Change, actions: Sequence[str]) -> list[str]:
    """The reasons that name the two versions, if this decides which requests count as denied."""
    reasons = []
    if change.base is None:
        hint = f"; {change.renamed_from} of the base has the same spec: " if change.renamed_from else ""
        hint += f"--renamed {change.renamed_from}={change.policy} compares with it" if change.renamed_from else ""
        reasons.append(f"no version before: the base has no policy named {change.policy}, so each of its denials is new{hint}")
    elif change.base_actions and "Deny" not in change.base_actions:
        reasons.append(f"the base denied nothing by its actions ({', '.join(change.base_actions)})")
    if not change.is_enforced:
        would = f"; with Deny {_amount(change.unenforced)} would be denied" if change.unenforced.requests else ""
        reasons.append(f"this version denies nothing by its actions ({', '.join(actions)}){would}")
    return reasons


def _beside_reasons(change: Change) -> list[str]:
    reasons = []
    if change.kept.requests:
        reasons.append(f"kept denials: both versions deny {_amount(change.kept)}")
    if change.gone.requests:
        reasons.append(f"gone denials: only the base denies {_amount(change.gone)}")
    if change.latent_kept:
        what = counted(change.latent_kept, "object or pod template", "objects and pod templates")
        reasons.append(f"both versions would deny {what} that exist and were not tried in the window")
    return reasons


def _no_new_grounds(change: Change, exposure: Exposure, rules: ReadinessRules) -> list[str]:
    if change.is_same:
        return ["the policy, its bindings and the params that were given are the same in both versions"]
    if not change.is_enforced:
        return []
    return [
        f"new denials: {_amount(change.new)}, out of {counted(exposure.requests_judged, 'judged request')} of "
        f"{counted(exposure.units_judged, 'workload')} over {exposure.days_span:.1f} days",
        f"with {rules.confidence:.0%} confidence fewer than {change.unit_rate_upper:.1%} of workloads like these would meet a new "
        "denial",
    ]


def _amount(count: FateCount) -> str:
    return f"{counted(count.requests, 'request')} of {counted(count.units, 'workload')}"


def with_exemptions(entry: PolicyReadiness, exemptions: Sequence[Exemption], rules: ReadinessRules) -> PolicyReadiness:
    """The readiness of a policy under exemptions with which its replay is clean; unchanged without exemptions.

    Exemptions remove would-be denials. They do not remove gaps in the evidence, costs, or latent violations. So NOT READY becomes
    READY WITH EXEMPTIONS only if denials of requests were the only obstacle.
    """
    if not exemptions or entry.status is not Status.NOT_READY:
        return entry
    gaps = _evidence_gaps(entry.exposure, entry.fidelity, rules)
    latent = _latent_reasons(entry.latent, rules)
    if latent or entry.objections or entry.exposure.requests_over_cost:
        return replace(entry, exemptions=tuple(exemptions))
    requests = sum(exemption.hides_requests for exemption in exemptions)
    if gaps:
        reason = f"{counted(len(exemptions), 'exemption')} would make the replay clean, but the evidence is too weak for a verdict"
        return replace(entry, exemptions=tuple(exemptions), reasons=(*entry.reasons, reason))
    reason = f"with {counted(len(exemptions), 'exemption')} the replay denies nothing; they exempt {counted(requests, 'request')}"
    grounds = [_later_ground(entry.later, rules)] if entry.later else []
    reasons = (reason, *grounds, *entry.reasons)
    return replace(entry, status=Status.READY_WITH_EXEMPTIONS, exemptions=tuple(exemptions), reasons=reasons)


def _later_ground(later: LaterTrial, rules: ReadinessRules) -> str:
    found = (
        f"found in the earlier half of the time and tried on the later half, they leave {later.workloads_denied:,} of "
        f"{counted(later.workloads, 'workload')} denied; "
    )
    if not later.new_workloads:
        return f"{found}no workload was new in the later half, so how a new one would fare is unknown"
    bound = f"with {rules.confidence:.0%} confidence fewer than {later.new_rate_upper:.1%} of new workloads would be denied"
    return f"{found}{counted(later.new_workloads, 'workload')} were new there: {bound} although the exemptions are applied"


def _critical_reasons(critical: Mapping[tuple[CriticalKind, str], int], rules: ReadinessRules) -> list[str]:
    if sum(critical.values()) <= rules.critical_denied_max:
        return []
    shown = [f"{kind} {subject} ({counted(denied, 'request')})" for (kind, subject), denied in list(critical.items())[:3]]
    more = f" and {len(critical) - 3:,} more" if len(critical) > 3 else ""
    return [f"critical subjects would have been denied: {', '.join(shown)}{more}"]


def _failed_reasons(denials: Denials, failed: Sequence[FailedExpression]) -> list[str]:
    """That a policy denies because it fails, which its author alone can mend."""
    if not denials.requests_failed:
        return []
    first = failed[0] if failed else None
    where = f" of validations[{first.expression_index}]" if first is not None and first.expression_index is not None else ""
    what = f": {first.message}" if first is not None and first.message else ""
    are = counted(denials.requests, "denial is an error", "denials are errors")
    return [f"{denials.requests_failed:,} of {are}{where}{what}; mend the policy"]


def _silent_remarks(denials: Denials, silent: Sequence[FailedExpression]) -> list[str]:
    """That clients see another text than the author meant, which the server writes to its own log alone."""
    if not silent:
        return []
    first, total = silent[0], sum(each.requests for each in silent)
    where = f" of validations[{first.expression_index}]" if first.expression_index is not None else ""
    of = counted(denials.requests, "denial")
    return [f"messageExpression{where} failed for {total:,} of {of}, and clients see the text of the validation: {first.message}"]


def _denial_reasons(denials: Denials, exposure: Exposure, rules: ReadinessRules) -> list[str]:
    if denials.units <= rules.denied_units_max:
        return []
    share = denials.requests / exposure.requests_judged if exposure.requests_judged else 1.0
    reasons = [
        f"{denials.requests:,} of {counted(exposure.requests_judged, 'judged request')} ({share:.1%}) would have been denied, "
        f"from {counted(denials.units, 'workload')}, {counted(denials.users, 'user')} and "
        f"{counted(denials.namespaces, 'namespace')}"
    ]
    if denials.last_ts is not None:
        reasons.append(
            f"the last would-be denial was {span(denials.days_clean)} before the end of the matched traffic; since then "
            f"{counted(denials.requests_clean, 'request')} of {counted(denials.units_clean, 'workload')} passed"
            if denials.days_clean
            else "the latest matching request would be denied"
        )
    trend = denials.trend
    if trend.direction in ("rising", "falling"):
        reasons.append(
            f"denied workloads are {trend.direction}: {trend.earlier_denied:,} of {trend.earlier_judged:,} in the earlier half of "
            f"the time, {trend.later_denied:,} of {trend.later_judged:,} in the later (p = {trend.p_value:.2g})"
        )
    return reasons


def _latent_reasons(latent: Latent, rules: ReadinessRules) -> list[str]:
    if latent.objects_denied + latent.templates_denied <= rules.latent_denied_max:
        return []
    reasons = []
    if latent.objects_denied:
        reasons.append(
            f"{latent.objects_denied:,} of {counted(latent.objects, 'object')} that exist and were not written in the window would "
            "be denied when they are written next"
        )
    if latent.templates_denied:
        reasons.append(
            f"{latent.templates_denied:,} of {counted(latent.templates, 'pod template')} that exist would have "
            "their next Pod denied"
        )
    return reasons


def _cost_reasons(exposure: Exposure) -> list[str]:
    return [_over_cost(exposure.requests_over_cost)] if exposure.requests_over_cost else []


def _over_cost(requests: int) -> str:
    goes = "goes" if requests == 1 else "go"
    return (
        f"{counted(requests, 'request')} {goes} over a CEL cost limit of the API server, which ends the evaluation with an error; "
        "`hindcast policy cost` says which expression"
    )


def _evidence_gaps(exposure: Exposure, fidelity: Fidelity, rules: ReadinessRules) -> list[str]:
    gaps = []
    if exposure.units_judged < rules.matched_units_min:
        gaps.append(f"only {counted(exposure.units_judged, 'workload')} judged, {rules.matched_units_min} wanted")
    if exposure.days_span < rules.days_min:
        gaps.append(f"the matched traffic spans {span(exposure.days_span)}, {rules.days_min:g} days wanted")
    if exposure.weekdays < rules.weekdays_min:
        gaps.append(f"only {counted(exposure.weekdays, 'weekday')} with judged requests, {rules.weekdays_min} wanted")
    if exposure.release_cycles < rules.release_cycles_min:
        gaps.append(f"only {counted(exposure.release_cycles, 'release cycle')} seen, {rules.release_cycles_min} wanted")
    if exposure.unknown_share > rules.unknown_share_max:
        gaps.append(
            f"{exposure.requests_unknown:,} of {exposure.requests_matched:,} matched requests ({exposure.unknown_share:.1%}) "
            f"are unknown, at most {rules.unknown_share_max:.0%} wanted"
        )
    for agreement, agreed, compared, whose in (
        (fidelity.agreement, fidelity.agreed, fidelity.compared, "on these resources"),
        (fidelity.own_agreement, fidelity.own_agreed, fidelity.own_compared, "of its own"),
    ):
        if agreement is not None and agreement < rules.agreement_min:
            gaps.append(
                f"the replay agrees with {agreed:,} of {compared:,} recorded outcomes {whose} ({agreement:.1%}), "
                f"{rules.agreement_min:.0%} wanted"
            )
    return gaps


def _excused(exposure: Exposure) -> list[str]:
    """The reason for a policy that denies nothing only because its expressions fail and errors are ignored."""
    if not exposure.requests_excused:
        return []
    return [
        f"of {exposure.requests_excused:,} of {counted(exposure.requests_judged, 'judged request')} the evaluation failed, and "
        "failurePolicy Ignore let them pass unchecked"
    ]


def _grounds(exposure: Exposure, denials: Denials, fidelity: Fidelity, latent: Latent, rules: ReadinessRules) -> list[str]:
    grounds = [
        f"{counted(exposure.requests_judged, 'judged request')} of {counted(exposure.units_judged, 'workload')} over "
        f"{span(exposure.days_span)} and {counted(exposure.weekdays, 'weekday')}; "
        f"{counted(denials.units, 'workload')} would have been denied",
        f"with {rules.confidence:.0%} confidence fewer than {denials.unit_rate_upper:.1%} of workloads and "
        f"{denials.user_rate_upper:.1%} of users like these would be denied",
    ]
    if latent.is_assessed:
        grounds.append(
            f"of {counted(latent.objects, 'object')} and {counted(latent.templates, 'pod template')} not written in the window, "
            f"{latent.objects_denied + latent.templates_denied:,} would be denied and "
            f"{latent.objects_unknown + latent.templates_unknown:,} are unknown"
        )
    if not fidelity.is_compared:
        grounds.append("the replay was not compared with the recorded outcomes, so its agreement is unknown")
    elif fidelity.agreement is None:
        grounds.append("the log recorded no outcome on these resources, so the agreement of the replay is unknown")
    else:
        grounds.append(f"the replay agrees with {fidelity.agreed:,} of {fidelity.compared:,} recorded outcomes on these resources")
    return grounds


def span(days: float) -> str:
    """A duration in words: `18.0 days`, `5.2 hours`, `4.6 minutes`, `12 seconds`."""
    for unit, per_day in (("days", 1), ("hours", 24), ("minutes", 24 * 60)):
        if days * per_day >= 1:
            return f"{days * per_day:.1f} {unit}"
    return f"{days * 86_400:.0f} seconds"
