"""A chain of authorizers on the pages, in a gate, in a watch, and in the report of its readiness."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from api.cli import run
from api.settings import Settings
from tests.pipeline.stages.conditions.test_explain import TEXT
from tests.pipeline.stages.conditions.test_stage import lake
from tests.querying import QueryClient

__all__ = ["lake"]


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as found:
        yield found


@pytest.fixture(scope="module")
def run_id(client: QueryClient) -> str:
    """A finished replay of the chain."""
    return str(client.replayed(TEXT)["run_id"])


def page(client: QueryClient, path: str) -> str:
    """The words of a page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", client.page(path).replace("<wbr>", ""))).split())


def test_the_page_of_a_replay_shows_counterexamples_and_selectors(client: QueryClient, run_id: str) -> None:
    text = page(client, f"/runs/{run_id}")
    assert "Proved: the chain allows every object that these selectors can select." in text
    assert "-n shop -l owner=lucas metadata: labels: env: prod owner: lucas name: prod namespace: shop" in text
    assert "-n shop -l env=dev,owner=lucas" in text
    assert "No server serves this design yet." in text


def test_the_page_of_a_refuted_list_shows_the_object_and_the_selectors_to_ask(client: QueryClient, run_id: str) -> None:
    text = page(client, f"/runs/{run_id}/request?audit_id=id-3")
    assert "Refuted: these selectors select a recorded object that the chain does not allow." in text
    assert "The chain allows an object if owner=lucas and (" in text
    assert "This object is selected, and not allowed metadata: labels: env: prod owner: lucas name: prod namespace: shop" in text
    assert 'It is refused because a1: condition "vis" evaluated to NoOpinion; a2: no conditions matched.' in text
    assert "1 recorded object is selected and not allowed: shop/prod." in text
    assert "Ask instead" in text
    assert "-n shop -l env=dev,owner=lucas" in text
    assert "No server serves this design yet." in text
    text = page(client, f"/runs/{run_id}/request?audit_id=id-0")
    assert "none is recorded." in text


def test_the_page_of_a_proved_list_says_so(client: QueryClient, run_id: str) -> None:
    text = page(client, f"/runs/{run_id}/request?audit_id=id-2")
    assert "Proved: the chain allows every object that these selectors can select." in text
    assert "Ask instead" not in text


def test_the_page_of_a_downgraded_list_shows_what_the_server_would_answer(client: QueryClient) -> None:
    run_id = str(client.replayed(TEXT.replace("spec:", "spec:\n  reads: Downgrade"))["run_id"])
    assert "Downgrade The server would answer this instead: -n shop -l env=dev" in page(
        client, f"/runs/{run_id}/request?audit_id=id-8"
    )
    assert "Downgrade not expressible as one selector" in page(client, f"/runs/{run_id}/request?audit_id=id-3")


def test_the_page_of_a_write_says_why_it_is_refused(client: QueryClient, run_id: str) -> None:
    text = page(client, f"/runs/{run_id}/request?audit_id=id-14")
    assert "Answer 403" in text
    assert "no conditions matched" in text
    # A condition that reads an absent field ends in an error, and the server answers 500.
    assert "the server answers with an internal error" in page(client, f"/runs/{run_id}/request?audit_id=id-15")


def test_a_gate_and_a_watch_judge_a_chain(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, html = tmp_path / "old.yaml", tmp_path / "new.yaml", tmp_path / "chain.html"
    old.write_text(TEXT)
    new.write_text(TEXT.replace('env == "dev"', 'env == "stage"'))
    gate = ["-q", "--lake", str(lake), "gate", "-f", str(new), "--against", str(old), "-o", "json"]
    assert run(gate) == 1
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert (found["stage"], found["policy"], found["status"]) == ("conditions", "doc", "NEW DENIALS")
    assert {each["user"] for each in found["counterexamples"]} == {"lucas"}
    assert run(["-q", "--lake", str(lake), "watch", "-f", str(old), "--once", "-o", "json"]) == 0
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert (line["policy"], line["status"]) == ("doc", "NOT READY")
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(old), "-o", "html", "--report-file", str(html)]) == 0
    assert "simulated: no released server has it" in html.read_text()
