"""The report on the bundled log: as it was agreed on, and each of its figures recomputed in other ways.

After a wanted change: HINDCAST_UPDATE_GOLDEN=1 pytest tests/pipeline/report/test_golden.py, and read the difference.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import comb
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from pipeline import RunSummary, load_policy_set, plan_replay, run_replay
from pipeline.readiness import outcomes_of, readiness, verdicts_of
from pipeline.readiness.counting.figures import FIGURES
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.report import Report
from pipeline.readiness.sql import rows_of
from pipeline.report.data import document, plain
from pipeline.report.html import to_html
from pipeline.report.markdown import to_markdown
from pipeline.stages.validating.agreement import recorded_agreement
from pipeline.stages.validating.compare import compare_with_log
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import LakeReader, open_lake
from queries.ledger import LOSS_KINDS, Severity
from tests.sharing import STRETCHED_DELAY

CASES = Path(__file__).parents[2] / "cases" / "report"
POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
Object = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """`reader` has the tables `outcomes` and `compared`, over which the report's queries are."""

    lake: Path
    reader: LakeReader
    summary: RunSummary
    report: Report


@pytest.fixture(scope="module")
def made(stretched_lake: Path) -> Iterator[Made]:
    reader = open_lake(stretched_lake)
    plan = plan_replay(reader, load_policy_set([POLICIES]))
    summary = run_replay(plan, stretched_lake)
    report = readiness(stretched_lake, plan, summary, change_delay=STRETCHED_DELAY)
    bound = run_replay(plan_replay_from_log(reader, change_delay=STRETCHED_DELAY), stretched_lake)
    compare_with_log(reader, verdicts_of(stretched_lake, bound))
    outcomes_of(reader, stretched_lake, summary)
    yield Made(stretched_lake, reader, summary, report)
    reader.close()


def key(entry: PolicyReadiness) -> dict[str, str | None]:
    return {"policy": entry.policy, "binding": entry.binding}


def test_the_report_is_the_agreed_one(made: Made) -> None:
    golden = CASES / "bundled-log.md"
    # The name of a run follows from the plan's whole text; what the report says does not.
    text = to_markdown(made.report).replace(made.report.run_id, "RUN").replace(str(POLICIES), "policies")
    if os.environ.get("HINDCAST_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_the_verdicts_differ() -> None:
    # A golden report that shows one verdict only would prove little.
    text = (CASES / "bundled-log.md").read_text(encoding="utf-8")
    assert all(f"{status} |" in text for status in ("READY", "NOT READY", "INSUFFICIENT EVIDENCE"))


def test_the_query_beside_each_figure_gives_the_figure(made: Made) -> None:
    for entry in made.report.policies:
        for figure in FIGURES:
            if figure.sql:
                ((found,),) = made.reader.connection.execute(figure.query.sql, key(entry)).fetchall()
                if isinstance(found, list):
                    found = bound(found[0], found[1], made.report.rules.confidence)
                agree(figure.label, entry, figure.value(entry), found)


def test_figures_that_name_a_file_are_what_the_file_gives(made: Made) -> None:
    assert {figure.file for figure in FIGURES if not figure.sql} == {"releases", "halves", "agreement", "over_cost"}
    releases, halves, over_cost = (by_policy(made, file) for file in ("releases", "halves", "over_cost"))
    compared = [each._asdict() for each in recorded_agreement(made.reader.connection)]
    for entry in made.report.policies:
        (steps,), (half,) = releases[entry.policy, entry.binding], halves[entry.policy, entry.binding]
        assert (entry.exposure.releases, entry.exposure.release_cycles) == (steps["releases"], steps["release_cycles"])
        assert entry.exposure.requests_over_cost == total(over_cost[entry.policy, entry.binding], "requests_over_cost")
        trend = entry.denials.trend
        assert (trend.earlier_denied, trend.later_denied) == (half["earlier_denied"], half["later_denied"])
        # Each denied workload is in one half or in both.
        assert max(trend.earlier_denied, trend.later_denied) <= entry.denials.units <= trend.earlier_denied + trend.later_denied
        mine = [row for row in compared if row["resource"] in entry.exposure.resources]
        own = [row for row in compared if row["policy"] == entry.policy]
        assert entry.fidelity.agreement == share(mine)
        assert entry.fidelity.own_agreement == share(own)
        assert (entry.fidelity.compared, entry.fidelity.unknown) == (total(mine, "compared"), total(mine, "unknown"))


def test_lists_are_what_their_files_give(made: Made) -> None:
    lists = {query.of.removeprefix("policies."): query for query in made.report.queries if query.of.startswith("policies.")}
    for entry in made.report.policies:
        for name in ("days", "critical", "hidden", "namespaces"):
            rows = [without_key(row) for row in by_policy(made, lists[name].file)[entry.policy, entry.binding]]
            assert [plain(row) for row in getattr(entry, name)] == [plain(row) for row in rows], name
        owners = [
            row for row in rows_sql(made, lists["owners"].sql) if (row["policy"], row["binding"]) == tuple(key(entry).values())
        ]
        assert [(row.unit, row.user, row.requests, row.message, row.audit_id) for row in entry.owners] == [
            (row["unit"], row["user_name"], row["requests"], row["message"], row["audit_id"]) for row in owners
        ]
        unknown = by_policy(made, "unknown")[entry.policy, entry.binding]
        assert entry.unknown_reasons == tuple((row["why"], row["requests"]) for row in unknown)


def test_what_is_said_of_the_lake_is_what_the_queries_give(made: Made) -> None:
    whole = {query.of: query.sql for query in made.report.queries}
    (extent,) = rows_sql(made, whole["events"])
    assert (extent["events"], extent["requests"]) == (made.report.events, made.report.requests)
    assert (extent["first_ts"], extent["last_ts"]) == (made.report.first_ts, made.report.last_ts)
    assert [plain(row) for row in made.report.recorded] == [plain(row) for row in rows_sql(made, whole["recorded"])]
    assert [plain(row) for row in made.report.evidence] == [plain(row) for row in rows_sql(made, whole["evidence"])]
    losses = {row["kind"]: row["count"] for row in rows_sql(made, whole["caveats"])}
    assert losses
    for kind, count in losses.items():
        told = any(caveat.startswith(LOSS_KINDS[kind].counted(count)) for caveat in made.report.caveats)
        assert told is (LOSS_KINDS[kind].severity is not Severity.NOTE)


def test_no_number_of_a_report_is_without_a_query(made: Made) -> None:
    """But for what the engine judged (what was not tried, exemptions), bounds of the figures, the rules, and lines of files."""
    told = {query.of for query in made.report.queries}
    others = (
        "policies.latent",
        "policies.exemptions",
        "policies.later",
        "policies.rollout",
        "policies.fidelity",
        "rules",
        "sources",
        "requests",
    )
    for path in set(numbers(document(made.report))):
        assert any(path == one or path.startswith(f"{one}.") for one in (*told, *others)), path


def numbers(value: object, path: str = "") -> Iterator[str]:
    """Where the data of a report has numbers; those of a list are under the list's name."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from numbers(part, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def rows_sql(made: Made, sql: str) -> list[Object]:
    return made.reader.connection.sql(sql).to_arrow_table().to_pylist()


def by_policy(made: Made, file: str) -> defaultdict[tuple[str, str | None], list[Object]]:
    found: defaultdict[tuple[str, str | None], list[Object]] = defaultdict(list)
    for row in rows_of(made.reader.connection, file):
        found[row["policy"], row["binding"]].append(row)
    return found


def without_key(row: Object) -> Object:
    return {name: value for name, value in row.items() if name not in ("policy", "binding")}


def total(rows: list[Object], name: str) -> int:
    return sum(row[name] for row in rows)


def share(rows: list[Object]) -> float | None:
    return total(rows, "agreed") / total(rows, "compared") if total(rows, "compared") else None


def test_figures_recomputed_from_verdicts_and_views_alone(made: Made) -> None:
    """With other SQL than the report's own, which shares nothing with it but the run and the views."""
    parameters = {"verdicts": str(verdicts_of(made.lake, made.summary))}
    with made.reader.session() as reader:
        rows = reader.arrow((CASES / "recompute.sql").read_text(encoding="utf-8"), parameters).to_pylist()
    found = {(row.pop("policy"), row.pop("binding")): row for row in rows}
    values = {figure.label: figure.value for figure in FIGURES}
    for entry in made.report.policies:
        row = found[entry.policy, entry.binding]
        assert len(row) == 11
        for label, value in row.items():
            agree(label, entry, values[label](entry), value)


def test_workloads_recounted_in_python(made: Made) -> None:
    """The root owner of each request's object, by walking controllers through all recorded objects."""
    with made.reader.session() as reader:
        owners = dict(controllers(reader))
        kinds = dict(reader.sql("SELECT resource, max(kind) FROM object_versions GROUP BY resource").fetchall())
        sql = """
            SELECT v.policy, v.binding, bool_or(v.effect = 'deny'), bool_or(v.decision = 'unknown'),
                any_value(recorded_object(r.response_object, r.request_object)),
                any_value(coalesce(r.namespace, '')), any_value(r.name), any_value(r.resource)
            FROM read_parquet($verdicts) AS v JOIN requests AS r USING (cluster, audit_id, ts)
            WHERE v.decision <> 'nomatch' AND r.request_uri NOT LIKE '%dryRun=All%'
            GROUP BY v.policy, v.binding, cluster, audit_id, ts
        """
        rows = reader.sql(sql, {"verdicts": str(verdicts_of(made.lake, made.summary))}).fetchall()
    judged: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    denied: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for policy, binding, denies, unknown, body, namespace, name, resource in rows:
        found = json.loads(body) if body else {}
        # A patch is not an object: what it is about is told by the request.
        whole = found if isinstance(found, dict) and found.get("kind") == kinds.get(resource) else {}
        unit = root(whole, kinds.get(resource, resource), namespace, name, owners)
        if denies or not unknown:
            judged.setdefault((policy, binding), set()).add(unit)
        if denies:
            denied.setdefault((policy, binding), set()).add(unit)
    for entry in made.report.policies:
        at = (entry.policy, entry.binding or "")
        assert len(judged[at]) == entry.exposure.units_judged, entry.policy
        assert len(denied.get(at, ())) == entry.denials.units, entry.policy


def test_every_figure_is_printed_with_its_query(made: Made) -> None:
    html, markdown = to_html(made.report), to_markdown(made.report)
    for query in made.report.queries:
        assert str(escape(query.sql)) in html
        assert (f"`{query.file}.sql`" if query.file else query.sql.replace("|", "\\|")) in markdown
    for figure in FIGURES:
        for entry in made.report.policies:
            assert f"<dt>{figure.label}</dt><dd>{escape(figure.show(entry))}</dd>" in html
            assert f"| {figure.label} | {figure.show(entry).replace('>', '&gt;').replace('<', '&lt;')} |" in markdown


def agree(label: str, entry: PolicyReadiness, printed: object, found: object) -> None:
    if isinstance(printed, float) or isinstance(found, float):
        assert found == pytest.approx(printed, abs=2e-5), (entry.policy, label)
    elif isinstance(printed, datetime):
        assert isinstance(found, datetime)
        assert found.timestamp() == printed.timestamp(), (entry.policy, label)
    else:
        assert found == printed, (entry.policy, label)


def bound(failures: int, trials: int, confidence: float) -> float:
    """The rate at which so few failures have the probability 1 - confidence, with whole numbers of ways instead of logarithms."""
    low, high = 0.0, 1.0
    if failures == trials:
        return 1.0
    for _ in range(60):
        rate = (low + high) / 2
        tail = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(failures + 1))
        low, high = (rate, high) if tail > 1 - confidence else (low, rate)
    return high


def controllers(reader: LakeReader) -> Iterator[tuple[tuple[str, str, str], tuple[str, str]]]:
    """The controller of every object that was recorded with one: (namespace, kind, name) to (kind, name)."""
    sql = """
        SELECT object FROM object_versions WHERE object IS NOT NULL
        UNION ALL SELECT recorded_object(response_object, request_object) FROM admission_writes
        UNION ALL SELECT object FROM objects
    """
    for (text,) in reader.sql(sql).fetchall():
        found = json.loads(text) if text else {}
        if not isinstance(found, dict):
            continue  # the body of a JSON patch
        metadata = found.get("metadata") or {}
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller") and metadata.get("name"):
                yield (metadata.get("namespace", ""), found.get("kind", ""), metadata["name"]), (owner["kind"], owner["name"])


def root(
    body: Object, kind: str, namespace: str, name: str | None, owners: dict[tuple[str, str, str], tuple[str, str]]
) -> tuple[str, ...]:
    metadata = body.get("metadata") or {}
    at = (kind, metadata.get("name") or name or f"{metadata.get('generateName', '')}*")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            at = (owner["kind"], owner["name"])
    for _ in range(8):
        at = owners.get((namespace, *at), at)
    return (namespace, *at)
