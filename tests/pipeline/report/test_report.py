"""Renderers print what the model says, escape what comes from the log, and need nothing from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from pipeline.readiness.model import DayCount, Denials, Exposure, Fidelity, Owner, PolicyReadiness, Status
from pipeline.readiness.rules import ReadinessRules
from pipeline.report.data import to_json
from pipeline.report.html import to_html
from pipeline.report.markdown import to_markdown
from pipeline.report.model import EvidenceRow, RecordedPolicy, Report
from pipeline.report.words import percent

START, END = datetime(2026, 11, 1, 8, tzinfo=UTC), datetime(2026, 11, 21, 17, 30, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script> | `rm`\nsecond line"

REPORT = Report(
    title="Readiness of image-registry",
    clusters=("lab-1",),
    first_ts=START,
    last_ts=END,
    events=16375,
    requests=16302,
    run_id="5f3c",
    kubernetes_version="1.36",
    rules=ReadinessRules(),
    policies=(
        PolicyReadiness(
            policy="image-registry",
            binding="everywhere",
            actions=("Audit",),
            status=Status.NOT_READY,
            reasons=("3 of 890 judged requests (0.3%) would have been denied",),
            exposure=Exposure(900, 890, 10, 60, 4, 5, 20.4, 21, START, END),
            denials=Denials(3, 1, 1, 1, START, END, 0.0, 0.08),
            fidelity=Fidelity(100, 99),
            unknown_reasons=(("oldObject: no earlier version", 10),),
            owners=(Owner("pay-prod", "pods", "Deployment/cart-17", HOSTILE, 3, START, END, HOSTILE, "a1"),),
            days=(DayCount(date(2026, 11, 1), 10, 3, 1), DayCount(date(2026, 11, 2), 12, 0, 0)),
        ),
        PolicyReadiness("new-rule", None, (), Status.READY, ("clean",), Exposure(), Denials(), Fidelity()),
    ),
    recorded=(RecordedPolicy("image-registry", "everywhere", 12, 2, 3, 4, START, END),),
    evidence=(EvidenceRow("deployments.apps", 900, 880, 2),),
    caveats=("up to Kubernetes 1.36 only the first failure of a request is recorded",),
)


def test_html_escapes_the_log_and_loads_nothing() -> None:
    page = to_html(REPORT)
    assert "<script" not in page
    assert "&lt;script&gt;alert" in page
    # The only addresses are XML namespaces of the SVG charts.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "NOT READY" in page
    assert "oldObject: no earlier version" in page
    assert "Deployment/cart-17 (pods)" in page
    assert page.count("<svg") == 1


def test_html_of_an_empty_report_says_so() -> None:
    page = to_html(replace(REPORT, policies=(), recorded=(), evidence=(), first_ts=None, last_ts=None, clusters=()))
    assert "No policy was replayed." in page
    assert "no time" in page


def test_markdown_keeps_its_tables_whole() -> None:
    lines = to_markdown(REPORT).splitlines()
    for row in (line for line in lines if line.startswith("| pay-prod")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 7
    assert "| image-registry | everywhere | ❌ NOT READY | 900 | 3 | 10 | 99 % |" in lines
    assert "| new-rule |  | ✅ READY | 0 | 0 | 0 | not known |" in lines


def test_json_round_trips_with_its_version() -> None:
    data = json.loads(to_json(REPORT))
    assert (data["apiVersion"], data["kind"]) == ("hindcast/v1", "ReadinessReport")
    assert data["policies"][0]["status"] == "NOT READY"
    assert data["policies"][0]["fidelity"]["agreement"] == 0.99
    assert data["policies"][0]["exposure"]["first_ts"] == "2026-11-01T08:00:00Z"
    assert data["policies"][0]["days"][0]["day"] == "2026-11-01"


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.9999, "> 99.9 %"), (0.0001, "< 0.1 %"), (0.95, "95 %"), (0.1234, "12.3 %")],
)
def test_percent_never_rounds_the_last_request_away(share: float, words: str) -> None:
    assert percent(share) == words
