"""The upper bound is exact: known values, its defining equation, and its coverage in simulation."""

from __future__ import annotations

import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readiness.counting.bounds import upper_bound


def test_no_failure_in_n_trials_has_a_closed_form() -> None:
    for trials in (1, 3, 20, 59, 1000):
        assert upper_bound(0, trials) == pytest.approx(1 - 0.05 ** (1 / trials), abs=1e-9)


def test_no_trial_excludes_nothing() -> None:
    assert upper_bound(0, 0) == 1.0


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))), st.floats(0.5, 0.999))
def test_at_the_bound_the_tail_is_what_confidence_leaves(case: tuple[int, int], confidence: float) -> None:
    failures, trials = case
    p = upper_bound(failures, trials, confidence)
    tail = sum(comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(failures + 1))
    assert tail == pytest.approx(1 - confidence, abs=1e-6)


def test_the_bound_covers_the_true_rate_as_often_as_it_says() -> None:
    rng = random.Random(7)
    trials, repeats = 40, 4000
    for rate in (0.01, 0.05, 0.2, 0.6):
        bounds = {k: upper_bound(k, trials) for k in range(trials + 1)}
        covered = sum(bounds[sum(rng.random() < rate for _ in range(trials))] >= rate for _ in range(repeats))
        # Clopper-Pearson never covers less than it says; three standard errors of 4,000 draws are 0.0103.
        assert covered / repeats >= 0.95 - 0.0103


@pytest.mark.parametrize(("failures", "trials", "confidence"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0)])
def test_nonsense_is_refused(failures: int, trials: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="must be between"):
        upper_bound(failures, trials, confidence)
