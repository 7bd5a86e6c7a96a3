"""Values that redaction replaced in objects: each verdict is that of the log with all values, or unknown because of redaction.

The oracle is a lake of the same log without redaction.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api.cli import run
from ingest.redaction.redact import KEY_BYTES, Redactor
from tests.recording import START, Object, recorded, take_in
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[2] / "cases" / "replay" / "redacted"
PATHS = (
    *("configmaps:data.code", "configmaps:metadata.labels.owner", "namespaces:metadata.labels.tier"),
    "badges.example.com:spec.code",
)
# Files of cases/replay/redacted by the stage whose manifests they hold.
STAGES = ("validating", "mutating", "webhooks", "definitions", "chain")
# What a verdict decides. Whether an error or a condition of a chain refuses may be unknown where the refusal is not.
_KEYS = ("audit_id", "pass", "policy", "binding")
_DECIDED = ("decision", "effect", "flip", "recorded", "actions", "audit_annotations")


def event_of(number: int, case: dict[str, Any]) -> Object:
    made = {key: case[key] for key in ("user", "subresource", "answer") if key in case}
    event = recorded(f"id-{number:02}", START + timedelta(minutes=number), case["verb"], case["object"], **made)
    group = case["object"]["apiVersion"].rpartition("/")[0]
    place, name = event["objectRef"], case["object"]["metadata"]["name"]
    start = f"/apis/{case['object']['apiVersion']}" if group else "/api/v1"
    within = f"/namespaces/{place['namespace']}" if place["namespace"] else ""
    last = f"/{place['subresource']}" if "subresource" in place else ""
    event["requestURI"] = f"{start}{within}/{place['resource']}/{name}{last}"
    event["annotations"] = {"authorization.k8s.io/decision": "allow"}
    return event | case.get("event", {})


EVENTS = [event_of(*each) for each in enumerate(load_yaml((FOLDER / "log.yaml").read_text()))]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("redacted")
    ways = {"drop": Redactor(paths=PATHS), "hash": Redactor(paths=PATHS, mode="hash", key=bytes(KEY_BYTES))}
    found = {"whole": take_in(folder / "whole", EVENTS)}
    for mode, redactor in ways.items():
        lines = [json.loads(redactor.apply(json.dumps(each, separators=(",", ":")).encode())) for each in EVENTS]
        found[mode] = take_in(folder / mode, lines, f"{mode}.jsonl")
    return found


def rows_of(lake: Path, stage: str, out: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    target = out / f"{lake.name}-{stage}.parquet"
    assert run(["--lake", str(lake), "-q", "replay", "-f", str(FOLDER / f"{stage}.yaml"), "--export", str(target)]) in (0, 3)
    rows = pl.read_parquet(target).to_dicts()
    found = {(*(row[name] for name in _KEYS), row["expression_index"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def is_settled(row: dict[str, Any]) -> bool:
    return row["decision"] != "unknown"


@pytest.mark.parametrize("mode", ["drop", "hash"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_verdict_is_that_of_the_whole_log_or_unknown(lakes: dict[str, Path], tmp_path: Path, stage: str, mode: str) -> None:
    whole, found = rows_of(lakes["whole"], stage, tmp_path), rows_of(lakes[mode], stage, tmp_path)
    assert {key[:-1] for key in found} == {key[:-1] for key in whole}
    lost = {key[0] for key, row in found.items() if not is_settled(row) and "redacted" in row["why"]}
    assert lost
    for key in found.keys() | whole.keys():
        told, expected = ({name: rows[key][name] for name in _DECIDED} if key in rows else {} for rows in (found, whole))
        if told != expected:
            # What a request is refused for is unknown, too, where one of its verdicts is.
            verdict = found.get((*key[:-1], None), found.get(key))
            assert verdict is not None
            assert not is_settled(verdict), (key, told, expected)
            assert key[0] in lost, (key, told)


def test_what_does_not_depend_on_a_value_stays_known(lakes: dict[str, Path], tmp_path: Path) -> None:
    rows = rows_of(lakes["drop"], "validating", tmp_path)
    assert {row["decision"] for key, row in rows.items() if key[2] in ("has-a-code", "few-entries")} == {"admit", "deny"}


def test_a_client_may_write_the_placeholder(lakes: dict[str, Path], tmp_path: Path) -> None:
    rows = rows_of(lakes["drop"], "validating", tmp_path)
    written = next(event["auditID"] for event in EVENTS if event["objectRef"]["name"] == "note")
    assert {row["decision"] for key, row in rows.items() if (key[0], key[2]) == (written, "no-placeholder")} == {"deny"}


@pytest.mark.parametrize("mode", ["drop", "hash"])
@pytest.mark.parametrize(
    "command",
    [
        ["violations", "-o", "json"],
        ["webhooks", "-o", "json"],
        ["least-privilege", "--subject", "alice"],
        ["least-privilege", "--unused", "-o", "json"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_what_reads_no_bodies_is_the_same(
    lakes: dict[str, Path], command: list[str], mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for lake in (lakes["whole"], lakes[mode]):
        code = run(["--lake", str(lake), "-q", *command])
        told.append((code, capsys.readouterr().out.replace(str(lake), "")))
    assert told[0] == told[1]


def test_readiness_never_decides_on_a_placeholder(lakes: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A policy that reads no redacted value has the same figures. Of others, more is unknown, and a reason names redaction."""
    told = []
    for lake in (lakes["whole"], lakes["drop"]):
        run(["--lake", str(lake), "-q", "readiness", "-f", str(FOLDER / "validating.yaml"), "-o", "json"])
        found = json.loads(capsys.readouterr().out)
        told.append({each["policy"]: each for each in found["policies"]})
    whole, redacted = told
    assert whole.keys() == redacted.keys()
    lost = {name for name in whole if any("redacted" in json.dumps(reason) for reason in redacted[name]["unknown_reasons"])}
    assert lost == {"no-placeholder", "other-code", "unchanged", "not-deleted", "ann-only", "gold", "tier", "texts", "exec"}
    for name in whole.keys() - lost:
        assert whole[name]["denials"] == redacted[name]["denials"], name
    for name in lost:
        assert redacted[name]["denials"]["requests"] <= whole[name]["denials"]["requests"], name
        assert redacted[name]["status"] != "READY", name
