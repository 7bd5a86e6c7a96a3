"""An address without a page answers with a page that names the problem. HEAD answers with headers alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.ask.heads import HeadAsGet
from api.cli import run
from api.settings import Settings
from tests.markup import faults, read_page
from tests.pipeline.stages.authorization.test_stage import ANN_READS, RBAC
from tests.querying import QueryClient
from tests.recording import take_in
from tests.walking import Pages, main

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/no/such/page", 404, "no page has the address /no/such/page"),
        ("GET", "/replays", 404, "no page has the address /replays"),
        ("DELETE", "/violations", 405, "/violations does not take DELETE"),
        ("GET", "/runs/..%2F..%2Fmanifest", 404, "no page has the address"),
    ],
)
def test_an_unknown_address_is_a_page_for_a_browser_and_json_for_a_program(
    pages: Pages, method: str, path: str, status: int, said: str
) -> None:
    response = pages.answer(path, method, headers=BROWSER)
    assert response.status_code == status
    page = read_page(response.text)
    assert faults(page) == []
    assert said in main(page)
    assert "default-src 'none'" in response.headers["content-security-policy"]
    for accept in ("application/json", "*/*"):
        response = pages.answer(path, method, headers={"Accept": accept})
        assert response.status_code == status
        assert set(response.json()["error"]) == {"code", "message", "hint"}


def test_an_unknown_address_of_the_api_stays_json_for_everybody(pages: Pages) -> None:
    response = pages.answer("/api/v1/nothing", headers=BROWSER)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_a_filter_that_a_page_does_not_know_is_refused(pages: Pages) -> None:
    text = main(pages.page("/violations?namespce=shop", 400))
    assert "'namespce' is not a parameter of this page" in text
    assert "namespace" in text


def test_a_stranger_with_a_browser_reads_a_page(pages: Pages) -> None:
    response = pages.answer("/", headers={**BROWSER, "Host": "elsewhere.example"})
    assert response.status_code == 403
    assert "does not answer to the name" in main(read_page(response.text))
    style = next(link.attributes["href"] for link in read_page(response.text).all("link") if "css" in link.attributes["href"])
    assert pages.answer(style, headers={"Host": "elsewhere.example"}).status_code == 200
    assert pages.answer(style, "POST", headers={"Host": "elsewhere.example"}).status_code == 403


@pytest.mark.parametrize(
    "path", ["/", "/try", "/static/hindcast.css", "/healthz", "/api/v1/clusters", "/api/v1/openapi.json", "/nothing", "/runs/none"]
)
def test_head_answers_as_get_does_without_the_body(pages: Pages, path: str) -> None:
    get, head = pages.answer(path), pages.answer(path, "HEAD")
    assert head.content == b""
    assert head.status_code == get.status_code
    own = ("content-length", "x-request-id")
    assert {name: value for name, value in head.headers.items() if name not in own} == {
        name: value for name, value in get.headers.items() if name not in own
    }


def test_the_head_of_a_stream_is_the_whole_answer() -> None:
    sent: list[Message] = []

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"event", "more_body": True})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(HeadAsGet(streams)({"type": "http", "method": "HEAD"}, receive, send))
    assert [(message["type"], message.get("body"), message.get("more_body")) for message in sent] == [
        ("http.response.start", None, None),
        ("http.response.body", b"", False),
    ]


def test_a_replay_of_roles_has_a_page(tmp_path: Path) -> None:
    """Such a replay stands in the list of replays, so its link leads to a page and not to an error."""
    lake = take_in(
        tmp_path / "lake",
        ANN_READS,
    )
    roles = tmp_path / "roles.yaml"
    roles.write_text(f"{{apiVersion: {RBAC}/v1, kind: ClusterRole, metadata: {{name: see}}, rules: []}}")
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(roles), "--workers", "1"]) == 0
    (stored,) = (lake / "runs").iterdir()
    with QueryClient(Settings(lake=lake)) as client:
        pages = Pages(client)
        address = pages.link("/", stored.name)
        found = pages.page(address)
        while "Hindcast computes the verdicts" in (text := main(found)):
            found = pages.page(address)
        assert "Replay of roles" in text
        assert "newly denied" in text
        assert "ann" in text
        # A row is short: its reason and rule are folded away.
        (folded,) = [element.words() for element in found.all("details") if "cannot get" in element.words()]
        assert "The rule that decided: ClusterRoleBinding/all" in folded
        rows = pages.answer(f"/runs/{stored.name}?table=affected&format=json").json()["rows"]
        assert [(row["flip"], row["requests"], row["user"], row["verb"]) for row in rows] == [("newly denied", 4, "ann", "get")]
