"""The largest rate that the observations allow: exact (Clopper-Pearson) one-sided bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p


def upper_bound(failures: int, trials: int, confidence: float = 0.95) -> float:
    """The largest failure rate that `failures` out of `trials` independent units does not contradict at `confidence`.

    Exact for the binomial distribution: at the returned rate p, P(at most `failures` in `trials`) = 1 - confidence. With no failure
    this is 1 - (1 - confidence) ** (1 / trials), about 3 / trials. With no trial nothing is excluded: 1.0.
    Units must be independent of each other (workloads, users): retries of one controller are one unit.

    Raises ValueError when failures are not within 0..trials or confidence not within 0..1.
    """
    if not 0 <= failures <= trials:
        raise ValueError(f"failures must be between 0 and trials, got {failures} of {trials}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    if failures == trials:
        return 1.0
    low, high = failures / trials, 1.0
    ways = [lgamma(trials + 1) - lgamma(count + 1) - lgamma(trials - count + 1) for count in range(failures + 1)]
    # 60 halvings of an interval below 1 end far below any rate that a report prints.
    for _ in range(60):
        middle = (low + high) / 2
        if _is_likelier(1.0 - confidence, ways, trials, middle):
            low = middle
        else:
            high = middle
    return high


def _is_likelier(chance: float, ways: Sequence[float], trials: int, rate: float) -> bool:
    """Whether P(X < len(ways)) exceeds a chance below 1, for X binomial(trials, rate).

    `ways` has the logarithm of the number of ways to each X. The sum in logarithms does not underflow for large numbers of trials.
    """
    if not 0.0 < rate < 1.0:
        return rate <= 0.0
    yes, no = log(rate), log1p(-rate)
    total = 0.0
    for count, number in enumerate(ways):
        total += exp(number + count * yes + (trials - count) * no)
        if total > chance:  # no later term is negative
            return True
    return False
