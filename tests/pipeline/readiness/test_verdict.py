"""Each rule decides on its own, and its reason names the figure and what was wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import InputError
from pipeline.readiness.model import Denials, Exposure, Fidelity, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.verdict import decide

RULES = ReadinessRules()
CLEAN = Exposure(
    requests_matched=900, requests_judged=890, requests_unknown=10, units_judged=60, users=4, namespaces=5, days_span=21
)
NONE = Denials(unit_rate_upper=0.05)
AGREED = Fidelity(compared=100, agreed=100)


def test_a_clean_replay_on_enough_evidence_is_ready() -> None:
    status, reasons = decide(CLEAN, NONE, AGREED, RULES)
    assert status is Status.READY
    assert reasons[1] == "with 95% confidence fewer than 5.0% of workloads like these would be denied"


def test_one_denied_workload_decides_against_it_even_on_thin_evidence() -> None:
    thin = replace(CLEAN, units_judged=1, days_span=0.1)
    status, reasons = decide(thin, Denials(requests=3, units=1, users=1, namespaces=1), AGREED, RULES)
    assert status is Status.NOT_READY
    assert reasons[0] == "3 of 890 judged requests (0.3%) would have been denied, from 1 workload, 1 user and 1 namespace"
    assert "only 1 workload judged, 20 wanted" in reasons


@pytest.mark.parametrize(
    ("exposure", "fidelity", "reason"),
    [
        (replace(CLEAN, units_judged=19), AGREED, "only 19 workloads judged, 20 wanted"),
        (replace(CLEAN, days_span=6.9), AGREED, "the matched traffic spans 6.9 days, 7 wanted"),
        (
            replace(CLEAN, requests_unknown=90),
            AGREED,
            "90 of 900 matched requests (10.0%) could not be judged, at most 5% wanted",
        ),
        (
            CLEAN,
            Fidelity(compared=100, agreed=98),
            "the replay agrees with 98 of 100 recorded outcomes of this policy (98.0%), 99% wanted",
        ),
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
    assert reasons[-1].endswith("fidelity for it is not known")


def test_rules_come_from_a_file_and_bad_ones_are_named(tmp_path: Path) -> None:
    good = tmp_path / "rules.yaml"
    good.write_text("days_min: 3\nconfidence: 0.9\n")
    assert ReadinessRules.load(good) == ReadinessRules(days_min=3, confidence=0.9)
    for text, words in [
        ("day_min: 3", "no readiness rule is named 'day_min'"),
        ("days_min: soon", "'soon', wanted a number"),
        ("- 3", "found list, wanted a mapping"),
        ("a: [", "cannot read readiness rules"),
    ]:
        bad = tmp_path / "bad.yaml"
        bad.write_text(text)
        with pytest.raises(InputError, match=words):
            ReadinessRules.load(bad)
