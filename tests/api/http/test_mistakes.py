"""Mistakes over HTTP: the answer is 4xx and names the thing, before a job exists, and no odd value is an error of the server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.settings import Settings
from tests.hostile import CASES, MANIFESTS
from tests.querying import ORIGIN, QueryClient
from tests.yaml_text import load_yaml

YAML, JSON = ({"Content-Type": f"application/{kind}"} for kind in ("yaml", "json"))
BROKEN: list[dict[str, Any]] = load_yaml((CASES / "broken.yaml").read_text())


@pytest.fixture(scope="module")
def client(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryClient]:
    lake = tmp_path_factory.mktemp("hostile") / "lake"
    shutil.copytree(demo_lake, lake)
    with QueryClient(Settings(lake=lake), Accept="text/html, application/json") as asked:
        yield asked


def text_of(case: dict[str, Any]) -> str:
    text = (MANIFESTS / f"{case['of']}.yaml").read_text()
    assert case["from"] in text, case
    return text.replace(case["from"], case["to"], 1)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case['of']}: {case['to'][:30]}")
def test_a_mistake_is_answered_before_a_job_exists(
    client: QueryClient, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late a job would begin: nothing waits for one here."""
    for place in ("api.routes.jobs", "api.pages.tries"):
        monkeypatch.setattr(f"{place}._SETTLE_SECONDS", 0.0)
    text, before = text_of(case), len(client.get("/replays")["rows"])
    gate = json.dumps({"policies": [["policies", text]]})
    answers = [
        client.send("POST", "/replays", headers=YAML, content=text),
        client.send("POST", "/gates", headers=JSON, content=gate),
        client.send("POST", f"{ORIGIN}/try", data={"policies": text}),
    ]
    said = [*(each.json()["error"]["message"] for each in answers[:2]), answers[2].text]
    wanted = (
        [f"policies:{case['line']}: "] * 2 + [f"Line {case['line']} of the manifests"] if "line" in case else [case["says"]] * 3
    )
    assert [each.status_code for each in answers] == [400] * 3, said
    assert [words for words, text in zip(wanted, said, strict=True) if words not in text] == [], said[:2]
    assert len(client.get("/replays")["rows"]) == before
