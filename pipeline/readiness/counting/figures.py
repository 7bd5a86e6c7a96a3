"""The figures that every report prints of a policy, and the queries that recompute them.

The query of a figure is an expression over the table `outcomes`: one row per request that the policy matched, with its user and
its workload. `pipeline.readiness.outcomes_of` makes that table from a run's verdicts and the lake's views, and
`hindcast readiness --export` writes it next to the report's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from operator import attrgetter
from typing import Any

from ..model import PolicyReadiness
from ..report import Query
from ..words import day, percent

SELECT = "SELECT {sql} FROM outcomes WHERE policy = $policy AND binding IS NOT DISTINCT FROM $binding"
OWNERS_MAX = 100  # of one policy in the list of owners; all of them are counted


class Group(StrEnum):
    """The subject of a figure, as a heading in reports."""

    EXPOSURE = "What it was tried on"
    DENIALS = "What would be denied"
    TRUST = "How far to trust it"


@dataclass(frozen=True, slots=True)
class Figure:
    """`path` finds the figure in the model, `show` words it. Its query is `sql`, or a file.

    Such a file is in `pipeline/readiness/sql/` or `pipeline/runs/sql/`.
    """

    group: Group
    label: str
    path: str
    sql: str = ""
    file: str = ""
    note: str = ""
    words: Callable[[Any], str] = "{:,}".format

    def value(self, entry: PolicyReadiness) -> Any:
        """The figure itself."""
        return attrgetter(self.path)(entry)

    def show(self, entry: PolicyReadiness) -> str:
        """The figure as reports print it."""
        return self.words(self.value(entry))

    @property
    def query(self) -> Query:
        """The query that recomputes it."""
        text = _file(self.file) if self.file else SELECT.format(sql=self.sql)
        return Query(self.label, f"policies.{self.path}", text, self.file, self.note)


def _file(name: str) -> str:
    rooms = (files(room).joinpath("sql", f"{name}.sql") for room in ("pipeline.readiness", "pipeline.runs"))
    return next(file for file in rooms if file.is_file()).read_text(encoding="utf-8")


_UNIT = "count(DISTINCT (cluster, namespace, unit))"
_USER = "count(DISTINCT user_name)"
_DENIED, _JUDGED = "FILTER (outcome = 'deny')", "FILTER (outcome <> 'unknown')"
_LAST = f"({SELECT.format(sql=f'max(ts) {_DENIED}')})"
_PASSED_SINCE = f"FILTER (outcome = 'admit' AND ts > coalesce({_LAST}, '-infinity'))"
_BOUND = "the exact one-sided upper bound (Clopper-Pearson) at the rules' confidence, for so many of so many"
E, D, T = Group.EXPOSURE, Group.DENIALS, Group.TRUST
FIGURES: tuple[Figure, ...] = (
    Figure(E, "requests matched", "exposure.requests_matched", "count(*)"),
    Figure(E, "requests judged", "exposure.requests_judged", f"count(*) {_JUDGED}"),
    Figure(E, "requests unknown", "exposure.requests_unknown", "count(*) FILTER (outcome = 'unknown')"),
    Figure(E, "share judged", "exposure.judged_share", f"count(*) {_JUDGED} / count(*)", words=percent),
    Figure(E, "share unknown", "exposure.unknown_share", "count(*) FILTER (outcome = 'unknown') / count(*)", words=percent),
    Figure(
        E,
        "requests that only an error let pass",
        "exposure.requests_excused",
        "count(*) FILTER (outcome = 'admit' AND is_error)",
        note="failurePolicy Ignore",
    ),
    Figure(
        E,
        "requests over a CEL cost limit",
        "exposure.requests_over_cost",
        file="over_cost",
        note="no row where none is; the API server ends their evaluation with an error",
    ),
    Figure(E, "workloads judged", "exposure.units_judged", f"{_UNIT} {_JUDGED}"),
    Figure(E, "users", "exposure.users", _USER),
    Figure(E, "users judged", "exposure.users_judged", f"{_USER} {_JUDGED}"),
    Figure(E, "namespaces", "exposure.namespaces", "count(DISTINCT namespace)"),
    Figure(E, "days of traffic", "exposure.days_span", "coalesce(epoch(max(ts) - min(ts)) / 86400, 0)", words="{:,.1f}".format),
    Figure(E, "days with requests", "exposure.days_active", "count(DISTINCT ts::DATE)"),
    Figure(E, "weekdays", "exposure.weekdays", f"count(DISTINCT isodow(ts)) {_JUDGED}"),
    Figure(
        E,
        "releases",
        "exposure.releases",
        file="releases",
        note="distinct images, or contents, of each workload in its most telling resource",
    ),
    Figure(E, "release cycles", "exposure.release_cycles", file="releases", note="steps from one release to the next"),
    Figure(D, "requests that would be denied", "denials.requests", f"count(*) {_DENIED}"),
    Figure(
        D,
        "of these, denied by errors alone",
        "denials.requests_failed",
        "count(*) FILTER (outcome = 'deny' AND is_failed)",
        note="an expression failed under failurePolicy Fail, and none was false",
    ),
    Figure(D, "workloads that would be denied", "denials.units", f"{_UNIT} {_DENIED}"),
    Figure(D, "users that would be denied", "denials.users", f"{_USER} {_DENIED}"),
    Figure(
        D, "pairs of such a workload and user", "owners_total", f"count(DISTINCT (cluster, namespace, unit, user_name)) {_DENIED}"
    ),
    Figure(D, "namespaces with a would-be denial", "denials.namespaces", f"count(DISTINCT namespace) {_DENIED}"),
    Figure(
        D,
        "of workloads like these, at most",
        "denials.unit_rate_upper",
        f"[{_UNIT} {_DENIED}, {_UNIT} {_JUDGED}]",
        note=_BOUND,
        words=percent,
    ),
    Figure(
        D,
        "of users like these, at most",
        "denials.user_rate_upper",
        f"[{_USER} {_DENIED}, {_USER} {_JUDGED}]",
        note=_BOUND,
        words=percent,
    ),
    Figure(
        D,
        "last would-be denial",
        "denials.last_ts",
        f"max(ts) {_DENIED}",
        words=lambda last: day(last) if last else "none",
    ),
    Figure(
        D,
        "days without one since",
        "denials.days_clean",
        f"epoch(max(ts) - coalesce(max(ts) {_DENIED}, min(ts))) / 86400",
        note="up to the last matched request; without a would-be denial the whole span",
        words="{:,.1f}".format,
    ),
    Figure(D, "requests that passed since", "denials.requests_clean", f"count(*) {_PASSED_SINCE}"),
    Figure(D, "workloads that passed since", "denials.units_clean", f"{_UNIT} {_PASSED_SINCE}"),
    Figure(
        D,
        "trend of denied workloads",
        "denials.trend.direction",
        file="halves",
        note="the earlier half of the time against the later, by Fisher's exact test",
        words=str,
    ),
    Figure(
        T,
        "agreement with the record",
        "fidelity.agreement",
        file="agreement",
        note="recorded outcomes on this policy's resources that the replay reproduces; over what `hindcast calibrate` compared",
        words=lambda share: "unknown" if share is None else percent(share),
    ),
    Figure(
        T,
        "agreement on this policy itself",
        "fidelity.own_agreement",
        file="agreement",
        note="of the outcomes that were recorded of the policy of this name",
        words=lambda share: "unknown" if share is None else percent(share),
    ),
)

# The lists of a report: label, path in the model, file of the query, note.
_LISTS = (
    ("what the lake holds", "events", "extent", "events, requests, clusters and times of the whole report"),
    ("what the cluster recorded", "recorded", "recorded", ""),
    ("which writes came with bodies", "evidence", "evidence", ""),
    ("would-be denials over time", "policies.days", "days", ""),
    ("critical subjects", "policies.critical", "critical", ""),
    ("who would have been denied", "policies.owners", "owners", "teams, tools and differences are read from the examples' bodies"),
    ("namespaces", "policies.namespaces", "namespaces", ""),
    ("what the recorded denials hid", "policies.hidden", "hidden", ""),
    ("missing evidence", "policies.unknown_reasons", "unknown", ""),
    ("agreement by resource", "policies.fidelity.by_resource", "agreement", "over what `hindcast calibrate` compared"),
    ("halves of the time", "policies.denials.trend", "halves", ""),
)
_LOSSES = "SELECT kind, sum(count)::BIGINT AS count FROM losses GROUP BY kind ORDER BY kind"


def queries() -> tuple[Query, ...]:
    """The queries of everything in a report that a query can compute: its figures, then its lists."""
    return (*(figure.query for figure in FIGURES), *_lists())


def _lists() -> Iterator[Query]:
    for label, path, file, note in _LISTS:
        yield Query(label, path, _file(file).replace("$listed_max", str(OWNERS_MAX)), file, note)
    yield Query(
        "lost or withheld evidence", "caveats", _LOSSES, "", "requests that were not replayed are in the run's summary.json"
    )


def figures_by_group(entry: PolicyReadiness) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every figure with its value in words, by subject."""
    return [(str(group), [(figure.label, figure.show(entry)) for figure in FIGURES if figure.group is group]) for group in Group]
