"""From figures to a verdict. A pure function: the same figures under the same rules give the same words."""

from __future__ import annotations

from .model import Denials, Exposure, Fidelity, Status
from .rules import ReadinessRules


def decide(exposure: Exposure, denials: Denials, fidelity: Fidelity, rules: ReadinessRules) -> tuple[Status, tuple[str, ...]]:
    """The verdict and its reasons in plain words, the deciding ones first.

    A would-be denial decides against the policy however thin the evidence is; a clean replay decides for it only when the evidence
    carries it. Fidelity that is not known is said, but does not by itself withhold READY: a policy that was never bound has none.
    """
    if exposure.requests_matched == 0:
        return Status.INSUFFICIENT_EVIDENCE, ("no recorded request matched this policy, so the replay says nothing about it",)
    against = [*_denial_reasons(denials, exposure, rules)]
    if against:
        return Status.NOT_READY, (*against, *_evidence_gaps(exposure, fidelity, rules))
    gaps = _evidence_gaps(exposure, fidelity, rules)
    if gaps:
        return Status.INSUFFICIENT_EVIDENCE, tuple(gaps)
    return Status.READY, tuple(_grounds(exposure, denials, fidelity, rules))


def _denial_reasons(denials: Denials, exposure: Exposure, rules: ReadinessRules) -> list[str]:
    if denials.units <= rules.denied_units_max:
        return []
    share = denials.requests / exposure.requests_judged if exposure.requests_judged else 1.0
    reasons = [
        f"{denials.requests:,} of {exposure.requests_judged:,} judged requests ({share:.1%}) would have been denied, "
        f"from {_count(denials.units, 'workload')}, {_count(denials.users, 'user')} and {_count(denials.namespaces, 'namespace')}"
    ]
    if denials.last_ts is not None:
        reasons.append(f"the last would-be denial was {denials.days_clean:.1f} days before the end of the matched traffic")
    return reasons


def _evidence_gaps(exposure: Exposure, fidelity: Fidelity, rules: ReadinessRules) -> list[str]:
    gaps = []
    if exposure.units_judged < rules.matched_units_min:
        gaps.append(f"only {_count(exposure.units_judged, 'workload')} judged, {rules.matched_units_min} wanted")
    if exposure.days_span < rules.days_min:
        gaps.append(f"the matched traffic spans {exposure.days_span:.1f} days, {rules.days_min:g} wanted")
    if exposure.unknown_share > rules.unknown_share_max:
        gaps.append(
            f"{exposure.requests_unknown:,} of {exposure.requests_matched:,} matched requests ({exposure.unknown_share:.1%}) "
            f"could not be judged, at most {rules.unknown_share_max:.0%} wanted"
        )
    agreement = fidelity.agreement
    if agreement is not None and agreement < rules.agreement_min:
        gaps.append(
            f"the replay agrees with {fidelity.agreed:,} of {fidelity.compared:,} recorded outcomes of this policy "
            f"({agreement:.1%}), {rules.agreement_min:.0%} wanted"
        )
    return gaps


def _grounds(exposure: Exposure, denials: Denials, fidelity: Fidelity, rules: ReadinessRules) -> list[str]:
    grounds = [
        f"{exposure.requests_judged:,} judged requests of {_count(exposure.units_judged, 'workload')} over "
        f"{exposure.days_span:.1f} days; {_count(denials.units, 'workload')} would have been denied",
        f"with {rules.confidence:.0%} confidence fewer than {denials.unit_rate_upper:.1%} of workloads like these would be denied",
    ]
    if fidelity.agreement is None:
        grounds.append("the log recorded no outcome of this policy, so the replay's fidelity for it is not known")
    else:
        grounds.append(f"the replay agrees with {fidelity.agreed:,} of {fidelity.compared:,} recorded outcomes of this policy")
    return grounds


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
