"""The ledger of a watch: what each (policy, binding) came to so far, small enough to keep, and the same whatever comes twice.

Counts are kept by stretch of time, so that a stretch which is replayed again replaces what was counted of it before.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from .bounds import upper_bound
from .model import Denials, Exposure, Fidelity, Status
from .rules import ReadinessRules
from .verdict import decide

STRETCH = timedelta(minutes=10)
# Five weeks; what is older is only summed up, and no longer replayed when events of that time come late.
STRETCHES_MAX = 5_040
# Of the workloads of one policy; beyond, their number is a lower bound.
UNITS_MAX = 100_000

Row = Mapping[str, Any]


@dataclass
class Account:
    """One (policy, binding). `stretches` has requests by outcome (admit, deny, unknown) of each stretch of time."""

    stretches: dict[str, dict[str, int]] = field(default_factory=dict)
    earlier: dict[str, int] = field(default_factory=dict)
    weekdays: set[int] = field(default_factory=set)
    units: set[str] = field(default_factory=set)
    denied_units: set[str] = field(default_factory=set)
    first_ts: datetime | None = None
    last_ts: datetime | None = None

    def forget(self, stretches: Iterable[str]) -> None:
        """Take out what was counted of some stretches, because they have been replayed again."""
        for stretch in stretches:
            self.stretches.pop(stretch, None)

    def add(self, row: Row) -> None:
        """Count one row of sql/watch_judged.sql."""
        counts = self.stretches.setdefault(row["stretch"].isoformat(), {})
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["requests"]
        unit = hashlib.sha256(row["unit"].encode()).hexdigest()[:16]
        if row["outcome"] != "unknown" and len(self.units) < UNITS_MAX:
            self.units.add(unit)
            self.weekdays.add(row["first_ts"].weekday())
        if row["outcome"] == "deny" and len(self.denied_units) < UNITS_MAX:
            self.denied_units.add(unit)
        self.first_ts = min(self.first_ts or row["first_ts"], row["first_ts"])
        self.last_ts = max(self.last_ts or row["last_ts"], row["last_ts"])

    def fold(self, stretches: Iterable[str]) -> None:
        """Only sum up some stretches from now on."""
        for stretch in stretches:
            for outcome, requests in self.stretches.pop(stretch, {}).items():
                self.earlier[outcome] = self.earlier.get(outcome, 0) + requests

    @property
    def requests(self) -> Counter[str]:
        """Requests by outcome."""
        total = Counter(self.earlier)
        for counts in self.stretches.values():
            total.update(counts)
        return total

    @property
    def unknown_share(self) -> float:
        """Share of the matched requests that have no verdict."""
        requests = self.requests
        return requests["unknown"] / requests.total() if requests.total() else 0.0

    def decide(self, fidelity: Fidelity, rules: ReadinessRules) -> tuple[Status, tuple[str, ...]]:
        """The verdict by a report's rules, on the figures that are kept here: without users, releases and latent violations."""
        requests = self.requests
        span = (self.last_ts - self.first_ts).total_seconds() / 86_400 if self.last_ts and self.first_ts else 0.0
        exposure = Exposure(
            requests_matched=requests.total(),
            requests_judged=requests["admit"] + requests["deny"],
            requests_unknown=requests["unknown"],
            units_judged=len(self.units),
            days_span=span,
            weekdays=len(self.weekdays),
            first_ts=self.first_ts,
            last_ts=self.last_ts,
        )
        denied = len(self.denied_units)
        denials = Denials(
            requests=requests["deny"],
            units=denied,
            unit_rate_upper=upper_bound(denied, max(len(self.units), denied), rules.confidence),
        )
        return decide(exposure, denials, fidelity, rules)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "stretches": self.stretches,
            "earlier": self.earlier,
            "weekdays": sorted(self.weekdays),
            "units": sorted(self.units),
            "denied_units": sorted(self.denied_units),
            "first_ts": self.first_ts.isoformat() if self.first_ts else None,
            "last_ts": self.last_ts.isoformat() if self.last_ts else None,
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Account:
        """Read what `document` gave."""
        first, last = document["first_ts"], document["last_ts"]
        return cls(
            stretches=document["stretches"],
            earlier=document["earlier"],
            weekdays=set(document["weekdays"]),
            units=set(document["units"]),
            denied_units=set(document["denied_units"]),
            first_ts=datetime.fromisoformat(first) if first else None,
            last_ts=datetime.fromisoformat(last) if last else None,
        )
