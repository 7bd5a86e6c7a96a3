"""The documentation site builds without a warning, loads nothing from a network, and forgets no view, command, route or metric."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from prometheus_client import generate_latest

from api.cli import COMMANDS, _loaded
from docs.generator import data, http
from docs.generator.__main__ import DOCS, with_all_pages
from docs.generator.data import TABLES
from ingest.telemetry import SinkMetrics
from queries.catalog import statements
from tests.browsing import Browser, needs_browser

ROOT = Path(__file__).parents[1]
# What a browser fetches to show a page. A link is only followed by its reader.
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "link": "href"}


class Page(HTMLParser):
    """One page: what it fetches, its links, its anchors and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if (place := given.get(_FETCHED.get(tag, ""))) and given.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.fetched.append(place)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        self.anchors |= {value for value in (given.get("id"), given.get("name")) if value}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. The generator reaches no network: every proxy is a closed port."""
    out = tmp_path_factory.mktemp("site") / "site"
    nowhere = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https", "all")}
    done = subprocess.run(
        [sys.executable, "-m", "docs.generator", "--out", str(out)],
        cwd=ROOT,
        env={"PATH": str(Path(sys.executable).parent), **nowhere},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {str(file.relative_to(site)): Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}


# The search box and its answers lie in a tree of their own.
_ASK = """
(() => {
  const inside = (each) => (each.shadowRoot ? walk(each.shadowRoot) : []);
  const walk = (root) => [...root.querySelectorAll("*")].flatMap((each) => [each, ...inside(each)]);
  const is_answer = (each) => each.tagName === "A" && /[?&]h=idempotent/.test(each.href);
  const box = walk(document).find((each) => each.tagName === "INPUT" && each.placeholder === "Search");
  box.value = "idempotent";
  box.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
  window.answers = () => walk(document).filter(is_answer).map((each) => each.href);
})()
"""


@needs_browser
def test_the_search_answers_from_a_folder(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.look(1280, 900, "light")
        browser.open((site / "index.html").as_uri())
        browser.wait_until("typeof __index !== 'undefined'")
        browser.ask("document.querySelector('.md-search__button').click()")
        browser.wait_until("document.querySelectorAll('*').length && [...document.body.children].some((each) => each.shadowRoot)")
        browser.ask(_ASK)
        browser.wait_until("window.answers().length > 0")
        assert any("glossary.html" in address for address in browser.ask("window.answers()"))
        assert browser.complaints == []


def test_no_page_names_the_generator_and_each_has_our_logo(site: Path) -> None:
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert "Made with" not in text
        assert "hindcast.svg" in text


def test_no_page_fetches_anything_from_a_network(site: Path, pages: dict[str, Page]) -> None:
    assert len(pages) > 20
    assert [(name, place) for name, page in pages.items() for place in page.fetched if "//" in place] == []
    styles = {str(file): file.read_text(encoding="utf-8") for file in site.rglob("*.css")}
    assert styles
    assert [place for text in styles.values() for place in re.findall(r"(?:url\(|@import )[\"']?(https?:[^\"')]+)", text)] == []


def test_every_page_of_the_folder_is_in_the_site(pages: dict[str, Page]) -> None:
    written = {str(file.relative_to(DOCS).with_suffix(".html")) for file in DOCS.rglob("*.md")}
    assert written <= set(pages)
    reached = {link.partition("#")[0].removeprefix("./") for link in pages["index.html"].links}
    assert {name for name in written if name not in reached} == set()


def test_links_between_pages_lead_to_anchors_that_exist(site: Path, pages: dict[str, Page]) -> None:
    broken = []
    for name, page in pages.items():
        for link in page.links:
            place, _, anchor = link.partition("#")
            if "//" in link or link.startswith(("mailto:", "/")):
                continue
            target = (site / name).parent / unquote(place) if place else site / name
            found = pages.get(str(target.resolve().relative_to(site.resolve())))
            if found is None or (anchor and unquote(anchor) not in found.anchors):
                broken.append((name, link))
    assert broken == []


def test_the_data_dictionary_has_every_view_and_table(pages: dict[str, Page]) -> None:
    page = pages["reference/data.html"]
    for statement in statements():
        assert statement.name in page.text
        assert statement.kind == "check" or statement.name in page.anchors
        assert all(
            " ".join(text.replace("`", "").split()) in " ".join(page.text.split())
            for text in statement.names.values()
            if "|" not in text
        )
    for name, (_, schema) in TABLES.items():
        assert f"{name}-stored" in page.anchors
        assert [field.name for field in schema if field.name not in page.text] == []


def test_every_column_of_the_data_dictionary_has_a_meaning() -> None:
    rows = [line for line in data.page().splitlines() if line.startswith("| `")]
    assert len(rows) > 300
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


def test_the_page_of_commands_has_every_option(pages: dict[str, Page]) -> None:
    page = pages["reference/commands.html"]
    for name in COMMANDS:
        assert f"hindcast-{name}" in page.anchors
        options = [word for option in _loaded(name).params if option.param_type_name == "option" for word in option.opts]
        assert [word for word in options if word not in page.text] == []


def test_the_page_of_the_http_api_has_every_route(pages: dict[str, Page]) -> None:
    page, described = pages["reference/http.html"], http.description()
    assert len(described["paths"]) > 15
    routes = [(path, method, each) for path, methods in described["paths"].items() for method, each in methods.items()]
    assert [path for path, method, _ in routes if f"{method.upper()} {path}" not in page.text] == []
    assert [each["name"] for *_, route in routes for each in route.get("parameters", ()) if each["name"] not in page.text] == []


def test_the_page_of_metrics_has_every_metric(pages: dict[str, Page]) -> None:
    names = set(re.findall(r"^# HELP (\S+)", generate_latest(SinkMetrics().registry).decode(), re.MULTILINE))
    shown = pages["reference/metrics.html"].text
    assert {name for name in names if name.endswith("_created") is False and name not in shown} == set()


def test_a_page_that_the_navigation_forgets_is_added(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.md").write_text("# B")
    made = with_all_pages('[project]\nnav = [\n    "a.md",\n]\n', tmp_path)
    assert made == '[project]\nnav = [\n    "a.md",\n    { "More" = ["b.md"] },\n]\n'


def test_a_link_to_a_missing_page_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[nowhere](missing.md)\n")
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "x"\n')
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr


def examples() -> Iterator[tuple[str, str]]:
    """Each page with its text, as written by hand."""
    for file in sorted(DOCS.rglob("*.md")):
        yield str(file.relative_to(DOCS)), file.read_text(encoding="utf-8")


def test_pages_have_one_title() -> None:
    titles = {
        name: re.findall(r"^# .+", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE) for name, text in examples()
    }
    assert {name: found for name, found in titles.items() if len(found) != 1} == {}
