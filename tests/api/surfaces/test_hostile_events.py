"""Events with one odd value each, in every field: no command ends with an error of its own, and right events are still judged."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from api.cli import COMMANDS, run
from tests.hostile import CASES, MANIFESTS, VALUES, changed, places, right_events
from tests.recording import Object, take_in
from tests.yaml_text import load_yaml

LINES: dict[str, list[str]] = load_yaml((CASES / "commands.yaml").read_text())
FOUND: list[dict[str, Any]] = load_yaml((CASES / "events.yaml").read_text())
# They make or serve a lake, and read none.
WITHOUT_LAKE = {"demo", "ingest", "serve"}
ODD_EVENTS = 80
CODES = (0, 1, 2, 3, 4)
RIGHT = right_events()
PLACES = [(number, path) for number, event in enumerate(RIGHT) for path in places(event)]


def odd(number: int, path: tuple[str | int, ...], value: Any, name: str) -> Object:
    """A right event with one other value, under an audit ID of its own."""
    event: Object = changed(RIGHT[number], path, value)
    return event if path == ("auditID",) else {**event, "auditID": name}


def every_command_ends(folder: Path, events: list[Object], names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run every line over a lake of the right events and these."""
    lake, out = take_in(folder / "lake", RIGHT + events), folder / "out"
    out.mkdir()
    for line in (line for lines in LINES.values() for line in lines):
        runs = sorted(path.name for path in (lake / "runs").glob("*") if path.is_dir())
        for audit_id in names if " ID" in line else names[:1]:
            stands = {"ID": audit_id, "RUN": runs[0] if runs else "x"}
            words = [stands.get(word, word).replace("HERE", str(MANIFESTS)).replace("OUT", str(out)) for word in shlex.split(line)]
            code = run(["--quiet", "--lake", str(lake), *words])
            said = capsys.readouterr()
            assert code in CODES, f"{line}: {said.err}"
            for wrong in ("Traceback", "defect of Hindcast"):
                assert wrong not in said.out + said.err, f"{line}: {said.err}"
    the_right_ones_are_judged(lake, capsys)


def the_right_ones_are_judged(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--quiet", "--lake", str(lake), "violations", "-o", "json"]) == 0
    assert '"few"' in capsys.readouterr().out
    for manifests, wanted in (("webhooks", "looks.example.com"), ("policies", "few")):
        assert run(["--quiet", "--lake", str(lake), "replay", "-f", str(MANIFESTS / f"{manifests}.yaml"), "-o", "json"]) in (0, 4)
        assert wanted in capsys.readouterr().out


def test_every_command_that_reads_a_lake_has_a_line() -> None:
    assert {*LINES} | WITHOUT_LAKE == {*COMMANDS}
    assert all(line.split()[0] == name for name, lines in LINES.items() for line in lines)


def test_events_that_ended_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = []
    for case in FOUND:
        path = tuple(case["path"])
        fits = [number for number, place in PLACES if place == path and _matches(RIGHT[number], case.get("of", {}))]
        assert fits, case
        value = json.dumps(case["json"]) if "json" in case else case["value"]
        events += [odd(number, path, value, f"odd-{len(events)}-{number}") for number in fits]
    every_command_ends(tmp_path, events, [RIGHT[9]["auditID"], events[0]["auditID"]], capsys)


def _matches(event: Object, wanted: Object) -> bool:
    flat = {"verb": event["verb"], **event.get("objectRef", {})}
    return all(flat.get(name) == value for name, value in wanted.items())


def test_odd_values_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Places and values that are drawn once and for all, so that one lake and one run of each line are enough."""
    draw = random.Random(24)
    events = [odd(*draw.choice(PLACES), draw.choice(VALUES), f"odd-{at}") for at in range(ODD_EVENTS)]
    names = [event["auditID"] for event in events if isinstance(event.get("auditID"), str)][:3]
    every_command_ends(tmp_path, events, names, capsys)
