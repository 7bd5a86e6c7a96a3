"""Why a policy judged no request, or could not judge: sentences for every report, with the remedy.

For a policy that matched nothing they say which step left its requests out: rules, namespaceSelector, objectSelector or
matchConditions, with the labels seen. For unknown verdicts they give the most frequent reasons with their remedies.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from ..explaining.missing import most_frequent
from ..history.world import NAMESPACES, LogHistory
from ..history.writes import LEVELS
from ..matching import labels_of
from ..matching.namespaces import NAME_LABEL
from ..request import Known
from ..runs.summary import UNBOUND, VACUOUS
from .model import PolicyReadiness
from .sql import rows_of

# Stands between a reason and its remedy.
TO_KNOW_IT = "; to know it, "
_LABELS_SHOWN = 6
_STEPS = ("namespaceSelector", "objectSelector", "matchConditions", "params")
_NAMESPACE = re.compile(r"namespaceSelector: (.+?) does not select namespace")
_OBJECT = re.compile(r"objectSelector: (.+?) selects neither")
_CONDITION = re.compile(r"matchConditions: (\S+) is false")
_CONDITION_ERROR = re.compile(r"matchConditions: (.+?): ")
_CONDITION_COST = re.compile(r"cost limit exceeded|out of cost budget")
# Above this share of a policy's requests, the report says first that the log's level is too low.
_LEVEL_SHARE_MIN = 0.5


def with_gaps(
    connection: duckdb.DuckDBPyConnection,
    entries: Sequence[PolicyReadiness],
    rules: Mapping[str, str],
    history: LogHistory | None,
) -> tuple[PolicyReadiness, ...]:
    """The entries with these sentences among their reasons.

    `connection` has the tables `verdicts` and `outcomes`. `rules` says of each given thing which requests it is for. It is empty,
    and `history` None, for a replay of the policies that were bound at the time.
    """
    gaps = _Gaps(connection, rules, history)
    return tuple(replace(entry, reasons=(*gaps.first(entry), *entry.reasons, *gaps.others(entry))) for entry in entries)


def with_unknown_reasons(entries: Iterable[PolicyReadiness]) -> tuple[PolicyReadiness, ...]:
    """The entries with the most frequent reasons for unknown verdicts and their remedies, for any stage."""
    return tuple(replace(entry, reasons=(*entry.reasons, *_unknown(entry))) for entry in entries)


def _level(recorded: str) -> str:
    return recorded if recorded in LEVELS else f"an unknown ({recorded!r})"


def _conditions(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How match conditions left requests out: they were false, they ended with an error, or they went over a cost limit."""
    ends: dict[str, Counter[str]] = {
        "matchConditions that were false": Counter(),
        "matchConditions that ended with an error, which failurePolicy Ignore passes over": Counter(),
        "matchConditions that went over a cost limit, which failurePolicy Ignore passes over": Counter(),
    }
    false, failed, over = ends.values()
    for row in rows:
        if found := _CONDITION.search(row["why"]):
            false[found[1]] += row["requests"]
        elif found := _CONDITION_ERROR.search(row["why"]):
            (over if _CONDITION_COST.search(row["why"]) else failed)[found[1]] += row["requests"]
    yield from (f"{what}: {_counted(names.items())}" for what, names in ends.items() if names)


def _unknown(entry: PolicyReadiness) -> Iterator[str]:
    for found in most_frequent(entry.unknown_reasons):
        remedy = f"{TO_KNOW_IT}{found.remedy}" if found.remedy else ""
        requests = f"{found.requests:,} request{'s are' if found.requests != 1 else ' is'}"
        yield f"{requests} unknown: {found.reason or 'no reason is recorded'}{remedy}"


class _Gaps:
    """Finds in the lake why requests were not judged."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, rules: Mapping[str, str], history: LogHistory | None) -> None:
        self._connection = connection
        self._rules = rules
        self._history = history
        self._levels = {(row["policy"], row["binding"]): row for row in reversed(rows_of(connection, "levels"))}
        self._unmatched: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows_of(connection, "unmatched"):
            self._unmatched[row["policy"]].append(row)

    def first(self, entry: PolicyReadiness) -> Iterator[str]:
        """The reason that comes before every other one: the log does not hold objects."""
        row = self._levels.get((entry.policy, entry.binding))
        if row is not None and row["requests"] > _LEVEL_SHARE_MIN * entry.exposure.requests_matched:
            yield (
                f"this log is at {_level(row['level'])} level: {row['requests']:,} of "
                f"{entry.exposure.requests_matched:,} matched requests have no object"
            )

    def others(self, entry: PolicyReadiness) -> Iterator[str]:
        """The most frequent reasons for unknown; for a policy that matched nothing, the steps that left its requests out."""
        yield from _unknown(entry)
        if entry.binding is None and entry.policy in self._rules:
            yield UNBOUND
        if entry.exposure.requests_matched == 0:
            yield VACUOUS
            yield from self._funnel(entry)

    def _funnel(self, entry: PolicyReadiness) -> Iterator[str]:
        rows = [row for row in self._unmatched[entry.policy] if row["binding"] in (None, entry.binding)]
        total = sum(row["requests"] for row in rows)
        if not total:
            yield f"no recorded request met its rules: {self._rules.get(entry.policy, 'its resources')}"
            return
        steps = Counter({step: sum(row["requests"] for row in rows if _step(row["why"]) == step) for step in _STEPS})
        left = ", ".join(f"{step} left out {count:,}" for step, count in steps.items() if count)
        yield f"{total:,} request{'s' if total != 1 else ''} met the rules{f'; {left}' if left else ''}"
        if steps["namespaceSelector"]:
            wanted = _wanted(_NAMESPACE, rows)
            yield f"no namespace of these requests has {wanted}; seen: {self._namespace_labels(wanted)}"
        if steps["objectSelector"]:
            wanted = _wanted(_OBJECT, rows)
            yield f"no object of these requests has {wanted}; seen: {self._object_labels(entry.policy, wanted)}"
        if steps["matchConditions"]:
            yield from _conditions(rows)

    def _namespace_labels(self, wanted: str) -> str:
        seen = Counter[str]()
        history = self._history
        clusters = {key.cluster for key in history.versions.objects()} if history else ()
        for key in [key for cluster in clusters for key in history.keys(cluster, NAMESPACES)] if history else ():
            versions = [*history.versions.timeline(key)] if history else []
            found = history.object_of(versions[-1]) if history and versions else None
            value = found.value if isinstance(found, Known) else None
            seen.update(f"{name}={text}" for name, text in (labels_of(value) or {}).items() if name != NAME_LABEL)
        return _labels(seen.items(), wanted) or "no label but the namespaces' names"

    def _object_labels(self, policy: str, wanted: str) -> str:
        rows = rows_of(self._connection, "object_labels")
        return _labels([(row["label"], row["requests"]) for row in rows if row["policy"] == policy], wanted) or "no labels"


def _labels(seen: Iterable[tuple[str, int]], wanted: str) -> str:
    """The labels seen: those with the key that a selector wants, or all labels if the key was not seen."""
    counted = [*seen]
    key = wanted.partition(" ")[0]
    return _counted([item for item in counted if item[0].startswith(f"{key}=")] or counted)


def _step(why: str) -> str:
    text = why.removeprefix("matchResources: ")
    return next((step for step in _STEPS if text.startswith((step, f"no {step}"))), "")


def _wanted(pattern: re.Pattern[str], rows: Iterable[Mapping[str, Any]]) -> str:
    return next((found[1] for row in rows if (found := pattern.search(row["why"]))), "what the selector wants")


def _counted(items: Iterable[tuple[str, int]]) -> str:
    ordered = sorted(items, key=lambda item: (-item[1], item[0]))
    more = f" and {len(ordered) - _LABELS_SHOWN:,} more" if len(ordered) > _LABELS_SHOWN else ""
    return ", ".join(f"{name} ({count:,})" for name, count in ordered[:_LABELS_SHOWN]) + more
