"""The pages in a real browser: pictures at desktop and phone width, light and dark, and what a person meets there.

HINDCAST_SCREENSHOTS names a folder in which the pictures are kept.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from api.ask.query_app import create_query_app
from api.settings import Settings
from tests.browsing import Browser, needs_browser

pytestmark = needs_browser

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"
# Each text against the nearest background behind it, by the formula of WCAG 2.2; large text needs less.
CONTRAST = """
(() => {
  const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("svg, .visually-hidden") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(channels(style.color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.5 && style.fontWeight >= 700) ? 3 : 4.5)) {
      weak.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)} ${element.textContent.trim().slice(0, 40)}`);
    }
  }
  return weak;
})()
"""
# What reaches beyond the window although it does not lie in a box that scrolls by itself.
TOO_WIDE = """
[...document.querySelectorAll("body *")]
  .filter((element) => element.checkVisibility() && !element.closest(".scroll, .code, .visually-hidden, .skip, svg"))
  .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((element) => `${element.tagName}.${element.className}`)
"""
# Everything on a page that is folded until a reader opens it.
UNFOLD = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
# What a screen reader or a keyboard stumbles over: headings out of order, fields without labels, boxes that no key can scroll.
OBSTACLES = """
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const named = (element) => element.textContent.trim() || element.getAttribute("aria-label");
  const headings = all("h1, h2, h3, h4, h5").filter((heading) => heading.checkVisibility());
  const levels = headings.map((heading) => Number(heading.tagName[1]));
  const ids = all("[id]").map((element) => element.id);
  const known = (list) => list.split(" ").every((id) => document.getElementById(id));
  const found = {
    "one h1": levels.filter((level) => level === 1).length !== 1,
    "a level of headings is left out": levels.some((level, at) => at && level > levels[at - 1] + 1),
    "no main": all("main").length !== 1,
    "no language": !document.documentElement.lang,
    "a field without a label": all("input, select, textarea").some((field) => field.type !== "hidden" && !field.labels.length),
    "a heading of a table without scope": all("th:not([scope])").length > 0,
    "a table without a name": all("table").some((table) => !table.caption && !table.closest("[aria-label]")),
    "a link without words": all("a, button, summary").some((element) => !named(element)),
    "a section without a name": all("section:not([aria-label], [aria-labelledby])").length > 0,
    "a reference to nothing": all("[aria-labelledby]").some((element) => !known(element.getAttribute("aria-labelledby"))),
    "an identifier twice": ids.length !== new Set(ids).size,
    "an order of its own": all("[tabindex]").some((element) => element.tabIndex > 0),
    "a box that no key can scroll": all(".scroll").some((box) => box.scrollWidth > box.clientWidth && box.tabIndex < 0),
  };
  return Object.keys(found).filter((name) => found[name]);
})()
"""


@dataclass(frozen=True, slots=True)
class Site:
    """The pages on a port of this machine."""

    origin: str
    paths: dict[str, str]


@pytest.fixture(scope="module")
def origin(replayed_lake: Path) -> Iterator[str]:
    """The query application, served by a thread."""
    config = uvicorn.Config(
        create_query_app(Settings(lake=replayed_lake, query_seconds_max=200)), port=0, log_config=None, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def site(origin: str, browser: Browser) -> Site:
    """The pages to look at, found by walking from the first."""
    browser.look(1280, 900, "light")
    browser.open(f"{origin}/")
    while browser.ask("document.querySelector('#awaited') !== null"):
        browser.open(f"{origin}/")
    link = "[...document.querySelectorAll('.policies a')].find(a => a.textContent === '{}').getAttribute('href')"
    policy = browser.ask(link.format("image-registry"))
    markup = browser.ask(link.format("markup"))
    run = "/".join(policy.split("/")[:3])
    browser.open(f"{origin}{run}/requests?policy=deny-external-ips&outcome=deny")
    request = browser.ask("document.querySelector('tbody a').getAttribute('href')")
    browser.open(f"{origin}/violations")
    row = "[...document.querySelectorAll('tbody tr')].find(row => /update/.test(row.cells[0].textContent))"
    update = browser.ask(f"{row}.querySelector('a').getAttribute('href')")
    browser.open(f"{origin}/fleets")
    fleet = browser.ask("document.querySelector('tbody a').getAttribute('href')")
    paths = {
        "overview": "/",
        "policy": policy,
        "policy-markup": markup,
        "replay": run,
        "rollout": f"{run}/rollout",
        "requests": f"{run}/requests?policy=image-registry&outcome=deny",
        "request": request,
        "difference": update,
        "recorded": "/violations?kind=denials",
        "try": "/try",
        "evidence": "/evidence",
        "fleets": "/fleets",
        "fleet": fleet,
        "not-found": "/runs/0123456789abcdef",
    }
    return Site(origin, paths)


PAGES = (
    "overview",
    "policy",
    "policy-markup",
    "replay",
    "rollout",
    "requests",
    "request",
    "difference",
    "recorded",
    "try",
    "evidence",
    "fleets",
    "fleet",
    "not-found",
)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_can_be_read_and_runs_nothing_else(
    site: Site, browser: Browser, name: str, size: str, scheme: str, tmp_path: Path
) -> None:
    width, height = SIZES[size]
    browser.look(width, height, scheme)
    browser.complaints.clear()
    browser.open(site.origin + site.paths[name])
    picture = browser.screenshot()
    folder = Path(os.environ.get("HINDCAST_SCREENSHOTS") or tmp_path)
    (folder / f"{name}-{size}-{scheme}.png").write_bytes(picture)
    assert struct.unpack(">II", picture[16:24]) == (width, height)
    assert browser.ask("innerWidth") == width
    browser.ask(UNFOLD)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(TOO_WIDE) == []
    assert browser.ask(CONTRAST) == []
    assert browser.ask(OBSTACLES) == []
    assert [text for text in browser.complaints if "404" not in text] == []
    # The style was loaded, and follows the reader's wish.
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(246, 247, 249)", "dark": "rgb(15, 20, 26)"}[scheme]


def test_a_link_to_a_folded_section_opens_it(site: Site, browser: Browser) -> None:
    """Sections that few readers need are one line. The contents list, an address and a sorted table still lead into them."""
    browser.look(1280, 900, "light")
    browser.open(site.origin + site.paths["policy"])
    is_open = "document.getElementById('namespaces').checkVisibility()"
    assert not browser.ask(is_open)
    browser.ask("document.querySelector('.contents a[href=\"#namespaces\"]').click()")
    browser.wait_until(is_open)
    browser.wait_until("document.getElementById('namespaces-title').getBoundingClientRect().top < innerHeight")
    sorts = browser.ask("document.querySelector('#table-namespaces thead a').getAttribute('href')")
    browser.open(f"{site.origin}/evidence")
    browser.open(site.origin + sorts)
    browser.wait_until(is_open)
    titles = browser.ask("[...document.querySelectorAll('h2')].map((title) => title.checkVisibility())")
    assert all(titles)


def test_the_keyboard_reaches_the_content_first_and_everything_after(site: Site, browser: Browser) -> None:
    browser.look(1280, 900, "light")
    browser.open(site.origin + site.paths["requests"])
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    browser.wait_until("document.activeElement.getBoundingClientRect().top >= 0")
    assert browser.ask("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    browser.press("Enter")
    assert browser.ask("document.activeElement.id") == "content"
    reached = set()
    for _ in range(22):
        browser.press("Tab")
        reached.add(
            browser.ask("document.activeElement.name || document.activeElement.className || document.activeElement.tagName")
        )
        assert browser.ask("document.querySelector('main').contains(document.activeElement)")
        assert browser.ask("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    assert {"policy", "outcome", "namespace", "user", "since", "until", "find", "link", "scroll"} <= reached


def test_a_policy_is_tried_in_the_browser_and_its_mistakes_are_shown(site: Site, browser: Browser) -> None:
    browser.look(1280, 900, "light")
    browser.complaints.clear()
    browser.open(f"{site.origin}/try")
    fill = "document.querySelector('#policies').value = {!r}; document.querySelector('#calibrate').checked = false; 1"
    press = "document.querySelector('main form button').click()"
    text = POLICY.read_text(encoding="utf-8").replace("deny-external-ips", "tried-in-a-browser")
    browser.ask(fill.format(text.replace("has(object.spec.externalIPs)", "has(object.spec.externalIPs")))
    browser.ask(press)
    browser.wait_until("document.querySelector('[role=alert]')")
    assert "Syntax error" in browser.ask("document.querySelector('[role=alert]').textContent")
    assert browser.ask("document.querySelector('#policies').value").strip().startswith("# Anyone who may set")
    browser.ask(fill.format(text))
    browser.ask(press)
    browser.wait_until("location.pathname.startsWith('/runs/')")
    browser.wait_until("document.querySelector('.policies a')")
    assert browser.ask("document.querySelector('.policies a').textContent") == "tried-in-a-browser"
    assert [text for text in browser.complaints if "400" not in text] == []


def test_a_print_begins_on_its_first_page_and_leaves_folded_parts_out(site: Site, browser: Browser) -> None:
    """The decision and its reasons stand on the first sheet; a policy takes a few sheets, and its SQL none of them."""
    browser.look(1280, 900, "light")
    browser.open(site.origin + site.paths["policy"])
    printed = browser.printed()
    assert printed.count(b"/Type /Page\n") <= 8
    browser.print_media()
    assert browser.ask("document.querySelector('.reasons li').getBoundingClientRect().top") < 500
    assert not browser.ask("[...document.querySelectorAll('.query')].some((text) => text.checkVisibility())")


def test_the_decision_stays_in_sight_on_a_phone(site: Site, browser: Browser) -> None:
    browser.look(390, 844, "light")
    browser.open(site.origin + site.paths["policy"])
    browser.ask("window.scrollTo(0, 3000)")
    top, bottom = browser.ask(
        "(() => { const box = document.querySelector('.badge').getBoundingClientRect(); return [box.top, box.bottom]; })()"
    )
    assert 0 <= top < bottom < 120
