"""Each rule decides on its own, and its reason names the figure and the wanted one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.errors import InputError
from pipeline.readiness.counting.trend import trend_of
from pipeline.readiness.exempting.measures import Exemption, ExemptionKind
from pipeline.readiness.model import CriticalKind, Denials, Exposure, Fidelity, Latent, PolicyReadiness, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.verdict import decide, span, with_exemptions

RULES = ReadinessRules()
NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOTHING_LATENT = Latent()
CLEAN = Exposure(
    requests_matched=900, requests_judged=890, requests_unknown=10, units_judged=60, users=4, namespaces=5, days_span=21, weekdays=7
)
NONE = Denials(unit_rate_upper=0.05, user_rate_upper=0.4)
AGREED = Fidelity(compared=100, agreed=100, own_compared=40, own_agreed=40)
DENIED = Denials(requests=3, units=1, users=1, namespaces=1)


def test_a_clean_replay_on_enough_evidence_is_ready() -> None:
    status, reasons = decide(CLEAN, NONE, AGREED, RULES)
    assert status is Status.READY
    assert reasons[1] == "with 95% confidence fewer than 5.0% of workloads and 40.0% of users like these would be denied"


def test_one_denied_workload_decides_against_it_even_on_thin_evidence() -> None:
    thin = replace(CLEAN, units_judged=1, days_span=0.1)
    status, reasons = decide(thin, DENIED, AGREED, RULES)
    assert status is Status.NOT_READY
    assert reasons[0] == "3 of 890 judged requests (0.3%) would have been denied, from 1 workload, 1 user and 1 namespace"
    assert "only 1 workload judged, 20 wanted" in reasons


@pytest.mark.parametrize(
    ("exposure", "fidelity", "reason"),
    [
        (replace(CLEAN, units_judged=19), AGREED, "only 19 workloads judged, 20 wanted"),
        (replace(CLEAN, days_span=6.9), AGREED, "the matched traffic spans 6.9 days, 7 days wanted"),
        (
            replace(CLEAN, requests_unknown=90),
            AGREED,
            "90 of 900 matched requests (10.0%) are unknown, at most 5% wanted",
        ),
        (
            CLEAN,
            Fidelity(compared=100, agreed=98),
            "the replay agrees with 98 of 100 recorded outcomes on these resources (98.0%), 99% wanted",
        ),
        (
            CLEAN,
            Fidelity(compared=1000, agreed=998, own_compared=10, own_agreed=8),
            "the replay agrees with 8 of 10 recorded outcomes of its own (80.0%), 99% wanted",
        ),
        (replace(CLEAN, weekdays=4), AGREED, "only 4 weekdays with judged requests, 5 wanted"),
    ],
)
def test_each_gap_withholds_ready(exposure: Exposure, fidelity: Fidelity, reason: str) -> None:
    assert decide(exposure, NONE, fidelity, RULES) == (Status.INSUFFICIENT_EVIDENCE, (reason,))


def test_a_policy_that_matched_nothing_is_not_ready_by_silence() -> None:
    status, _ = decide(Exposure(), Denials(), Fidelity(), RULES)
    assert status is Status.INSUFFICIENT_EVIDENCE


def test_unknown_fidelity_is_said() -> None:
    status, reasons = decide(CLEAN, NONE, Fidelity(), RULES)
    assert status is Status.READY
    assert reasons[-1].endswith("so the agreement of the replay is unknown")


def test_release_cycles_are_asked_for_only_by_a_rule() -> None:
    rules = replace(RULES, release_cycles_min=3)
    assert decide(replace(CLEAN, release_cycles=2), NONE, AGREED, rules)[1] == ("only 2 release cycles seen, 3 wanted",)
    assert decide(replace(CLEAN, release_cycles=3), NONE, AGREED, rules)[0] is Status.READY


def test_a_critical_subject_is_not_excused_by_the_number_of_workloads() -> None:
    lenient = replace(RULES, denied_units_max=5)
    node = {(CriticalKind.NODE, "system:node:a"): 3}
    assert decide(CLEAN, DENIED, AGREED, lenient)[0] is Status.READY
    status, reasons = decide(CLEAN, DENIED, AGREED, lenient, node)
    assert status is Status.NOT_READY
    assert reasons[0] == "critical subjects would have been denied: node system:node:a (3 requests)"
    assert decide(CLEAN, DENIED, AGREED, replace(lenient, critical_denied_max=3), node)[0] is Status.READY


def test_what_exists_without_having_been_tried_decides_too() -> None:
    latent = Latent(objects=30, objects_denied=1, templates=8, templates_denied=2, is_assessed=True)
    status, reasons = decide(CLEAN, NONE, AGREED, RULES, latent=latent)
    assert status is Status.NOT_READY
    assert reasons[0].startswith("1 of 30 objects that exist and were not written in the window would be denied")
    assert reasons[1] == "2 of 8 pod templates that exist would have their next Pod denied"
    assert decide(Exposure(), Denials(), Fidelity(), RULES, latent=latent)[0] is Status.NOT_READY
    assert decide(CLEAN, NONE, AGREED, replace(RULES, latent_denied_max=3), latent=latent)[0] is Status.READY


def test_a_trend_is_told_only_where_it_is_one() -> None:
    steady = replace(DENIED, trend=trend_of(100, 4, 100, 6, RULES.trend_p_max))
    rising = replace(DENIED, trend=trend_of(100, 4, 100, 24, RULES.trend_p_max))
    assert not any("rising" in reason for reason in decide(CLEAN, steady, AGREED, RULES)[1])
    found = [reason for reason in decide(CLEAN, rising, AGREED, RULES)[1] if "rising" in reason]
    assert found == ["denied workloads are rising: 4 of 100 in the earlier half of the time, 24 of 100 in the later (p = 5.9e-05)"]


def entry(exposure: Exposure = CLEAN, latent: Latent = NOTHING_LATENT) -> PolicyReadiness:
    status, reasons = decide(exposure, DENIED, AGREED, RULES, latent=latent)
    return PolicyReadiness("p", "b", ("Audit",), status, reasons, exposure, DENIED, AGREED, latent=latent)


def test_exemptions_make_a_policy_ready_only_where_denials_were_all_that_stood_against_it() -> None:
    exemption = Exemption(
        ExemptionKind.NAMESPACE_EXCLUSION, "namespace legacy", "ValidatingAdmissionPolicyBinding/b", hides_requests=7
    )
    found = with_exemptions(entry(), [exemption], RULES)
    assert found.status is Status.READY_WITH_EXEMPTIONS
    assert found.reasons[0] == "with 1 exemption the replay denies nothing; they exempt 7 requests"
    assert with_exemptions(entry(), [], RULES).status is Status.NOT_READY
    thin = with_exemptions(entry(replace(CLEAN, days_span=1)), [exemption], RULES)
    assert (thin.status, thin.exemptions) == (Status.NOT_READY, (exemption,))
    latent = Latent(objects=3, objects_denied=1, is_assessed=True)
    assert with_exemptions(entry(latent=latent), [exemption], RULES).status is Status.NOT_READY


def test_rules_come_from_a_file_and_bad_ones_are_named(tmp_path: Path) -> None:
    good = tmp_path / "rules.yaml"
    good.write_text("days_min: 3\nconfidence: 0.9\n")
    assert ReadinessRules.load(good) == ReadinessRules(days_min=3, confidence=0.9)
    good.write_text("break_glass_users: [root]\n")
    assert ReadinessRules.load(good) == ReadinessRules(break_glass_users=("root",))
    for text, words in [
        ("day_min: 3", "no readiness rule is named 'day_min'"),
        ("days_min: soon", "'soon', wanted a number"),
        ("team_labels: team", "'team', wanted a list of names"),
        ("confidence: 1", "wanted a number between 0 and 1"),
        ("trend_p_max: 0", "wanted a number between 0 and 1"),
        ("denied_units_max: -1", "out of range"),
        ("denied_units_max: 1.5", "wanted a whole number"),
        ("- 3", "found list, wanted a mapping"),
        ("a: [", "is not YAML"),
    ]:
        bad = tmp_path / "bad.yaml"
        bad.write_text(text)
        with pytest.raises(InputError, match=words):
            ReadinessRules.load(bad)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (18.04, "18.0 days"),
        (1.0, "1.0 days"),
        (0.5, "12.0 hours"),
        (4.6 / 1440, "4.6 minutes"),
        (12 / 86_400, "12 seconds"),
        (0.0, "0 seconds"),
    ],
)
def test_a_short_span_is_in_hours_minutes_or_seconds(days: float, words: str) -> None:
    assert span(days) == words
