"""Renderers print what the model says, escape what comes from the log, and need nothing from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.readiness.report import Report
from pipeline.readiness.words import percent
from pipeline.report.data import to_json
from pipeline.report.html import to_html
from pipeline.report.markdown import to_markdown
from pipeline.report.over_time import sparkline
from pipeline.stages.over_time import Tone, bars, over_time


def test_html_escapes_the_log_and_loads_nothing(report: Report) -> None:
    page = to_html(report)
    assert "<script" not in page
    assert "&lt;script&gt;alert" in page
    # The only addresses are XML namespaces of the SVG charts.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "NOT READY" in page
    assert "oldObject: no earlier version" in page
    assert "Deployment/cart-17 (pods)" in page.replace("<wbr>", "")


def test_each_reason_for_unknown_stands_once(report: Report) -> None:
    """The most frequent reasons are among those of the verdict. A table holds only the others."""
    first, *others = report.policies
    page = to_html(report)
    assert '<td class="text">oldObject: no earlier version' not in page
    assert "More that is unknown" not in page
    more = tuple((f"reason {number}", number) for number in (4, 3, 2, 1))
    page = to_html(replace(report, policies=(replace(first, unknown_reasons=more), *others)))
    assert "More that is unknown" in page
    assert [f'<td class="text">{reason}</td>' in page for reason, _ in more] == [False, False, False, True]


def test_control_characters_of_the_log_are_shown_as_escapes(report: Report) -> None:
    for text in (to_markdown(report), to_html(report)):
        assert "\\x1b" in text
        assert "\x1b" not in text


def test_html_of_an_empty_report_says_so(report: Report) -> None:
    page = to_html(replace(report, policies=(), recorded=(), evidence=(), first_ts=None, last_ts=None, clusters=()))
    assert "No policy was replayed." in page
    assert "no time" in page


def test_markdown_keeps_its_tables_whole(report: Report) -> None:
    lines = to_markdown(report).splitlines()
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    heads = [number for number, line in enumerate(lines) if line.startswith("| ---")]
    assert len(heads) >= 8
    for head in heads:
        width = len(re.findall(r"(?<!\\)\|", lines[head]))
        row = head - 1
        while row < len(lines) and lines[row].startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", lines[row])) == width, lines[row]
            row += 1
    assert widths
    assert "| image-registry | everywhere | ❌ NOT READY | 900 | 3 | 10 | 99 % |" in lines
    assert "| new-rule |  | ✅ READY | 0 | 0 | 0 | unknown |" in lines


def test_markdown_shows_no_markup_of_the_log(report: Report) -> None:
    lines = to_markdown(report).splitlines()
    code = [number for number, line in enumerate(lines) if line.startswith("    ")]
    # Four spaces after a blank line begin a block in which everything is text.
    assert all(lines[number - 1] == "" or number - 1 in code for number in code)
    text = "\n".join(line for number, line in enumerate(lines) if number not in code)
    assert not re.search(r"(?<!\\)`rm", text)
    assert re.findall(r"<(?!/?(?:details|summary)>)\w+", text) == []


def test_the_verdict_comes_first(report: Report) -> None:
    words = "1 of 4 policies may go to Deny; 1 may with exemptions, 1 not ready, 1 without enough evidence."
    for text in (to_markdown(report), to_html(report)):
        assert text.index(words) < text.index("would be denied")


def test_every_part_of_the_model_is_in_html_and_markdown(report: Report) -> None:
    for text in (to_markdown(report), to_html(report).replace("<wbr>", "")):
        for part in (
            "system:node:n1",
            "Deployment/web",
            "pods/old",
            "no-latest",
            "cart-9",
            "namespace pay-prod",
            "namespaceSelector",
            "pay-dev",
            "as recorded",
            "2026-11-01 10:00:00",
        ):
            assert part in text, part
    assert "Argo CD" in to_html(report)


def test_markdown_draws_counts_over_time_with_signs(report: Report) -> None:
    assert "| ▄·█ | 2026-11-01 10:00:00 | 21 | 14 |" in to_markdown(report)
    assert "| as recorded | ·█· |" in to_markdown(report)


def test_signs_for_many_spans_stand_for_several_of_them_each() -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    found = over_time(
        "Calls", "", "calls", 60, [bars("all", Tone.ADMITTED, ((start + timedelta(minutes=at), 1) for at in range(97)))]
    )
    assert found is not None
    assert sparkline(found, found.bars[0]) == "█" * 32 + "▃"


def test_json_round_trips_with_its_version(report: Report) -> None:
    data = json.loads(to_json(report))
    assert (data["apiVersion"], data["kind"]) == ("hindcast.report/v1", "ReadinessReport")
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


def test_the_html_report_has_a_contents_list_to_each_part(report: Report) -> None:
    page = to_html(report)
    contents = page.partition('aria-label="On this page"')[2].partition("</nav>")[0]
    listed = re.findall(r'href="#([^"]+)"', contents)
    assert {"evidence", *(f"policy-{number + 1}" for number in range(len(report.policies)))} <= set(listed)
    assert all(f'id="{name}"' in page for name in (*listed, "top"))
