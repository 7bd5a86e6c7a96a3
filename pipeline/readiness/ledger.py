"""The ledger of a watch: the counts of each (policy, binding) so far. It is small, and a replayed stretch does not count twice.

Counts are kept by stretch of time: when a stretch is replayed again, its new counts replace the old ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self

from .counting.bounds import upper_bound
from .model import CriticalKind, Denials, Exposure, Fidelity, Status
from .rules import ReadinessRules
from .verdict import decide

STRETCH = timedelta(minutes=10)
# Five weeks. Older stretches are only summed up, and are not replayed when late events of that time arrive.
STRETCHES_MAX = 5_040
# How many workloads, and how many users, of one policy are kept; above this, their number is a lower bound.
NAMES_MAX = 100_000
NO_RELEASES = "a watch counts no release cycles, and the rules want some: `hindcast readiness` does"

Row = Mapping[str, Any]


@dataclass
class Tally:
    """The counts of a stretch of time: requests by outcome, and the subjects hit. `critical` counts the denied by (kind, subject).

    `excused` requests passed only because an error was ignored. For `over_cost` requests a cost limit ended the evaluation.
    """

    requests: Counter[str] = field(default_factory=Counter)
    excused: int = 0
    over_cost: int = 0
    units: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    critical: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Count one row of sql/watch_judged.sql."""
        self.requests[row["outcome"]] += row["requests"]
        self.excused += row["excused"]
        if row["outcome"] == "deny":
            _add(self.units, _unit(row))
            _add(self.users, _digest(row["user_name"]))
            _add(self.namespaces, row["namespace"])
            if row["critical"] is not None:
                self.critical[row["critical"], row["critical_subject"]] += row["requests"]

    def merge(self, other: Self) -> None:
        """Add the counts of another tally."""
        self.requests.update(other.requests)
        self.excused += other.excused
        self.over_cost += other.over_cost
        if not other.units:
            return  # nothing was denied
        self.critical.update(other.critical)
        for mine, others in ((self.units, other.units), (self.users, other.users), (self.namespaces, other.namespaces)):
            for name in others:
                _add(mine, name)

    def document(self) -> dict[str, Any]:
        """As JSON values, without empty counts: most stretches have no denial."""
        whole = {
            "requests": dict(self.requests),
            "excused": self.excused,
            "over_cost": self.over_cost,
            "units": sorted(self.units),
            "users": sorted(self.users),
            "namespaces": sorted(self.namespaces),
            "critical": [[*key, count] for key, count in sorted(self.critical.items())],
        }
        return {name: value for name, value in whole.items() if value}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the output of `document`."""
        return cls(
            requests=Counter(document.get("requests", {})),
            excused=document.get("excused", 0),
            over_cost=document.get("over_cost", 0),
            units=set(document.get("units", ())),
            users=set(document.get("users", ())),
            namespaces=set(document.get("namespaces", ())),
            critical=Counter({(kind, subject): count for kind, subject, count in document.get("critical", ())}),
        )


@dataclass(frozen=True)
class Figures:
    """The figures that a report's rules decide on. `critical` counts denied requests by (kind, subject)."""

    exposure: Exposure
    denials: Denials
    critical: Mapping[tuple[CriticalKind, str], int]

    def decide(self, fidelity: Fidelity, rules: ReadinessRules) -> tuple[Status, tuple[str, ...]]:
        """The verdict by a report's rules. It leaves out releases and latent violations, because the ledger does not keep these."""
        counted = replace(rules, release_cycles_min=0)
        status, reasons = decide(self.exposure, self.denials, fidelity, counted, self.critical)
        if not rules.release_cycles_min:
            return status, reasons
        if status is Status.READY:
            return Status.INSUFFICIENT_EVIDENCE, (NO_RELEASES,)
        return status, (*reasons, NO_RELEASES)


@dataclass
class Account:
    """One (policy, binding): a tally of each stretch of time, one of the time before, and all judged workloads and users."""

    stretches: dict[str, Tally] = field(default_factory=dict)
    earlier: Tally = field(default_factory=Tally)
    weekdays: set[int] = field(default_factory=set)
    units: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    first_ts: datetime | None = None
    last_ts: datetime | None = None

    def forget(self, stretches: Iterable[str]) -> None:
        """Remove the counts of some stretches, because they have been replayed again."""
        for stretch in stretches:
            self.stretches.pop(stretch, None)

    def add(self, row: Row) -> None:
        """Count one row of sql/watch_judged.sql."""
        self.stretches.setdefault(row["stretch"].isoformat(), Tally()).add(row)
        if row["outcome"] != "unknown":
            _add(self.units, _unit(row))
            _add(self.users, _digest(row["user_name"]))
            self.weekdays.add(row["first_ts"].weekday())
        self.first_ts = min(self.first_ts or row["first_ts"], row["first_ts"])
        self.last_ts = max(self.last_ts or row["last_ts"], row["last_ts"])

    def add_over_cost(self, row: Row) -> None:
        """Count one row of sql/watch_over_cost.sql."""
        self.stretches.setdefault(row["stretch"].isoformat(), Tally()).over_cost += row["requests"]

    def fold(self, stretches: Iterable[str]) -> None:
        """Merge some stretches into the sum of the time before."""
        for stretch in stretches:
            self.earlier.merge(self.stretches.pop(stretch, Tally()))

    @property
    def total(self) -> Tally:
        """The tally of the whole time."""
        total = Tally()
        for tally in (self.earlier, *self.stretches.values()):
            total.merge(tally)
        return total

    def figures(self, confidence: float) -> Figures:
        """The figures for the verdict, as far as the ledger keeps them: without releases, times of denials and trend."""
        total = self.total
        requests, units, users = total.requests, len(total.units), len(total.users)
        exposure = Exposure(
            requests_matched=requests.total(),
            requests_judged=requests["admit"] + requests["deny"],
            requests_unknown=requests["unknown"],
            requests_excused=total.excused,
            requests_over_cost=total.over_cost,
            units_judged=len(self.units),
            users_judged=len(self.users),
            days_span=(self.last_ts - self.first_ts).total_seconds() / 86_400 if self.last_ts and self.first_ts else 0.0,
            weekdays=len(self.weekdays),
            first_ts=self.first_ts,
            last_ts=self.last_ts,
        )
        denials = Denials(
            requests=requests["deny"],
            units=units,
            users=users,
            namespaces=len(total.namespaces),
            unit_rate_upper=upper_bound(units, max(len(self.units), units), confidence),
            user_rate_upper=upper_bound(users, max(len(self.users), users), confidence),
        )
        return Figures(exposure, denials, {(CriticalKind(kind), name): n for (kind, name), n in total.critical.most_common()})

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "stretches": {stretch: tally.document() for stretch, tally in self.stretches.items()},
            "earlier": self.earlier.document(),
            "weekdays": sorted(self.weekdays),
            "units": sorted(self.units),
            "users": sorted(self.users),
            "first_ts": self.first_ts.isoformat() if self.first_ts else None,
            "last_ts": self.last_ts.isoformat() if self.last_ts else None,
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the output of `document`."""
        first, last = document["first_ts"], document["last_ts"]
        return cls(
            stretches={stretch: Tally.of_document(tally) for stretch, tally in document["stretches"].items()},
            earlier=Tally.of_document(document["earlier"]),
            weekdays=set(document["weekdays"]),
            units=set(document["units"]),
            users=set(document["users"]),
            first_ts=datetime.fromisoformat(first) if first else None,
            last_ts=datetime.fromisoformat(last) if last else None,
        )


def _unit(row: Row) -> str:
    return _digest("\0".join((row["cluster"], row["namespace"], row["unit"])))


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _add(names: set[str], name: str) -> None:
    if len(names) < NAMES_MAX:
        names.add(name)
