"""The readiness of given manifests of any stage: the same figures, rules and words as for policies.

A request counts as denied if the manifests newly deny it: what the cluster refused already is no reason against them. Manifests
that were found to be missing, and with which a replay denies nothing new, are the exemptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingest.counted import counted
from queries import LakeReader

from ..runs import RunStore, RunSummary
from ..stages.readiness import Agreed, Remedy, RemedyPart
from ..stages.stage import Stage
from .against import Base, keep_before, keep_changes, with_changes
from .assess import assess, judge_units
from .build import About, Judged, extent_of, whole_report
from .change import Change
from .counting.owners import find_owners
from .exempting.measures import Exemption, ExemptionKind
from .gaps import with_unknown_reasons
from .model import Fidelity, PolicyReadiness, ResourceAgreement, Status
from .report import PolicySource, Report
from .rules import ReadinessRules
from .verdict import objected, with_exemptions

_ADVICE_SHOWN = 5


@dataclass(frozen=True)
class Tried:
    """A remedy that was replayed: how many requests are denied newly even with it."""

    remedy: Remedy[Any]
    still_denied: int


def fidelity_of(found: Iterable[Agreed]) -> dict[str, Fidelity]:
    """The agreement of a stage with the record, by the judged thing."""
    by_name: dict[str, list[ResourceAgreement]] = {}
    for each in found:
        row = ResourceAgreement(each.policy, each.resource, each.compared, each.agreed, each.unknown)
        by_name.setdefault(each.policy, []).append(row)
    return {name: _summed(rows) for name, rows in by_name.items()}


def _summed(rows: list[ResourceAgreement]) -> Fidelity:
    totals = {name: sum(getattr(row, name) for row in rows) for name in ("compared", "agreed", "unknown")}
    return Fidelity(**totals, own_compared=totals["compared"], own_agreed=totals["agreed"], by_resource=tuple(rows))


def stage_report(
    reader: LakeReader,
    lake: Path,
    stage: Stage[Any, Any],
    about: About,
    summary: RunSummary,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    tried: Tried | None = None,
    places: Iterable[tuple[str, str]] = (),
    base: tuple[Base, Any] | None = None,
    *,
    given: Any = None,
) -> Report:
    """The report on a finished run of a stage. Leaves tables in the reader's connection.

    `fidelity` is the agreement with the record by judged thing; None: not compared. `places` say where each one is written.
    With a `base` and the plan of the run, the verdicts are on the change. `given` are the stage's rules, or None where they are
    not kept.
    """
    connection, counted = reader.connection, stage.readiness.counted
    verdicts = str(RunStore(lake).run(summary.run_id).verdicts)
    if base is not None:
        # A version before may refuse what the cluster refused, or allow it: whole outcomes are compared.
        keep_before(connection, base[0], rules, counted)
        judge_units(connection, verdicts, rules, counted)
        keep_changes(connection, base[1])
    judge_units(connection, verdicts, rules, counted, is_change=True)
    replayed = {
        (entry.policy, entry.binding): entry.actions
        for entry in summary.bindings
        if given is None or stage.readiness.asks_about(given, entry.policy, entry.binding)
    }
    entries = assess(connection, replayed, fidelity, {}, find_owners(reader, rules, None), rules)
    removed: tuple[Change, ...] = ()
    if base is not None:
        entries, removed = with_changes(connection, entries, *base, rules)
    elif tried is not None:
        entries = tuple(_with_remedy(entry, tried, rules) for entry in entries)
    entries = with_unknown_reasons(entries)
    objections = stage.readiness.objections(reader, Path(verdicts), given)
    entries = tuple(objected(entry, objections) for entry in entries)
    judged = Judged(entries, sources=tuple(map(_source, places)), removed=removed)
    report = whole_report(reader, lake, about, summary, rules, judged, extent_of(reader), is_change=base is not None)
    return replace(report, over_time=tuple(stage.readiness.over_time(reader, Path(verdicts), about.window, given)))


def _source(place: tuple[str, str]) -> PolicySource:
    name, (file, _, line) = place[0], place[1].rpartition(":")
    return PolicySource(name, file or line, int(line) if file and line.isdigit() else 1)


def _with_remedy(entry: PolicyReadiness, tried: Tried, rules: ReadinessRules) -> PolicyReadiness:
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
