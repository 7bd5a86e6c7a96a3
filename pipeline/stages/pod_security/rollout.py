"""The waves of a level of Pod Security: namespaces that can enforce it today, and what others have to change first.

A namespace can where `hindcast pod-security` says that the level would have refused nothing, templates and existing Pods included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from queries import LakeReader

from ...request import Object
from ...runs.window import Window
from ..authorization.role_objects import may_be_namespace
from ..waves import CLEAN, FEW, FEW_WORKLOADS, MANY, REST, Needed, Rollout, Tried, Wave
from .checks.table import Level
from .given import Given
from .levels import NamespaceLevel, levels_of
from .policy import DEFAULT, PREFIX, Mode, resolve

_SPAN = "SELECT min(ts), max(ts) FROM events"
_UNKNOWN = "how they were labelled before is not known: note the labels of these Namespaces first"
# By name; a lake of several clusters may have a namespace several times.
_Spaces = Mapping[str, Sequence[NamespaceLevel]]


def rollouts_of_levels(
    reader: LakeReader, rules: Given, window: Window, version: tuple[int, int], spared: Collection[str]
) -> Iterator[Rollout]:
    """The waves of each level that given labels enforce. `spared` are namespaces that come last."""
    first, last = reader.connection.execute(_SPAN).fetchall()[0]
    if first is None:
        return
    begin, end = window.since or first, window.until or last
    middle = begin + (end - begin) / 2
    for level in sorted(_levels(rules), key=lambda each: each.strictness):
        parts = (window, replace(window, until=middle), replace(window, since=middle))
        whole, earlier, later = (
            _by_name(levels_of(reader, rules.configuration, part, version[1], level), rules, level) for part in parts
        )
        waves = _waves(whole, rules, level, spared)
        if waves:
            yield Rollout(str(level), None, waves, _tried(earlier, later, level, middle, spared))


def _levels(rules: Given) -> set[Level]:
    labels = [*rules.labels.values(), *([] if rules.everywhere is None else [rules.everywhere])]
    return {resolve(each, DEFAULT).policy[Mode.ENFORCE].level for each in labels} - {Level.PRIVILEGED}


def _by_name(found: Iterable[NamespaceLevel], rules: Given, level: Level) -> _Spaces:
    """The namespaces that are to have a level, and do not enforce it everywhere yet."""
    spaces: dict[str, list[NamespaceLevel]] = {}
    for each in found:
        labels = _wanted(rules, each.namespace)
        # Names are a stranger's data: what no namespace can be called gets no manifest.
        if labels is not None and may_be_namespace(each.namespace) and resolve(labels, DEFAULT).policy[Mode.ENFORCE].level is level:
            spaces.setdefault(each.namespace, []).append(each)
    return {name: own for name, own in spaces.items() if not all(_enforces(each, level) for each in own)}


def _wanted(rules: Given, namespace: str) -> Mapping[str, str] | None:
    """The labels that the user wants for a namespace; None where the user gives none."""
    own = rules.labels.get(namespace)
    return rules.everywhere if own is None else own


def _enforces(found: NamespaceLevel, level: Level) -> bool:
    return found.current is not None and found.current.level.strictness >= level.strictness


def is_clean(found: NamespaceLevel, level: Level) -> bool:
    """Whether a level would have refused nothing in a namespace, as far as is sure."""
    return found.is_sure and found.level is not None and found.level.strictness >= level.strictness


def _waves(spaces: _Spaces, rules: Given, level: Level, spared: Collection[str]) -> tuple[Wave, ...]:
    groups: dict[str, list[str]] = {CLEAN: [], FEW: [], MANY: [], REST: []}
    for name, own in sorted(spaces.items()):
        if name in spared or all(each.level is None and not each.unknown for each in own):
            groups[REST].append(name)
        elif all(is_clean(each, level) for each in own):
            groups[CLEAN].append(name)
        else:
            count = len({row.workload for each in own for row in each.obstacles})
            groups[FEW if 0 < count <= FEW_WORKLOADS and not any(each.unknown for each in own) else MANY].append(name)
    return tuple(_wave(number, why, names, spaces, rules) for number, (why, names) in enumerate(groups.items(), start=1) if names)


def _wave(number: int, why: str, names: Sequence[str], spaces: _Spaces, rules: Given) -> Wave:
    found = [each for name in names for each in spaces[name]]
    before = {name: _before(spaces[name]) for name in names}
    wanted = {name: _prefixed(_wanted(rules, name) or {}) for name in names}
    added = {name: sorted(wanted[name].keys() - (before[name] or {})) for name in names if before[name] is not None}
    return Wave(
        number,
        why,
        tuple(names),
        sum(each.requests for each in found),
        tuple(need for each in found for need in _needed(each)),
        tuple(_namespace(name, (before[name] or {}) | wanted[name]) for name in names),
        tuple(_namespace(name, labels) for name, labels in before.items() if labels),
        tuple(("kubectl", "label", "namespace", name, *(f"{key}-" for key in keys)) for name, keys in added.items() if keys),
        tuple(f"{name}: {_UNKNOWN}" for name, labels in before.items() if labels is None),
    )


def _before(own: Sequence[NamespaceLevel]) -> dict[str, str] | None:
    """The labels of Pod Security that a namespace has; None if they are not known, or differ by cluster."""
    found = [each.recorded for each in own]
    known = found[0]
    return None if known is None or any(each != known for each in found) else _prefixed(known)


def _prefixed(labels: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in labels.items()}


def _namespace(name: str, labels: Mapping[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(sorted(labels.items()))}}


def _needed(found: NamespaceLevel) -> Iterator[Needed]:
    """What has to change in a namespace, one entry per workload."""
    workloads: dict[str, list[int]] = {}
    changes: dict[str, list[str]] = {}
    for row in found.obstacles:
        workloads.setdefault(row.workload, []).append(row.requests)
        changes.setdefault(row.workload, []).append(f"{row.field}: {row.change}")
    for workload, requests in workloads.items():
        yield Needed(found.namespace, workload, max(requests), change="; ".join(dict.fromkeys(changes[workload])))


def _tried(earlier: _Spaces, later: _Spaces, level: Level, middle: datetime, spared: Collection[str]) -> Tried:
    """The namespaces that the earlier half calls clean, and how many of them the later half does not."""
    chosen = [name for name, own in earlier.items() if name not in spared and all(is_clean(each, level) for each in own)]
    judged = {name: later[name] for name in chosen if any(each.level is not None for each in later.get(name, ()))}
    denied = sum(
        any(each.level is not None and each.level.strictness < level.strictness for each in own) for own in judged.values()
    )
    return Tried(len(judged), denied, middle)
