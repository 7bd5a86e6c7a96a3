"""One cluster of a fleet: its identity, its report, and what it has recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from ingest.errors import EvidenceError, HindcastError
from queries import LakeReader
from queries.identity import REMEDY, cluster_uids, server_minors

from ..cel.minors import DEFAULT
from ..manifests.files import manifests_of
from ..readiness.judging import Judgement, Place, judge_there, wanted_of
from ..readiness.model import PolicyReadiness
from ..readiness.report import Report
from ..requests.kept.facts import facts_of
from ..requests.kept.whole import mixed_names_of
from ..runs import RunKind
from ..stages.registry import STAGES
from ..stages.stage import Asked
from .model import FleetCell, FleetCluster
from .question import Question

_IN_WINDOW = """
    SELECT count(*), min(ts), max(ts) FROM events
    WHERE ts >= coalesce($since, '-infinity'::TIMESTAMPTZ) AND ts < coalesce($until, 'infinity'::TIMESTAMPTZ)"""

Step = Callable[[int, int], None]
# Gets the name of a cluster and the reports on it, to keep them next to their runs.
Judged = Callable[[str, Judgement], None]


def judge_cluster(
    lake: Path, reader: LakeReader, cluster: str, question: Question, workers: int, step: Step | None, judged: Judged
) -> FleetCluster:
    """Judge one cluster that a reader sees alone. What cannot be judged is said in `apart`, with the reason."""
    found = described(reader, cluster, question)
    if found.apart:
        return found
    asked = Asked(question.window, version_of(found), question.other_authorizers, question.replaces_all)
    place = Place(lake, workers, reader, step, RunKind.FLEET)
    try:
        judgement = judge_there(place, question.manifests, asked, wanted_of(question.rules, question.compares, question.remedies))
    except EvidenceError as error:
        return _apart(found, str(error))
    judged(cluster, judgement)
    return FleetCluster(
        cluster=cluster,
        uid=found.uid,
        kubernetes_version=found.kubernetes_version,
        minors=found.minors,
        events=found.events,
        first_ts=found.first_ts,
        last_ts=found.last_ts,
        cells=tuple(_cell(entry, judgement.runs[entry.stage].run_id) for entry in judgement.report.policies),
        caveats=found.caveats,
        recorded=_recorded(reader, cluster, question, found.last_ts),
        mix=mix_of(reader, judgement.report),
    )


def described(reader: LakeReader, cluster: str, question: Question) -> FleetCluster:
    """A cluster before it is judged: its identity, version and extent, and why it cannot be judged, if so."""
    events, first, last = reader.connection.execute(_IN_WINDOW, question.window.parameters).fetchall()[0]
    minors = server_minors(reader)
    version, caveats = _judged_as(question, [each.minor for each in minors])
    if len(minors) > 1:
        caveats = (f"its API servers were of {' and '.join(each.minor for each in minors)}: it is judged as {version}", *caveats)
    found = FleetCluster(
        cluster=cluster,
        uid=cluster_uids(reader).get(cluster, ""),
        kubernetes_version=version,
        minors=tuple(each.minor for each in minors),
        events=events,
        first_ts=first,
        last_ts=last,
        caveats=caveats,
    )
    if mixed := mixed_names_of(reader).get(cluster):
        return _apart(found, f"{mixed}; {REMEDY}")
    if not events:
        return _apart(found, "it has no request in the window")
    return found


def refused(cluster: str, error: HindcastError) -> FleetCluster:
    """A cluster whose events could not be read or judged."""
    return FleetCluster(cluster, f"{error.message}; {error.hint}" if error.hint else error.message)


def _apart(found: FleetCluster, why: str) -> FleetCluster:
    values = {name: getattr(found, name) for name in ("cluster", "uid", "kubernetes_version", "minors", "events", "caveats")}
    return FleetCluster(**values, apart=why, first_ts=found.first_ts, last_ts=found.last_ts)


def _judged_as(question: Question, minors: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """The version by which a cluster is judged, and a caveat where the log does not show it."""
    if question.kubernetes_version is not None:
        return ".".join(map(str, question.kubernetes_version)), ()
    found = sorted(minors, key=_numbers)
    if found:
        return found[-1], ()
    newest = ".".join(map(str, DEFAULT))
    return newest, (f"its log does not show the version of its API servers: it is judged as {newest}",)


def version_of(found: FleetCluster) -> tuple[int, int]:
    """The minor version by which a cluster is judged."""
    return _numbers(found.kubernetes_version)


def _numbers(minor: str) -> tuple[int, int]:
    major, _, number = minor.partition(".")
    return int(major), int(number)


def _cell(entry: PolicyReadiness, run_id: str) -> FleetCell:
    exposure, denials = entry.exposure, entry.denials
    return FleetCell(
        policy=entry.policy,
        binding=entry.binding,
        stage=entry.stage,
        status=entry.status,
        reasons=entry.reasons,
        run_id=run_id,
        requests_matched=exposure.requests_matched,
        requests_judged=exposure.requests_judged,
        requests_denied=denials.requests,
        requests_unknown=exposure.requests_unknown,
        units_judged=exposure.units_judged,
        units_denied=denials.units,
        days_span=exposure.days_span,
        unit_rate_upper=denials.unit_rate_upper,
        agreement=entry.fidelity.agreement,
        exemptions=len(entry.exemptions),
    )


def _recorded(reader: LakeReader, cluster: str, question: Question, last: datetime | None) -> dict[str, str]:
    documents, moment = manifests_of(question.texts), last or datetime.max.replace(tzinfo=UTC)
    every = (stage.readiness.in_fleets(reader, cluster, documents, question.window, moment) for stage in STAGES)
    return {name: digest for found in every for name, digest in found.items()}


def mix_of(reader: LakeReader, report: Report) -> dict[str, float]:
    """The share of each resource and operation among the writes of the resources that the manifests matched."""
    resources = {name for entry in report.policies for name in entry.exposure.resources}
    counts: Counter[str] = Counter()
    for file in facts_of(reader).files.values():
        for row in file.classes:
            name = ".".join(part for part in (row["resource"], row["api_group"]) if part)
            name = f"{row['resource']}/{row['subresource']}" if row["subresource"] else name
            if name in resources:
                counts[f"{row['operation']} {name}"] += row["requests"]
    whole = sum(counts.values())
    return {name: count / whole for name, count in sorted(counts.items())} if whole else {}
