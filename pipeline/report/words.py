"""How the renderers word numbers and names, in one place so that no two reports differ."""

from __future__ import annotations

from datetime import datetime

from pipeline.readiness.model import Owner, PolicyReadiness


def day(ts: datetime | None) -> str:
    """`2026-11-21 03:24 UTC`, or `no time` where there is none."""
    return "no time" if ts is None else ts.strftime("%Y-%m-%d %H:%M UTC")


def percent(share: float) -> str:
    """`99.4 %`; never rounds up to 100 % nor down to 0 %, because the last request is the one that matters."""
    if 0.999 <= share < 1.0:
        return "> 99.9 %"
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    return f"{share * 100:.3g} %"


def policy_name(entry: PolicyReadiness) -> str:
    """`policy` or `policy / binding`."""
    return f"{entry.policy} / {entry.binding}" if entry.binding else entry.policy


def workload(owner: Owner) -> str:
    """`Deployment/cart (pods)`: the root owner, and the resource of the requests where that is another."""
    return owner.unit if owner.unit.startswith(f"{owner.resource}/") else f"{owner.unit} ({owner.resource})"
