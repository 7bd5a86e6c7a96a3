"""A CustomResourceDefinition over HTTP, on the pages, and watched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from api.cli import run
from api.settings import Settings
from tests.pipeline.stages.schema.test_replay import STORIES
from tests.querying import QueryClient
from tests.recording import take_in

STORY = next(each for each in STORIES if each.case["name"].startswith("a field that the new schema does not know is dropped"))
NAME = STORY.definition(STORY.case["new"])["metadata"]["name"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("surfaces") / "lake", STORY.events)


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as found:
        yield found


@pytest.fixture(scope="module")
def run_id(client: QueryClient) -> str:
    """A finished replay of the new definition."""
    text = yaml.safe_dump(STORY.definition(STORY.case["new"]))
    return str(client.replayed(text)["run_id"])


def test_a_page_shows_which_fields_would_be_stored_otherwise(client: QueryClient, run_id: str) -> None:
    text = client.page(f"/runs/{run_id}")
    assert "Can these definitions be put into force?" in text
    assert "under 1 manifest," in text
    assert "What would be stored otherwise" in text
    assert "<del><code>true</code></del>" in text
    assert "<ins><code>2</code></ins>" in text
    changed = next(row for row in client.rows(f"/runs/{run_id}/verdicts") if row["decision"] == "change")
    assert f">{changed['audit_id']}<" not in text
    assert f'audit_id={changed["audit_id"]}">{changed["verb"]} ' in text


def test_the_page_of_a_request_shows_its_difference(client: QueryClient, run_id: str) -> None:
    (changed,) = (row for row in client.rows(f"/runs/{run_id}/verdicts") if row["decision"] == "change")
    assert [each["path"] for each in json.loads(changed["detail"])["changes"]] == ["spec.privileged", "spec.retries"]
    text = client.page(f"/runs/{run_id}/request?cluster=lab&audit_id={changed['audit_id']}&policy={NAME}")
    assert "What would be stored otherwise" in text
    assert "<del><code>true</code></del>" in text
    assert "failurePolicy" not in text


def test_the_api_has_the_readiness_of_a_definition(client: QueryClient, run_id: str) -> None:
    (found,) = client.get(f"/runs/{run_id}/readiness")["policies"]
    assert (found["stage"], found["policy"]) == ("schema", NAME)


def test_a_watch_judges_a_definition(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump(STORY.definition(STORY.case["new"])))
    assert run(["-q", "--lake", str(lake), "watch", "-f", str(file), "--once", "-o", "json"]) == 0
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert line["policy"] == NAME
