"""Events whose `level` no API server writes: nothing takes them for complete, and every surface says what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.cli import run
from api.settings import Settings
from queries.ledger import Severity, loss_answer
from tests.querying import ORIGIN, QueryClient
from tests.recording import FEW_REPLICAS, Log, deployment, take_in


@pytest.fixture(params=["", "xxx"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    log = Log()
    for number in range(3):
        log.write("create", deployment(f"web-{number}", 1), level="Metadata")
    for line in log.lines:
        line["level"] = request.param
    return take_in(tmp_path / "lake", log.lines)


def test_commands_and_pages_say_what_is_missing(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(FEW_REPLICAS)
    start = ["--lake", str(lake)]
    assert run([*start, "doctor"]) == 0
    found = capsys.readouterr()
    assert "level_unknown" in found.out
    assert "no loss is known, but evidence is withheld: 3 writes were recorded without an answer" in found.err
    assert run([*start, "init", "--check", "-f", str(tmp_path / "p.yaml"), "-o", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["withheld"]
    assert (row["requests"], row["recorded"][:9], row["needed"]) == (3, "unknown (", "RequestResponse")
    assert run([*start, "replay", "-f", str(tmp_path / "p.yaml"), "-o", "json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [row["unknown"] for rows in verdicts.values() for row in rows if "unknown" in row] == [3], verdicts
    with QueryClient(Settings(lake=lake)) as client:
        home, page = (client.send("GET", f"{ORIGIN}{path}").text for path in ("/", "/evidence"))
    assert "no loss is known, but evidence is withheld: 3 writes" in home
    assert "Unknown level" in page


def test_a_check_of_levels_tells_of_writes_that_the_lake_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(FEW_REPLICAS)
    log = Log()
    log.write("create", deployment("web", 1))
    check = ["init", "--check", "-f", str(tmp_path / "p.yaml")]
    assert run(["--lake", str(take_in(tmp_path / "whole", log.lines)), *check]) == 0
    assert "each recorded write has the level that a replay needs; no loss is known; exit code 0" in capsys.readouterr().err
    sent = deployment("web", 2, resourceVersion="7")
    log.write("update", sent, answer=deployment("web", 2, resourceVersion="9"))
    log.lines[-1]["objectRef"]["resourceVersion"] = "7"
    assert run(["--lake", str(take_in(tmp_path / "lake", log.lines, "lake.jsonl")), *check]) == 0
    said = capsys.readouterr().err
    assert "each recorded write has the level that a replay needs; evidence may be lost: " in said
    assert run(["--lake", str(take_in(tmp_path / "empty", [], "empty.jsonl")), *check]) == 3
    assert "the lake holds no events; exit code 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        ([], "no loss is known"),
        ([(Severity.NOTE, "a")], "no loss is known"),
        ([(Severity.NOTE, "a"), (Severity.WITHHELD, "b")], "no loss is known, but evidence is withheld: b"),
        ([(Severity.WITHHELD, "b"), (Severity.WITHHELD, "c")], "no loss is known, but evidence is withheld: b; and 1 more kind"),
        ([(Severity.WITHHELD, "b"), (Severity.POSSIBLE, "c")], "evidence may be lost: c; and evidence is withheld: b"),
        ([(Severity.POSSIBLE, "c"), (Severity.LOST, "d")], "evidence was lost: d; perhaps lost: 1 more kind"),
    ],
)
def test_one_sentence_for_every_ledger(found: list[tuple[Severity, str]], answer: str) -> None:
    assert loss_answer(found) == answer
