"""Whether would-be denials get more or fewer: the two halves of the time, compared by Fisher's exact test."""

from __future__ import annotations

from math import exp, lgamma

from ..model import Trend


def trend_of(earlier_judged: int, earlier_denied: int, later_judged: int, later_denied: int, p_max: float) -> Trend:
    """The trend of the share of denied units. A unit that was judged in both halves counts in both.

    `rising` or `falling` where the two shares differ with a p-value below `p_max`, else `steady`; `none` without any denied unit.
    """
    counts = (earlier_judged, earlier_denied, later_judged, later_denied)
    if not earlier_denied + later_denied:
        return Trend("none", *counts)
    p = fisher_exact(earlier_denied, earlier_judged - earlier_denied, later_denied, later_judged - later_denied)
    if p >= p_max:
        return Trend("steady", *counts, p)
    return Trend("rising" if later_denied * earlier_judged > earlier_denied * later_judged else "falling", *counts, p)


def fisher_exact(a: int, b: int, c: int, d: int) -> float:
    """The two-sided p-value of the table ((a, b), (c, d)): the probability of all tables that are at most as likely as this one.

    Raises ValueError for a negative count.
    """
    if min(a, b, c, d) < 0:
        raise ValueError(f"counts must not be negative, got {(a, b, c, d)}")
    row, column, total = a + b, a + c, a + b + c + d
    low, high = max(0, column - (total - row)), min(row, column)

    def log_likelihood(count: int) -> float:
        return _log_choose(row, count) + _log_choose(total - row, column - count) - _log_choose(total, column)

    # Tables whose likelihoods differ by rounding alone count as equally likely.
    seen = log_likelihood(a) + 1e-7
    return min(1.0, sum(exp(each) for count in range(low, high + 1) if (each := log_likelihood(count)) <= seen))


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
