"""Exemptions: the fewest and narrowest exclusions with which a policy has no would-be denial, and the requests they hide.

The search is in search.py. It is exact for small problems. It weighs the requests that an exclusion hides: one more exclusion
costs as much as one passing workload that would no longer be judged. An unknown request stays unknown under any exemption, and
never counts as clean.

Exemptions that fit the past may not fit later requests. So they are found in the earlier half of the time and tried on the later
half (see ReadinessRules).
"""

from __future__ import annotations

from dataclasses import dataclass

from .exclusions import Exclusion
from .measures import LaterTrial


@dataclass(frozen=True, slots=True)
class Width:
    """The requests that exclusions take out: would-be denials, passing ones, and unknown ones."""

    denied_requests: int = 0
    denied_units: int = 0
    passing_requests: int = 0
    passing_units: int = 0  # workloads without a would-be denial
    unknown_requests: int = 0
    units: int = 0

    @property
    def requests(self) -> int:
        """All requests that are taken out."""
        return self.denied_requests + self.passing_requests + self.unknown_requests

    def __str__(self) -> str:
        text = (
            f"also exempts {_count(self.passing_requests, 'request')} of {_count(self.passing_units, 'workload')} that would pass"
        )
        unknown = f", and {_count(self.unknown_requests, 'request')} that {'is' if self.unknown_requests == 1 else 'are'} unknown"
        return text + (unknown if self.unknown_requests else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """One proposed exclusion and the requests it takes out, over all bindings that it concerns."""

    exclusion: Exclusion
    width: Width


@dataclass(frozen=True)
class Choice:
    """The exclusions for one policy, and `width`, that of all together. `left` counts would-be denials that no exclusion reaches.

    `later` says how the exclusions found in the earlier half of the time did in the later half; None if this was not tried.
    """

    policy: str
    chosen: tuple[Chosen, ...] = ()
    left: int = 0
    width: Width = Width()
    exposed: Width = Width()
    later: LaterTrial | None = None
