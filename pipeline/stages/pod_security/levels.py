"""For each namespace: the strictest level that would have refused nothing, and what stands in the way of the next one.

Recorded Pods and templates are judged at both levels in one walk, and so are those that a snapshot lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from ingest.counted import counted
from queries import LakeReader

from ...history.event import decode_json
from ...history.kinds import by_resource
from ...history.world import NAMESPACES
from ...request import GroupVersionResource, Unknown
from ...requests.past import snapshot_rows
from ...runs.window import Window
from .checks.changes import CHANGES
from .checks.table import Failed, Level, failed_checks
from .configuration import Configuration
from .given import Given
from .lane import PodRulings
from .policy import LATEST, PREFIX, LevelVersion, Mode, resolve
from .reading import pod_of
from .subject import NAMESPACES as NAMESPACE
from .subject import RESOURCES, template_of
from .walk import Walk

LEVELS = (Level.BASELINE, Level.RESTRICTED)
# Modes that refuse nothing judge Pods and templates alike.
_MODE_OF = {Level.BASELINE: Mode.AUDIT, Level.RESTRICTED: Mode.WARN}
_TRIED = {"enforce": "privileged", **{str(mode): str(level) for level, mode in _MODE_OF.items()}}
# The end of the log: labels change until then.
_LAST = "SELECT cluster, max(ts) FROM events GROUP BY cluster"


class Obstacle(NamedTuple):
    """What a level would refuse: Pods of a workload that fail a check. `detail` is the text of the last one.

    `requests` are recorded ones, `existing` are objects that a snapshot lists.
    """

    cluster: str
    namespace: str
    level: Level
    workload: str
    check: str
    detail: str
    requests: int
    existing: int

    @property
    def field(self) -> str:
        """The field that the check reads."""
        return CHANGES[self.check].field

    @property
    def change(self) -> str:
        """What lets the Pods pass."""
        return CHANGES[self.check].change


class NamespaceLevel(NamedTuple):
    """A namespace. `level` is the strictest one that would have refused nothing; None if no Pod is known.

    `current` is what is enforced at the end of the log; None if that is not known. `advisory` are the levels of `audit` and
    `warn` then, and `recorded` its labels without their prefix (None: not known). `requests` were judged, `unknown` could not be.
    """

    cluster: str
    namespace: str
    current: LevelVersion | None
    level: Level | None
    requests: int
    existing: int
    exempt: int
    unknown: int
    obstacles: Sequence[Obstacle]
    advisory: Mapping[Mode, Level] = MappingProxyType({})
    recorded: Mapping[str, str] | None = None

    @property
    def next(self) -> Level | None:
        """The next stricter level; None after the last."""
        after = -1 if self.level is None else self.level.strictness
        return next((each for each in LEVELS if each.strictness > after), None) if self.level is not None else None

    @property
    def is_sure(self) -> bool:
        """Whether each recorded Pod could be judged."""
        return self.level is not None and not self.unknown

    @property
    def labels(self) -> dict[str, str]:
        """The labels to apply, which refuse nothing that was recorded. Empty where they would say no more than today's.

        `enforce` is the level found, if that is sure and more than today's. `audit` and `warn` are at the next level, as they only
        tell what it would refuse.
        """
        levels: dict[Mode, Level] = {}
        if not self.why:
            assert self.level is not None
            levels[Mode.ENFORCE] = self.level
        further = self._further
        for mode in (Mode.AUDIT, Mode.WARN):
            if levels or further.strictness > self.advisory.get(mode, Level.PRIVILEGED).strictness:
                levels[mode] = further
        return {
            f"{PREFIX}{mode}{ending}": text
            for mode, level in levels.items()
            for ending, text in (("", str(level)), ("-version", LATEST))
        }

    @property
    def written(self) -> dict[str, str]:
        """The labels of a manifest, which takes away what it lacks: those of today's `enforce`, too. Empty if that is not known."""
        if self.current is None or not self.labels:
            return {}
        enforced = f"{PREFIX}{Mode.ENFORCE}"
        kept = {enforced: str(self.current.level), f"{enforced}-version": self.current.version}
        return {**kept, **self.labels}

    @property
    def why(self) -> str:
        """Why the labels do not enforce more than today; empty if they do."""
        if self.level is None:
            return "no Pod of it is known: record the writes of Pods with their bodies, or take in a snapshot"
        if self.unknown:
            return f"the log lacks the Pods of {counted(self.unknown, 'request')}: record the writes of Pods with their bodies"
        if self.current is not None and self.current.level.strictness >= self.level.strictness:
            return f"it enforces {self.current.level} already"
        if self.level is Level.PRIVILEGED:
            return f"{self.next} would refuse Pods of {counted(len({each.workload for each in self.obstacles}), 'workload')}"
        return ""

    @property
    def _further(self) -> Level:
        """The level of `audit` and `warn`: the one after that which is known to refuse nothing."""
        if self.level is not None:
            return self.next or self.level
        known = self.current.level.strictness if self.current is not None else -1
        return next((each for each in LEVELS if each.strictness > known), LEVELS[-1])


_Place = tuple[str, str]


@dataclass
class _Seen:
    """What was found in a namespace."""

    counts: Counter[str] = field(default_factory=Counter)
    # By level, workload and check: the text of the last failure, requests, and existing objects.
    failed: dict[tuple[Level, str, str], tuple[str, int, int]] = field(default_factory=dict)

    def add(self, level: Level, workload: str, failed: Sequence[Failed], requests: int, existing: int) -> None:
        for check, failure in failed:
            _, before, there = self.failed.get((level, workload, check), ("", 0, 0))
            self.failed[level, workload, check] = (str(failure), before + requests, there + existing)


def levels_of(
    reader: LakeReader, configuration: Configuration | None, window: Window, minor: int, asked: Level | None = None
) -> list[NamespaceLevel]:
    """The namespaces of each cluster that exist at the end, by name. It leaves tables in the connection of the reader.

    `obstacles` are those of the level that is `asked` for, or else of the next one.
    """
    walk = Walk(reader, Given({}, configuration), window, minor)
    seen: dict[_Place, _Seen] = {}
    owners: dict[tuple[str, str, str], str] = {}
    for part in walk.collected(Given({}, configuration, _TRIED), with_owners=True):
        for rulings, requests in part.counted():
            assert isinstance(rulings, PodRulings)
            subject = rulings.record.subject
            _count(seen.setdefault((subject.cluster, subject.namespace), _Seen()), rulings, requests, owners)
    _add_existing(reader, window, walk.configuration, minor, seen, owners)
    return sorted(_answers(reader, walk, seen, owners, asked), key=lambda each: (each.cluster, each.namespace))


def _count(seen: _Seen, rulings: PodRulings, requests: int, owners: dict[tuple[str, str, str], str]) -> None:
    """Count so many requests with these rulings. Dry runs and refused requests left no object."""
    by_mode = {each.mode: each for each in rulings}
    record, told = rulings.record, by_mode[Mode.WARN]
    if record.told.code >= 400 or record.is_dry_run:
        seen.counts["refused"] += requests
    elif told.decision == "unknown":
        seen.counts["unknown"] += requests
    elif told.decision == "nomatch":
        seen.counts["exempt"] += requests if told.why.startswith("exempt") else 0
    else:
        seen.counts["requests"] += requests
        place = record.subject.cluster, record.subject.namespace
        workload = _workload(*place, _kind(record.resource), record.metadata, owners)
        for level, mode in _MODE_OF.items():
            seen.add(level, workload, by_mode[mode].failed, requests, 0)


def _add_existing(
    reader: LakeReader,
    window: Window,
    configuration: Configuration,
    minor: int,
    seen: dict[_Place, _Seen],
    owners: dict[tuple[str, str, str], str],
) -> None:
    """Judge the objects that snapshots list, each in its last form."""
    kinds = {
        row.kind: GroupVersionResource(row.group, "", row.resource)
        for place in RESOURCES - {NAMESPACE}
        if (row := by_resource(*place))
    }
    rows = snapshot_rows(reader, {(resource.group, kind) for kind, resource in kinds.items()}, until=window.until)
    last = {
        (row["cluster"], row["kind"], row["namespace"], row["name"]): row["object"] for row in rows if row["name"] and row["object"]
    }
    for (cluster, kind, namespace, _), raw in last.items():
        value = decode_json(raw)
        template = template_of(kinds[kind], value) if isinstance(value, dict) else None
        if template is None or namespace in configuration.namespaces:
            continue
        pod = pod_of(template)
        if (pod.spec.get("runtimeClassName") or "") in configuration.runtime_classes:
            continue
        found = seen.setdefault((cluster, namespace or ""), _Seen())
        found.counts["existing"] += 1
        workload = _workload(cluster, namespace, kind, value.get("metadata") or {}, owners)
        for level in LEVELS:
            found.add(level, workload, failed_checks(pod, level, minor), 0, 1)


def _kind(resource: GroupVersionResource) -> str:
    row = by_resource(resource.group, resource.resource)
    return row.kind if row is not None else resource.resource


def _workload(
    cluster: str,
    namespace: str,
    kind: str,
    metadata: Mapping[str, Any],
    owners: dict[tuple[str, str, str], str],
) -> str:
    """The controlling owner of an object, else the object itself: `Kind/name`."""
    own = f"{kind}/{metadata.get('name') or metadata.get('generateName') or ''}"
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if owner is None:
        return own
    found = f"{owner.get('kind')}/{owner.get('name')}"
    owners[cluster, namespace, own] = found
    return found


def _answers(
    reader: LakeReader,
    walk: Walk,
    seen: Mapping[_Place, _Seen],
    owners: Mapping[tuple[str, str, str], str],
    asked: Level | None,
) -> Iterator[NamespaceLevel]:
    for cluster, last in reader.connection.execute(_LAST).fetchall():
        known = {key.name for key in walk.history.keys(cluster, NAMESPACES)}
        for namespace in sorted(known | {name for place, name in seen if place == cluster}):
            if not _is_gone(walk, cluster, namespace, last):
                found = seen.get((cluster, namespace), _Seen())
                answer = _answer(walk, (cluster, namespace), last, found)
                yield answer._replace(obstacles=_obstacles((cluster, namespace), asked or answer.next, found, owners))


def _is_gone(walk: Walk, cluster: str, namespace: str, moment: datetime) -> bool:
    found = walk.history.at(cluster, moment).namespace(namespace)
    return not isinstance(found, Unknown) and (found.value is None or bool(found.value["metadata"].get("deletionTimestamp")))


def _answer(walk: Walk, place: _Place, last: datetime, seen: _Seen) -> NamespaceLevel:
    labels = walk.labels.at(*place, last)
    policy = None if isinstance(labels, Unknown) else resolve(labels.value, walk.configuration.defaults).policy
    current = policy[Mode.ENFORCE] if policy is not None else None
    advisory = {} if policy is None else {mode: policy[mode].level for mode in (Mode.AUDIT, Mode.WARN)}
    broken = {level for level, _, _ in seen.failed}
    passed = [Level.PRIVILEGED, *(level for level in LEVELS if level not in broken)]
    is_known = seen.counts["requests"] or seen.counts["existing"]
    level = max(passed, key=lambda each: each.strictness) if is_known else None
    requests, existing, exempt, unknown = (seen.counts[name] for name in ("requests", "existing", "exempt", "unknown"))
    recorded = None if isinstance(labels, Unknown) else labels.value
    return NamespaceLevel(*place, current, level, requests, existing, exempt, unknown, (), advisory, recorded)


def _obstacles(place: _Place, level: Level | None, seen: _Seen, owners: Mapping[tuple[str, str, str], str]) -> Sequence[Obstacle]:
    """What stands in the way of a level, by the outermost workloads, those with most requests first."""
    by_workload: dict[tuple[str, str], Any] = {}
    for (found, workload, check), (detail, requests, existing) in seen.failed.items():
        if found is level:
            key = _outermost(place, workload, owners), check
            _, before, there = by_workload.get(key, ("", 0, 0))
            by_workload[key] = detail, before + requests, there + existing
    rows = [Obstacle(*place, level, *key, *values) for key, values in by_workload.items()] if level else []
    return sorted(rows, key=lambda each: (-each.requests, -each.existing, each.workload, each.check))


def _outermost(place: _Place, workload: str, owners: Mapping[tuple[str, str, str], str]) -> str:
    for _ in range(len(owners) + 1):
        if (owner := owners.get((*place, workload))) is None:
            break
        workload = owner
    return workload
