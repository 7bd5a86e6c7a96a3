"""From figures to a verdict. A pure function: the same figures under the same rules give the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .measures import Exemption
from .model import CriticalKind, Denials, Exposure, Fidelity, Latent, PolicyReadiness, Status
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
) -> tuple[Status, tuple[str, ...]]:
    """The verdict without exemptions, and its reasons in plain words, the deciding ones first.

    `critical` counts the denied requests of critical subjects, by kind and name, in the order in which they are told.

    A would-be denial decides against the policy however thin the evidence is; a clean replay decides for it only when the evidence
    carries it. Fidelity that is not known is said, but does not by itself withhold READY: a policy that was never bound has none.
    """
    against = [
        *_critical_reasons(critical, rules),
        *_denial_reasons(denials, exposure, rules),
        *_latent_reasons(latent, rules),
    ]
    if exposure.requests_matched == 0:
        silence = "no recorded request matched this policy, so the replay says nothing about it"
        return (Status.NOT_READY, (*against, silence)) if against else (Status.INSUFFICIENT_EVIDENCE, (silence,))
    gaps = _evidence_gaps(exposure, fidelity, rules)
    excused = _excused(exposure)
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
    return decide(entry.exposure, entry.denials, entry.fidelity, rules, hit, entry.latent)


def with_exemptions(entry: PolicyReadiness, exemptions: Sequence[Exemption], rules: ReadinessRules) -> PolicyReadiness:
    """The readiness of a policy under exemptions with which its replay is clean, or unchanged where there are none.

    Exemptions take away would-be denials, not gaps in the evidence and not what exists without having been tried: NOT READY becomes
    READY WITH EXEMPTIONS only where denials of requests were all that stood against it.
    """
    if not exemptions or entry.status is not Status.NOT_READY:
        return entry
    gaps = _evidence_gaps(entry.exposure, entry.fidelity, rules)
    latent = _latent_reasons(entry.latent, rules)
    if latent:
        return replace(entry, exemptions=tuple(exemptions))
    requests = sum(exemption.hides_requests for exemption in exemptions)
    if gaps:
        reason = f"{_count(len(exemptions), 'exemption')} would make the replay clean, but the evidence does not carry a verdict"
        return replace(entry, exemptions=tuple(exemptions), reasons=(*entry.reasons, reason))
    reason = (
        f"with {_count(len(exemptions), 'exemption')} the replay is clean; they take {_count(requests, 'request')} "
        "out of the policy's sight"
    )
    reasons = (reason, *entry.reasons)
    return replace(entry, status=Status.READY_WITH_EXEMPTIONS, exemptions=tuple(exemptions), reasons=reasons)


def _critical_reasons(critical: Mapping[tuple[CriticalKind, str], int], rules: ReadinessRules) -> list[str]:
    if sum(critical.values()) <= rules.critical_denied_max:
        return []
    shown = [f"{kind} {subject} ({_count(denied, 'request')})" for (kind, subject), denied in list(critical.items())[:3]]
    more = f" and {len(critical) - 3:,} more" if len(critical) > 3 else ""
    return [f"critical subjects would have been denied: {', '.join(shown)}{more}"]


def _denial_reasons(denials: Denials, exposure: Exposure, rules: ReadinessRules) -> list[str]:
    if denials.units <= rules.denied_units_max:
        return []
    share = denials.requests / exposure.requests_judged if exposure.requests_judged else 1.0
    reasons = [
        f"{denials.requests:,} of {exposure.requests_judged:,} judged requests ({share:.1%}) would have been denied, "
        f"from {_count(denials.units, 'workload')}, {_count(denials.users, 'user')} and {_count(denials.namespaces, 'namespace')}"
    ]
    if denials.last_ts is not None:
        reasons.append(
            f"the last would-be denial was {denials.days_clean:.1f} days before the end of the matched traffic; since then "
            f"{_count(denials.requests_clean, 'request')} of {_count(denials.units_clean, 'workload')} passed"
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
            f"{latent.objects_denied:,} of {_count(latent.objects, 'object')} that exist and were not written in the window would "
            "be denied when they are written next"
        )
    if latent.templates_denied:
        reasons.append(
            f"{latent.templates_denied:,} of {_count(latent.templates, 'pod template')} that exist would have their next Pod denied"
        )
    return reasons


def _evidence_gaps(exposure: Exposure, fidelity: Fidelity, rules: ReadinessRules) -> list[str]:
    gaps = []
    if exposure.units_judged < rules.matched_units_min:
        gaps.append(f"only {_count(exposure.units_judged, 'workload')} judged, {rules.matched_units_min} wanted")
    if exposure.days_span < rules.days_min:
        gaps.append(f"the matched traffic spans {exposure.days_span:.1f} days, {rules.days_min:g} wanted")
    if exposure.weekdays < rules.weekdays_min:
        gaps.append(f"only {_count(exposure.weekdays, 'weekday')} with judged requests, {rules.weekdays_min} wanted")
    if exposure.release_cycles < rules.release_cycles_min:
        gaps.append(f"only {_count(exposure.release_cycles, 'release cycle')} seen, {rules.release_cycles_min} wanted")
    if exposure.unknown_share > rules.unknown_share_max:
        gaps.append(
            f"{exposure.requests_unknown:,} of {exposure.requests_matched:,} matched requests ({exposure.unknown_share:.1%}) "
            f"could not be judged, at most {rules.unknown_share_max:.0%} wanted"
        )
    for agreement, agreed, compared, whose in (
        (fidelity.agreement, fidelity.agreed, fidelity.compared, "on this policy's resources"),
        (fidelity.own_agreement, fidelity.own_agreed, fidelity.own_compared, "of this policy"),
    ):
        if agreement is not None and agreement < rules.agreement_min:
            gaps.append(
                f"the replay agrees with {agreed:,} of {compared:,} recorded outcomes {whose} ({agreement:.1%}), "
                f"{rules.agreement_min:.0%} wanted"
            )
    return gaps


def _excused(exposure: Exposure) -> list[str]:
    """That a policy would deny nobody, but does nothing either, where its expressions fail."""
    if not exposure.requests_excused:
        return []
    return [
        f"of {exposure.requests_excused:,} of {exposure.requests_judged:,} judged requests the evaluation failed, and "
        "failurePolicy Ignore let them pass: the policy does nothing for them"
    ]


def _grounds(exposure: Exposure, denials: Denials, fidelity: Fidelity, latent: Latent, rules: ReadinessRules) -> list[str]:
    grounds = [
        f"{exposure.requests_judged:,} judged requests of {_count(exposure.units_judged, 'workload')} over "
        f"{exposure.days_span:.1f} days and {_count(exposure.weekdays, 'weekday')}; "
        f"{_count(denials.units, 'workload')} would have been denied",
        f"with {rules.confidence:.0%} confidence fewer than {denials.unit_rate_upper:.1%} of workloads and "
        f"{denials.user_rate_upper:.1%} of users like these would be denied",
    ]
    if latent.is_assessed:
        grounds.append(
            f"of {_count(latent.objects, 'object')} and {_count(latent.templates, 'pod template')} that exist without having been "
            f"tried, {latent.objects_denied + latent.templates_denied:,} would be denied and "
            f"{latent.objects_unknown + latent.templates_unknown:,} cannot be judged"
        )
    if fidelity.agreement is None:
        grounds.append("the log recorded no outcome of any policy on these resources, so the replay's fidelity is not known")
    else:
        grounds.append(
            f"the replay agrees with {fidelity.agreed:,} of {fidelity.compared:,} recorded outcomes on this policy's resources"
        )
    return grounds


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
