"""Reads a page as a browser and a screen reader do, and names its faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

_VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
_LABELLED = ("input", "select", "textarea")
_REFERENCES = ("for", "aria-labelledby", "aria-describedby", "aria-errormessage", "aria-controls")
_URLS = ("href", "src", "action")


@dataclass
class Element:
    """One element with its attributes, its text and what is in it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> Iterator[Element]:
        """Every element of these kinds below this one, in the order of the page."""
        for child in self.children:
            if not tags or child.tag in tags:
                yield child
            yield from child.all(*tags)

    def words(self) -> str:
        """The text, with single spaces."""
        return " ".join(self.text.split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes <{self.open[-1].tag}>")
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def read_page(html: str) -> Element:
    """The page as a tree. Fails where elements are not closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    unclosed = [element.tag for element in reader.open[1:]]
    assert (reader.faults, unclosed) == ([], [])
    return reader.root


def faults(page: Element) -> list[str]:
    """What is wrong with a page for a browser under our policy, for a keyboard, or for a screen reader; empty for a good one."""
    return [*_ids(page), *_landmarks(page), *_headings(page), *_fields(page), *_tables(page), *_content(page)]


def _ids(page: Element) -> Iterator[str]:
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    yield from (f"id {name!r} is given twice" for name in sorted({name for name in ids if ids.count(name) > 1}))
    for element in page.all():
        for name in _REFERENCES:
            for target in element.attributes.get(name, "").split():
                if target not in ids:
                    yield f"<{element.tag} {name}={target!r}> names no element"
        if element.tag == "a" and element.attributes.get("href", "").startswith("#") and element.attributes["href"][1:] not in ids:
            yield f"a link leads to {element.attributes['href']}, which is not there"


def _landmarks(page: Element) -> Iterator[str]:
    html = next(page.all("html"), None)
    if html is None or not html.attributes.get("lang"):
        yield "the page has no language"
    for tag in ("main", "header", "footer"):
        if len(list(page.all(tag))) != 1:
            yield f"the page has not one <{tag}>"
    if [child.words() != "" for head in page.all("head") for child in head.children if child.tag == "title"] != [True]:
        yield "the page has no title"
    for nav in page.all("nav"):
        if not nav.attributes.get("aria-label"):
            yield "a <nav> has no name"
    first = next(page.all("a"), None)
    if first is None or first.attributes.get("href") != "#content":
        yield "the first link does not skip to the content"


def _headings(page: Element) -> Iterator[str]:
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3", "h4")]
    if levels.count(1) < 1 or levels[0] != 1:
        yield "the page does not begin with <h1>"
    for before, level in pairwise(levels):
        if level > before + 1:
            yield f"<h{level}> follows <h{before}>"


def _fields(page: Element) -> Iterator[str]:
    named = {label.attributes.get("for") for label in page.all("label") if label.words()}
    for element in page.all(*_LABELLED):
        if element.attributes.get("type") != "hidden" and element.attributes.get("id") not in named:
            yield f"<{element.tag} name={element.attributes.get('name')!r}> has no label"
    for element in page.all("a", "button", "summary"):
        if not element.words() and not element.attributes.get("aria-label"):
            yield f"a <{element.tag}> has no text"


def _tables(page: Element) -> Iterator[str]:
    for table in page.all("table"):
        caption = next(table.all("caption"), None)
        name = caption.words() if caption else ""
        if not name:
            yield "a table has no caption"
        heads = list(table.all("th"))
        if not heads or any(head.attributes.get("scope") not in ("col", "row") for head in heads):
            yield f"a head of the table {name!r} has no scope"
        columns = len([head for head in heads if head.attributes["scope"] == "col"])
        for row in next(table.all("tbody")).all("tr"):
            if len(row.children) != columns:
                yield f"a row of the table {name!r} has {len(row.children)} cells, its head has {columns}"


def _content(page: Element) -> Iterator[str]:
    """What could run or load something that is not ours."""
    for element in page.all():
        for name, value in element.attributes.items():
            if name.startswith("on") or name == "style":
                yield f"<{element.tag}> has the attribute {name}"
            if (name in _URLS and not value.startswith(("/", "#"))) or value.startswith("//"):
                yield f"<{element.tag}> leads to {value!r}"
    for script in page.all("script"):
        if not script.attributes.get("src", "").startswith("/static/") or script.words():
            yield "a script is not ours"
    for image in page.all("img", "iframe", "object", "embed", "style", "base"):
        yield f"<{image.tag}> is on the page"
    for picture in page.all("svg"):
        if picture.attributes.get("aria-hidden") != "true" and not picture.attributes.get("aria-label"):
            yield "a picture has no name"
