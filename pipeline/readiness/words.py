"""How times and shares are worded, in one place so that no two reports differ."""

from __future__ import annotations

from datetime import datetime


def day(ts: datetime | None) -> str:
    """`2026-11-21 03:24 UTC`, or `no time` without one."""
    return "no time" if ts is None else ts.strftime("%Y-%m-%d %H:%M UTC")


def percent(share: float) -> str:
    """`99.4 %`; never rounds up to 100 % nor down to 0 %, because a single request may matter."""
    if 0.999 <= share < 1.0:
        return "> 99.9 %"
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    return f"{share * 100:.3g} %"
