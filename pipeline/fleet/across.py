"""From the clusters of a fleet to its report: worst first, those that cannot be judged apart, and the cluster to begin with.

A statement about the fleet is one about each of its clusters, with their number. Figures of clusters are never added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ingest.counted import counted

from ..readiness.model import Status
from .model import FleetCell, FleetCluster, FleetPolicy, FleetReport, FleetStart
from .question import Question
from .recorded import differences

_READY = (Status.READY, Status.READY_WITH_EXEMPTIONS)
_STARTS_SHOWN = 3
Key = tuple[str, str | None, str]


def fleet_report(question: Question, members: Sequence[FleetCluster], asked_ts: datetime | None) -> FleetReport:
    """The report on all clusters of a fleet."""
    judged = sorted((each for each in members if _is_judged(each)), key=_badness)
    apart = sorted((each for each in members if not _is_judged(each)), key=lambda each: (bool(each.cells), each.cluster))
    typical = _typical(judged)
    policies = [_policy(key, members, judged, typical) for key in _keys(members)]
    return FleetReport(
        title="Fleet readiness",
        fleet_id=question.digest,
        asked_ts=asked_ts,
        rules=question.rules,
        policies=tuple(sorted(policies, key=lambda each: (-len(each.not_ready), each.ready, each.policy, each.binding or ""))),
        clusters=tuple(judged),
        apart=tuple(apart),
        start=_start(judged, typical, None),
        differences=differences(members),
        caveats=tuple(_caveats(members)),
    )


def _is_judged(each: FleetCluster) -> bool:
    return not each.apart and any(cell.status is not Status.INSUFFICIENT_EVIDENCE for cell in each.cells)


def _badness(each: FleetCluster) -> tuple[int, int, int, str]:
    """The order of clusters: most manifests that are not ready first, then most without evidence, then most denied workloads."""
    counts = Counter(cell.status for cell in each.cells)
    denied = sum(cell.units_denied for cell in each.cells)
    return -counts[Status.NOT_READY], -denied, -counts[Status.INSUFFICIENT_EVIDENCE], each.cluster


def _keys(members: Iterable[FleetCluster]) -> list[Key]:
    return sorted({key_of(cell) for each in members for cell in each.cells}, key=lambda key: (key[2], key[0], key[1] or ""))


def key_of(cell: FleetCell) -> Key:
    """What names the manifest of a cell: policy, binding, stage."""
    return cell.policy, cell.binding, cell.stage


def _policy(key: Key, members: Sequence[FleetCluster], judged: Sequence[FleetCluster], typical: Mapping[str, float]) -> FleetPolicy:
    cells = {each.cluster: cell for each in members for cell in each.cells if key_of(cell) == key}
    denying = [name for name, cell in cells.items() if cell.status is Status.NOT_READY]
    bad = sorted(denying, key=lambda name: (_worse(cells[name]), name))
    counts = Counter(cell.status for cell in cells.values())
    return FleetPolicy(
        policy=key[0],
        binding=key[1],
        stage=key[2],
        clusters=len(members),
        ready=counts[Status.READY],
        ready_with_exemptions=counts[Status.READY_WITH_EXEMPTIONS],
        not_ready=tuple(bad),
        unjudged=tuple(
            sorted(
                each.cluster
                for each in members
                if each.cluster not in cells or cells[each.cluster].status is Status.INSUFFICIENT_EVIDENCE
            )
        ),
        start=_start(judged, typical, key),
    )


def _worse(cell: FleetCell) -> tuple[int, int]:
    return -cell.units_denied, -cell.requests_denied


def _typical(judged: Sequence[FleetCluster]) -> dict[str, float]:
    """The mean of the clusters' mixes: each cluster counts once, however many requests it has."""
    mixes = [each.mix for each in judged if each.mix]
    names = {name for mix in mixes for name in mix}
    return {name: sum(mix.get(name, 0.0) for mix in mixes) / len(mixes) for name in sorted(names)}


def distance(mix: Mapping[str, float], typical: Mapping[str, float]) -> float:
    """The share of the requests that would have to be others for one mix to be the other one (total variation)."""
    names = mix.keys() | typical.keys()
    return sum(abs(mix.get(name, 0.0) - typical.get(name, 0.0)) for name in sorted(names)) / 2


def _start(judged: Sequence[FleetCluster], typical: Mapping[str, float], key: Key | None) -> FleetStart:
    """The cluster to begin with: ready without exemptions and without a denial, and the most like the others.

    READY means enough decided requests. With `key` None every manifest has to be ready in it.
    """
    found = []
    for each in judged:
        cells = [cell for cell in each.cells if key is None or key_of(cell) == key]
        if cells and all(cell.status is Status.READY and not cell.requests_denied for cell in cells):
            requests = sum(cell.requests_judged for cell in cells)
            found.append((distance(each.mix, typical), -requests, each.cluster, min(cell.units_judged for cell in cells)))
    if not found:
        return FleetStart("", _nowhere(judged, key))
    ordered = sorted(found)
    away, requests, name, units = ordered[0]
    what = "every manifest is" if key is None else "it is"
    reason = (
        f"{what} ready there without exemptions, over {counted(-requests, 'judged request')} of "
        f"{counted(units, 'workload')} or more that all pass"
    )
    if len(ordered) > 1:
        reason += (
            f"; {1 - away:.0%} of its requests are as in the mean cluster, the most of the "
            f"{counted(len(ordered), 'cluster')} that are ready"
        )
    return FleetStart(name, reason, tuple(entry[2] for entry in ordered[1 : 1 + _STARTS_SHOWN]))


def _nowhere(judged: Sequence[FleetCluster], key: Key | None) -> str:
    if key is not None:
        return "it is ready in no cluster without exemptions"
    best = max(judged, key=lambda each: (sum(cell.status in _READY for cell in each.cells), each.cluster), default=None)
    if best is None:
        return "no cluster can be judged"
    ready = sum(cell.status in _READY for cell in best.cells)
    return f"closest: {best.cluster} ({ready:,} of {len(best.cells):,})"


def _caveats(members: Sequence[FleetCluster]) -> list[str]:
    by_uid: dict[str, list[str]] = {}
    for each in members:
        if each.uid:
            by_uid.setdefault(each.uid, []).append(each.cluster)
    found = [
        f"{' and '.join(names)} have the same namespace kube-system: one cluster under several names, or copies of one; each counts"
        for names in by_uid.values()
        if len(names) > 1
    ]
    unnamed = [each.cluster for each in members if not each.uid]
    if unnamed:
        shown = ", ".join(unnamed[:5]) + (f" and {len(unnamed) - 5:,} more" if len(unnamed) > 5 else "")
        found.append(
            f"the uid of kube-system is not recorded in {shown}: two clusters under one of these names may not be found out; "
            "a snapshot of the namespaces shows it"
        )
    found += [f"{each.cluster}: {caveat}" for each in members for caveat in each.caveats]
    return found
