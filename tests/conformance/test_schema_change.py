"""A story of 4,000 writes that a real API server answered under an old and a new definition in lock step.

The log is that of the old definitions. The replay of the new ones over it must say what the API server said under them: code,
causes, warnings and object. The replay of the old ones must say what the log says.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.files import manifests_of
from pipeline.runs.verdict import Flip
from pipeline.runs.window import Window
from pipeline.stages.schema.replay.definitions import given_of, served_of
from pipeline.stages.schema.replay.difference import changes
from pipeline.stages.schema.replay.outcome import Decision, Outcome
from pipeline.stages.schema.replay.walk import Walk
from queries import open_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
OTHER_WARNINGS = ("unknown field", "duplicate field", "finalizer")
# The largest counts of unknown verdicts so far; a change that raises one must say why.
UNKNOWN_MAX = {"audit": 420, "audit_request": 520}


def lake_of(source: Path, folder: Path, log: str) -> Path:
    lake = Lake.create(folder / log)
    ingest_files(lake, [source / f"{log}.jsonl.zst"], "lab", received_ts=0.0)
    ingest_snapshot(lake, [source / "crds" / "old.json"], "lab", datetime(2026, 11, 22, 1, 47, 43, tzinfo=UTC))
    ingest_snapshot(lake, [source / "snapshots" / "start"], "lab", datetime(2026, 11, 22, 1, 47, 45, tzinfo=UTC))
    lake.close()
    return lake.path


def outcomes(lake: Path, source: Path, which: str) -> dict[str, Outcome]:
    """The verdicts by auditID."""
    name = f"{which}.json"
    given = given_of(manifests_of([(name, (source / "crds" / name).read_text())]))
    with closing(open_lake(lake)) as reader:
        walk = Walk(reader, Window(), served_of(given.definitions, (1, 36)), {}, (1, 36))
        return {each.event.audit_id: each.outcome for each in walk.judged()}


def difference_of(row: dict[str, Any], found: Outcome, log: str) -> str:
    """How a verdict differs from the answer of the API server under the new definition; empty if it does not."""
    old, new = row["old"], row["new"]
    if found.decision is Decision.UNREACHED:
        return "" if (new["code"], row["flip"]) == (old["code"], "still-denied") else "it is not reached"
    if found.flip is not None and str(found.flip) != row["flip"] and (found.flip, row["flip"]) != (Flip.SAME, "changed"):
        return f"it is {found.flip}"
    if found.decision is Decision.DENY:
        return refusal_differs(new, found)
    if new["code"] >= 300:
        return "" if new["code"] == old["code"] else "it is admitted"
    if found.flip is not Flip.NEWLY_ALLOWED and (found.decision is Decision.CHANGE) != (row["flip"] == "changed"):
        return f"it is {found.decision}"
    is_named = "generatedNameInNew" not in row or log == "audit"  # The name that the API server generated is in the answer alone.
    if not new["sameObject"] and found.object is not None and is_named and changes(new["object"], found.object):
        return "another object"
    texts = [each.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for each in new.get("warnings", ())]
    told = sorted(each for each in texts if not any(other in each for other in OTHER_WARNINGS))
    return "" if told == sorted(map(str, found.warnings)) else "other warnings"


def refusal_differs(new: dict[str, Any], found: Outcome) -> str:
    if new["code"] != found.code:
        return f"it is refused with {found.code}"
    if not found.is_whole_text:
        return partial_text_differs(new, found)
    if found.code == 400 and new["message"] != found.message:
        return "another message"
    told = sorted((each["reason"], each["message"], each["field"]) for each in new.get("causes", ()))
    said = sorted((str(each.reason), each.message, each.field) for each in found.errors)
    return "other causes" if found.errors and told != said else ""


def partial_text_differs(new: dict[str, Any], found: Outcome) -> str:
    """A refusal with further causes that the record hides: each cause that the verdict names is one of the server's."""
    told = {(each["reason"], each["message"], each["field"]) for each in new.get("causes", ())}
    said = {(str(each.reason), each.message, each.field) for each in found.errors}
    if told and not said <= told:
        return f"a cause that the server does not name: {said - told}"
    quoted = [str(each) for each in found.errors if str(each) not in found.message]
    return f"the message lacks {quoted}" if quoted and found.code == 422 else ""


@pytest.mark.parametrize("log", ["audit", "audit_request"])
def test_the_new_definitions_answer_as_the_api_server_did(shared: Path, tmp_path: Path, log: str) -> None:
    source = shared / "data" / "crd-a" / "schema-change"
    found = outcomes(lake_of(source, tmp_path, log), source, "new")
    counts: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    wrong = []
    for row in rows_of(source / "truth.jsonl.zst"):
        outcome = found.get(row["auditID"])
        if outcome is None:
            deletes = row["method"] == "DELETE" and row["new"]["code"] == row["old"]["code"]
            counts["not a write, or not allowed"] += 1
            if not deletes and row["new"]["code"] != row["old"]["code"]:
                wrong.append((row["n"], "no verdict"))
        elif outcome.decision is Decision.UNKNOWN:
            counts["unknown"] += 1
            unknown[outcome.why] += 1
        else:
            problem = difference_of(row, outcome, log)
            counts[f"{outcome.decision}, {outcome.flip or 'refused before'}: {'different' if problem else 'equal'}"] += 1
            if problem:
                wrong.append((row["n"], problem))
    print("\n".join(f"{count:>5} {name}" for name, count in [*sorted(counts.items()), *unknown.most_common(8)]))
    assert wrong == []
    assert counts["unknown"] <= UNKNOWN_MAX[log]


def test_the_old_definitions_answer_as_the_log_says(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "crd-a" / "schema-change"
    found = outcomes(lake_of(source, tmp_path, "audit"), source, "old")
    flips = Counter(str(each.flip) for each in found.values() if each.flip is not None)
    print(flips)
    assert flips[Flip.NEWLY_DENIED] == flips[Flip.NEWLY_ALLOWED] == flips[Flip.CHANGED] == 0
    assert flips[Flip.UNKNOWN] < 40
    assert flips[Flip.SAME] > 3_000


@pytest.mark.parametrize("recording", ["webhooks-a", "mutating-policies-a"])
def test_recorded_definitions_change_nothing(shared: Path, tmp_path: Path, recording: str) -> None:
    """Recorded patches show how webhooks and mutating policies changed an object; without them the verdict is unknown."""
    lake = Lake.create(tmp_path / "lake")
    ingest_files(lake, [shared / "data" / recording / "audit.jsonl.zst"], "lab", received_ts=0.0)
    lake.close()
    query = "SELECT response_object FROM events WHERE resource = 'customresourcedefinitions' AND verb = 'create' AND code = 201"
    with closing(open_lake(lake.path)) as reader:
        texts = [(f"{number}.json", text) for number, (text,) in enumerate(reader.sql(query).fetchall())]
        given = given_of(manifests_of(texts))
        walk = Walk(reader, Window(), served_of(given.definitions, (1, 36)), {}, (1, 36))
        flips = Counter(str(each.outcome.flip) for each in walk.judged() if each.outcome.flip is not None)
    print(flips)
    assert set(flips) <= {"same", "still-denied", "unknown"}
    assert flips[Flip.SAME] > 100
