"""Manifests that would keep newly denied requests working: what a verdict makes of them once they were replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingest.counted import counted

from ..stages.readiness import Remedy, RemedyPart
from .exempting.measures import Exemption, ExemptionKind
from .model import PolicyReadiness, Status
from .rules import ReadinessRules
from .verdict import with_exemptions

_ADVICE_SHOWN = 5


@dataclass(frozen=True)
class Tried:
    """A remedy that was replayed: how many requests are denied newly even with it."""

    remedy: Remedy[Any]
    still_denied: int


def with_remedy(entry: PolicyReadiness, tried: Tried, rules: ReadinessRules) -> PolicyReadiness:
    """The verdict with the manifests that would keep requests working, if they are few and a replay denies nothing new."""
    parts = [part for part in tried.remedy.parts if part.policy == entry.policy]
    if not parts or entry.status is not Status.NOT_READY:
        return entry
    if tried.remedy.relaxes:
        return replace(entry, reasons=(*entry.reasons, *_advice(parts, tried)))
    if tried.still_denied:
        reason = f"even with the missing rights given back, {counted(tried.still_denied, 'request')} would be denied"
        return replace(entry, reasons=(*entry.reasons, reason))
    if len(parts) > rules.exemptions_max:
        reason = f"{len(parts):,} more manifests would keep everybody working, at most {rules.exemptions_max} wanted"
        return replace(entry, reasons=(*entry.reasons, reason))
    return with_exemptions(entry, [_exemption(each) for each in parts], rules)


def _advice(parts: Sequence[RemedyPart], tried: Tried) -> Iterator[str]:
    """What would have to be relaxed, the most requests first, and what a replay without it says."""
    for part in parts[:_ADVICE_SHOWN]:
        yield f"{part.subject}: {part.reason} ({part.requests:,})"
    if len(parts) > _ADVICE_SHOWN:
        yield f"{len(parts) - _ADVICE_SHOWN:,} more parts refuse recorded requests"
    things = len(tried.remedy.parts)
    if not tried.still_denied:
        yield f"without {_all(things)}, no request is newly refused"
    else:
        still = counted(tried.still_denied, "request is", "requests are")
        yield f"without {_all(things)}, {still} still refused"


def _all(things: int) -> str:
    return {1: "this", 2: "both of these"}.get(things, f"all {things:,} of these")


def _exemption(part: RemedyPart) -> Exemption:
    """Manifests that keep requests working, in the form of an exemption: they take these requests out of the change."""
    first = part.manifests[0]
    return Exemption(
        ExemptionKind.SUBJECT,
        part.subject,
        f"{first['kind']}/{first['metadata']['name']}",
        first,
        hides_requests=part.requests,
        denied_requests=part.requests,
        reason=part.reason,
    )
