"""Fisher's exact test: published tables, its symmetry, and how often it cries wolf in simulation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readiness.counting.trend import fisher_exact, trend_of

SMALL = st.integers(0, 30)


@pytest.mark.parametrize(
    ("table", "p"),
    # The lady tasting tea (Fisher 1935), Connolly's twins, and two that can be counted by hand.
    [((3, 1, 1, 3), 34 / 70), ((2, 15, 10, 3), 0.0005367), ((1, 0, 0, 1), 1.0), ((0, 5, 5, 0), 2 / 252)],
)
def test_known_tables(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher_exact(*table) == pytest.approx(p, rel=1e-3)


@given(SMALL, SMALL, SMALL, SMALL)
def test_the_order_of_halves_does_not_matter(a: int, b: int, c: int, d: int) -> None:
    p = fisher_exact(a, b, c, d)
    assert 0.0 < p <= 1.0
    assert p == pytest.approx(fisher_exact(c, d, a, b))
    assert p == pytest.approx(fisher_exact(b, a, d, c))


def test_without_a_trend_it_is_called_one_no_oftener_than_it_says() -> None:
    rng = random.Random(11)
    repeats, called = 2000, 0
    for _ in range(repeats):
        earlier, later = (sum(rng.random() < 0.2 for _ in range(40)) for _ in range(2))
        called += trend_of(40, earlier, 40, later, 0.05).direction in ("rising", "falling")
    # Three standard errors of 2,000 draws at 5 % are 0.0146; the exact test is conservative, so it stays well below.
    assert called / repeats <= 0.05 + 0.0146


def test_directions() -> None:
    assert trend_of(50, 20, 50, 2, 0.05).direction == "falling"
    assert trend_of(50, 2, 50, 20, 0.05).direction == "rising"
    assert trend_of(50, 2, 50, 3, 0.05).direction == "steady"
    assert trend_of(50, 0, 50, 0, 0.05).direction == "none"
    with pytest.raises(ValueError, match="must not be negative"):
        fisher_exact(-1, 2, 3, 4)
