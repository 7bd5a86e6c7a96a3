"""Walks the pages as a person does, without a browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.markup import Element, faults, read_page
from tests.querying import QueryClient

ORIGIN = "http://127.0.0.1:7444"


class Pages:
    """Walks the pages as a person does."""

    def __init__(self, client: QueryClient) -> None:
        self._client = client

    def answer(self, path: str, method: str = "GET", **given: Any) -> httpx.Response:
        return self._client.send(method, f"{ORIGIN}{path}", **given)

    def page(self, path: str, status: int = 200) -> Element:
        """A page that must be without faults."""
        response = self.answer(path)
        assert response.status_code == status, (path, response.text[-2000:])
        assert "text/html" in response.headers["content-type"]
        page = read_page(response.text)
        assert faults(page) == [], path
        return page

    def link(self, path: str, text: str) -> str:
        """Where the first link with this text leads."""
        return next(link.attributes["href"] for link in self.page(path).all("a") if text in link.words())

    def run_of(self, policy: str) -> str:
        """The newest run that tried a policy."""
        return urlsplit(self.link("/", policy)).path.split("/")[2]


def main(page: Element) -> str:
    return next(page.all("main")).words()


def links(page: Element, part: str) -> list[str]:
    return [link.attributes["href"] for link in page.all("a") if part in link.attributes["href"]]
