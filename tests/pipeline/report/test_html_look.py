"""The HTML report in a real browser: pictures at desktop and phone width, light and dark, opened from a file without a network.

HINDCAST_SCREENSHOTS names a folder in which the pictures are kept.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.readiness.report import Report
from pipeline.report.html import to_html
from tests.api.pages.test_look import CONTRAST, OBSTACLES, TOO_WIDE, UNFOLD
from tests.browsing import Browser, needs_browser

pytestmark = needs_browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
BACKGROUND = {"light": "rgb(246, 247, 249)", "dark": "rgb(15, 20, 26)"}
SHOWN_CHARTS = "[...document.querySelectorAll('.chart svg')].filter(svg => svg.checkVisibility())"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("scheme", BACKGROUND)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("any_report", ["full", "empty", "long", "controls"], indirect=True)
def test_it_fits_the_window_can_be_read_and_loads_nothing(
    any_report: Report, browser: Browser, size: str, scheme: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = tmp_path / "report.html"
    page.write_text(to_html(any_report), encoding="utf-8")
    width, height = SIZES[size]
    browser.look(width, height, scheme)
    browser.complaints.clear()
    browser.open(page.as_uri())
    picture = browser.screenshot()
    folder = Path(os.environ.get("HINDCAST_SCREENSHOTS") or tmp_path)
    (folder / f"report-{request.node.callspec.params['any_report']}-{size}-{scheme}.png").write_bytes(picture)
    assert struct.unpack(">II", picture[16:24]) == (width, height)
    # Its folded parts must fit, too.
    browser.ask(UNFOLD)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(TOO_WIDE) == []
    assert browser.ask(CONTRAST) == []
    assert browser.ask(OBSTACLES) == []
    assert browser.complaints == []
    assert browser.ask("performance.getEntriesByType('resource').length") == 0
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == BACKGROUND[scheme]


def test_charts_have_words_and_fit(report: Report, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(to_html(report), encoding="utf-8")
    for width, height in SIZES.values():
        browser.look(width, height, "light")
        browser.open(page.as_uri())
        # Exposure, heat map, counts over time, and for each of the two policies with traffic its days and owners.
        assert browser.ask(f"{SHOWN_CHARTS}.length") == 7
        assert browser.ask(f"{SHOWN_CHARTS}.every(svg => svg.closest('[role=img]').getAttribute('aria-label').length > 40)")
        # Text within a chart is not so small that nobody can read it.
        text = f"{SHOWN_CHARTS}.flatMap(svg => [...svg.querySelectorAll('text')]).map(text => text.getBoundingClientRect().height)"
        assert browser.ask(f"Math.min(...{text}.filter(height => height > 0))") >= 10


def test_identifiers_are_unique(report: Report, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(to_html(report), encoding="utf-8")
    browser.open(page.as_uri())
    ids = browser.ask("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
