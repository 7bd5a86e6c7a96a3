"""A name that two clusters share: every command that judges under it says so, and does its work."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from api.cli import run
from api.settings import Settings
from tests.recording import FEW_REPLICAS, START, deployment, recorded, take_in
from tests.serving import RunningServer

SENTENCE = "two clusters share the name lab: namespace kube-system"
_PAGES = ("/", "/try", "/violations", "/evidence", "/runs", "/fleets")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for number in (1, 2):
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": f"uid-{number}"}}
        events = [
            recorded(f"{number}-{at}", START, "create", obj) for at, obj in enumerate((system, deployment(f"web-{number}", 1)))
        ]
        take_in(tmp_path / "lake", events, f"{number}.jsonl")
    (tmp_path / "p.yaml").write_text(FEW_REPLICAS)
    return tmp_path / "lake"


COMMANDS = (
    *("violations", "doctor", "runs list", "calibrate", "replay -f p.yaml", "policy check -f p.yaml"),
    *(
        "publish file:///FOLDER/published",
        "expire --before 2026-06-01T00:00:00Z",
        "expire --plan --objects-before 2026-06-01T00:00:00Z",
    ),
)


@pytest.mark.parametrize("command", [each.split() for each in COMMANDS], ids=COMMANDS)
def test_commands_tell_of_it(
    lake: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    run(["--lake", str(lake), "-q", *(each.replace("/FOLDER", str(lake.parent)) for each in command)])
    assert capsys.readouterr().err.count("two clusters share the name lab: namespace kube-system") == 1


def test_every_answer_over_http_tells_of_it(lake: Path) -> None:
    with RunningServer(Settings(lake=lake, sink=False, query_port=0), lake.parent / "log") as server:

        def get(path: str) -> tuple[str, str]:
            with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.getheader("warning") or "", answer.read().decode()

        described = json.loads(get("/api/v1/openapi.json")[1])["paths"]
        paths = [path for path, ways in described.items() if "get" in ways and "{" not in path]
        deadline = time.monotonic() + 30
        while SENTENCE not in get("/api/v1/losses")[0] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(paths) > 10
        for path in (*paths, *_PAGES):
            warning, text = get(path)
            assert warning.startswith(f'299 hindcast "{SENTENCE}'), path
            assert path in paths or SENTENCE in text, path
        assert get("/healthz")[0] == ""
