"""Values that redaction replaced in objects: each verdict is that of the log with all values, or unknown because of redaction.

The oracle is a lake of the same log without redaction.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api.cli import run
from ingest.lake import Lake
from ingest.redaction.redact import KEY_BYTES, Redactor
from ingest.sources.snapshot import ingest_snapshot
from tests.recording import START, Object, recorded, take_in
from tests.yaml_text import load_yaml, load_yaml_all

FOLDER = Path(__file__).parents[2] / "cases" / "replay" / "redacted"
PATHS = (
    *("configmaps:data.code", "configmaps:metadata.labels.owner", "namespaces:metadata.labels.tier"),
    *("badges.example.com:spec.code", "badges.example.com:spec.note"),
)
# Files of cases/replay/redacted by the stage whose manifests they hold.
STAGES = ("validating", "mutating", "webhooks", "definitions", "chain", "roles")
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


def lake_of(path: Path, redactor: Redactor | None) -> Path:
    take_in(path, EVENTS, f"{path.name}.jsonl", redactor=redactor)
    with closing(Lake.open(path)) as lake:
        roles = path.parent / "roles.json"
        items = list(load_yaml_all((FOLDER / "roles.yaml").read_text()))
        roles.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        ingest_snapshot(lake, [FOLDER / "snapshot.json", roles], "lab", START, redactor=redactor)
    return path


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("redacted")
    ways = {"whole": None, "drop": Redactor(paths=PATHS), "hash": Redactor(paths=PATHS, mode="hash", key=bytes(KEY_BYTES))}
    return {mode: lake_of(folder / mode, redactor) for mode, redactor in ways.items()}


def rows_of(lake: Path, stage: str, out: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    target = out / f"{lake.name}-{stage}.parquet"
    only = ["--only", "--other-authorizers", "none"] if stage == "roles" else []
    assert run(["--lake", str(lake), "-q", "replay", "-f", str(FOLDER / f"{stage}.yaml"), "--export", str(target), *only]) in (0, 3)
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


Told = dict[str, Any]


def is_equal(whole: Told, found: Told) -> None:
    assert hidden(found) == hidden(whole)


def counts_no_placeholder(whole: Told, found: Told) -> None:
    """How many values there were is unknown where redaction replaced some of them."""
    for row, known in zip(found["audit_annotations"], whole["audit_annotations"], strict=True):
        row["distinct_values"] = known["distinct_values"] if row["distinct_values"] is None else row["distinct_values"]
    is_equal(whole, found)


def has_less(whole: Told, found: Told) -> None:
    """Each row is one of the whole log's, and a note names redaction where there are fewer."""
    less = False
    for name, rows in ((name, rows) for name, rows in found.items() if name != "notes"):
        assert all(hidden(row) in map(hidden, whole[name]) for row in rows), rows
        less |= len(rows) < len(whole[name])
    assert not less or "redact" in json.dumps(found["notes"])


def writers_may_be_unknown(whole: Told, found: Told) -> None:
    """The same fields and objects; who wrote a value may be unknown."""
    for rows in (whole["carriers"], found["carriers"]):
        assert len(rows) == len(whole["carriers"])
    for row, known in zip(found["carriers"], whole["carriers"], strict=True):
        if row["user"] == "unknown" != known["user"]:
            assert "REDACTED" in row["value"] or "blake2b" in row["value"]
            row |= {name: known[name] for name in ("user", "since", "audit_id")}
    assert hidden(found | {"notes": ""}) == hidden(whole | {"notes": ""})
    assert "redaction replaced" in json.dumps(found["notes"])


def leaves_out_what_is_redacted(whole: Told, found: Told) -> None:
    """No role names a placeholder, and each rule is one that the whole log gives."""
    assert "REDACTED" not in json.dumps(found)
    rules, less = ([rule for role in told["items"] for rule in role.get("rules", ())] for told in (whole, found))
    assert all(rule in rules for rule in less)
    assert len(less) < len(rules)


def counts_what_may_be_used(whole: Told, found: Told) -> None:
    """A use that redaction hides may be one of each rule that may allow it."""
    rules, others = ({(row["binding"], row["rule"]): row for row in told["grants"]} for told in (whole, found))
    assert rules.keys() == others.keys()
    for name, row in others.items():
        known = rules[name]
        assert row["requests"] <= known["requests"] <= row["requests"] + row["possible"], (row, known)


def knows_less(whole: Told, found: Told) -> None:
    """A policy that reads no redacted value has the same figures. Of others, more is unknown, and a reason names redaction."""
    policies, redacted = ({(each["policy"], each["binding"]): each for each in told["policies"]} for told in (whole, found))
    assert policies.keys() == redacted.keys()
    for name, each in redacted.items():
        known = policies[name]
        more = each["exposure"]["requests_unknown"] - known["exposure"]["requests_unknown"]
        if not more:
            assert (each["status"], each["denials"]) == (known["status"], known["denials"]), name
            continue
        assert more > 0
        assert "redacted" in json.dumps(each["unknown_reasons"]), name
        assert each["status"] in {known["status"], "INSUFFICIENT EVIDENCE"} - {"READY"}, name
        assert each["denials"]["requests"] <= known["denials"]["requests"] <= each["denials"]["requests"] + more, name


def never_disagrees(whole: Told, found: Told) -> None:
    assert whole["disagreements"] == found["disagreements"] == []


def hidden(value: Any) -> str:
    """A value as JSON with one placeholder for each value that redaction may replace."""
    return re.sub(r"hunter2[23]|REDACTED|blake2b:(?:[0-9a-f]+|\[redacted\])", "*", json.dumps(value, sort_keys=True))


DEFINITIONS = ["-f", str(FOLDER / "definitions.yaml")]
COMMANDS = {
    ("violations",): counts_no_placeholder,
    ("webhooks",): is_equal,
    ("calibrate",): never_disagrees,
    ("least-privilege", "--subject", "alice"): is_equal,
    ("least-privilege", "--subject", "ann"): leaves_out_what_is_redacted,
    ("least-privilege", "--unused"): counts_what_may_be_used,
    ("schema", "fields", "badges.example.com"): writers_may_be_unknown,
    ("schema", "dormant", *DEFINITIONS): has_less,
    ("schema", "stuck", *DEFINITIONS): has_less,
    **{("readiness", "-f", str(FOLDER / f"{stage}.yaml")): knows_less for stage in STAGES},
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(Path(word).name for word in command))
def test_a_command_says_the_same_or_that_a_value_was_redacted(
    lakes: dict[str, Path], command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for lake in (lakes["whole"], lakes["drop"]):
        assert run(["--lake", str(lake), "-q", *command, "-o", "json"]) in (0, 1, 3)
        told.append(json.loads(capsys.readouterr().out.replace(str(lake), "")))
    COMMANDS[command](*told)
