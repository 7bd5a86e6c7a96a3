"""The report on the bundled log: as it was agreed on, and each of its figures recomputed in other ways.

After a wanted change: HINDCAST_UPDATE_GOLDEN=1 pytest tests/pipeline/report/test_golden.py, and read the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import comb
from pathlib import Path
from typing import Any

import pytest

from pipeline import RunSummary, load_policy_set, plan_replay, run_replay
from pipeline.readiness import outcomes_of, readiness, verdicts_of
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.sql import rows_of
from pipeline.report.figures import FIGURES, SELECT
from pipeline.report.html import to_html
from pipeline.report.markdown import to_markdown
from pipeline.report.model import Report
from queries import LakeReader, open_lake

CASES = Path(__file__).parents[2] / "cases" / "report"
POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
Object = dict[str, Any]


@dataclass(frozen=True)
class Made:
    lake: Path
    reader: LakeReader
    summary: RunSummary
    report: Report


@pytest.fixture(scope="module")
def made(stretched_lake: Path) -> Iterator[Made]:
    reader = open_lake(stretched_lake)
    plan = plan_replay(reader, load_policy_set([POLICIES]))
    summary = run_replay(plan, stretched_lake)
    yield Made(stretched_lake, reader, summary, readiness(stretched_lake, plan, summary, calibrate=False))
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
    outcomes_of(made.reader, made.lake, made.summary)
    for entry in made.report.policies:
        for figure in FIGURES:
            if figure.sql:
                ((found,),) = made.reader.connection.execute(SELECT.format(sql=figure.sql), key(entry)).fetchall()
                if isinstance(found, list):
                    found = bound(found[0], found[1], made.report.rules.confidence)
                agree(figure.label, entry, figure.value(entry), found)


def test_figures_that_name_a_file_are_what_the_file_gives(made: Made) -> None:
    outcomes_of(made.reader, made.lake, made.summary)
    named = {figure.label: figure.note.partition(":")[0] for figure in FIGURES if not figure.sql}
    assert set(named) == {"releases", "agreement with the record", "trend of denied workloads"}
    releases = {(row["policy"], row["binding"]): row["releases"] for row in rows_of(made.reader.connection, "releases")}
    halves = {(row["policy"], row["binding"]): row for row in rows_of(made.reader.connection, "halves")}
    for entry in made.report.policies:
        assert entry.exposure.releases == releases[entry.policy, entry.binding]
        trend, half = entry.denials.trend, halves[entry.policy, entry.binding]
        assert (trend.earlier_denied, trend.later_denied) == (half["earlier_denied"], half["later_denied"])
        # Each denied workload is in one half or in both.
        assert max(trend.earlier_denied, trend.later_denied) <= entry.denials.units <= trend.earlier_denied + trend.later_denied
        assert entry.fidelity.agreement is None


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
            WHERE v.decision <> 'nomatch' GROUP BY v.policy, v.binding, cluster, audit_id, ts
        """
        rows = reader.sql(sql, {"verdicts": str(verdicts_of(made.lake, made.summary))}).fetchall()
    judged: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    denied: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for policy, binding, denies, unknown, body, namespace, name, resource in rows:
        found = json.loads(body) if body else {}
        # A patch is no object: what it is about is told by the request.
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
    for figure in FIGURES:
        assert f"<td>{figure.label}</td>" in html
        assert figure.sql.replace("|", "\\|") in markdown
        for entry in made.report.policies:
            assert f"<dt>{figure.label}</dt><dd>{figure.show(entry)}</dd>" in html
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
