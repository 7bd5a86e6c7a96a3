"""A log as GKE writes it, and the reviews that a recorder webhook saw: policies have nearly the verdicts of the whole log.

`../shared/data/control-plane-a`: the log without bodies, groups and URIs, and the AdmissionReviews of the webhook
`/validate/record`, which a live API server called. `trace.jsonl.zst` names the request of each review. The test takes the time
before policies denied: a webhook after policies does not see what they deny.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.runs import RunStore
from queries import open_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
UNTIL = "2026-11-21T03:24:58"


def pass_of(request: dict[str, Any], resource: str) -> str:
    told = [request["operation"], resource, request.get("name"), request["userInfo"]["username"]]
    return json.dumps([*told, request.get("object"), request.get("oldObject")], sort_keys=True)


def reviews_of(folder: Path) -> Iterator[dict[str, Any]]:
    for row in rows_of(folder / "admission_reviews.jsonl.zst"):
        if row["path"].startswith("/validate/record"):
            yield row["review"] | {"requestReceivedTimestamp": f"{datetime.fromtimestamp(row['t'], UTC):%Y-%m-%dT%H:%M:%S.%f}Z"}


def named_passes(folder: Path, reviews: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The reviews of each request, as Hindcast's recorder would name them in its audit event."""
    requests: dict[str, set[str]] = {}
    for row in rows_of(folder / "trace.jsonl.zst"):
        requests.setdefault(pass_of(row, row["resource"]), set()).add(row["auditID"])
    found: dict[str, list[str]] = {}
    for review in reviews:
        ids = requests.get(pass_of(review["request"], review["request"]["resource"]["resource"]), set())
        if len(ids) == 1:
            found.setdefault(min(ids), []).append(review["request"]["uid"])
    return found


def stripped(event: dict[str, Any], named: dict[str, list[str]] | None) -> dict[str, Any]:
    kept = {name: value for name, value in event.items() if name not in ("requestObject", "responseObject", "requestURI")}
    kept |= {"level": "Metadata", "user": {"username": event["user"].get("username")}}
    if "impersonatedUser" in event:
        kept["impersonatedUser"] = {"username": event["impersonatedUser"].get("username")}
    annotations = {key: value for key, value in event.get("annotations", {}).items() if not key.endswith("/review-uid")}
    if named is not None and event["stage"] == "ResponseComplete":
        annotations |= {f"recorder.example.com/review-{uid}": "" for uid in named.get(event["auditID"], ())}
    return kept | {"annotations": annotations}


def written(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(folder: Path, lake: Path, files: list[Path]) -> dict[tuple[Any, ...], Any]:
    with closing(Lake.create(lake)) as made:
        for file in files:
            ingest_files(made, [file], "lab", 0.0)
        ingest_snapshot(made, [folder / "snapshots" / "1-before-policies"], "lab", datetime(2026, 11, 21, 3, 24, 32, tzinfo=UTC))
    with closing(open_lake(lake)) as reader:
        plan = plan_replay(reader, load_policy_set([folder / "policies"]))
    run = run_replay(plan, lake)
    table = pq.read_table(RunStore(lake).run(run.run_id).verdicts).to_pylist()
    place = ("audit_id", "ts", "pass", "policy", "param_namespace", "param_name", "expression_index")
    return {tuple(row[name] for name in place): row for row in table}


def test_verdicts_are_those_of_the_whole_log(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "control-plane-a"
    events = [event for event in rows_of(folder / "audit.jsonl.zst") if event["stageTimestamp"] < UNTIL]
    reviews = [review for review in reviews_of(folder) if review["requestReceivedTimestamp"] < UNTIL]
    recorded = written(tmp_path / "reviews.jsonl", iter(reviews))
    trimmed = written(tmp_path / "gke.jsonl", (stripped(event, None) for event in events))
    passes = named_passes(folder, reviews)
    named = written(tmp_path / "named.jsonl", (stripped(event, passes) for event in events))
    whole = verdicts(folder, tmp_path / "whole", [written(tmp_path / "log.jsonl", iter(events))])
    lakes = {"alone": [trimmed], "reviews": [recorded, trimmed], "named reviews": [named, recorded]}
    known = {key: row for key, row in whole.items() if row["decision"] in ("admit", "deny", "error")}
    unknown: dict[str, float] = {}
    for name, files in lakes.items():
        found = verdicts(folder, tmp_path / name, files)
        wrong = [key for key in found.keys() & known.keys() if differ(found[key], known[key])]
        assert wrong == [], name
        # If a part of a request is unknown, a policy has one row for it, and not one for each expression.
        sure = {key[0:4:3] for key, row in found.items() if row["decision"] != "unknown"}
        unsure = {key[0:4:3] for key, row in found.items() if row["decision"] == "unknown"}
        judged = {key[0:4:3] for key in known} - {key[0:4:3] for key, row in whole.items() if row["decision"] == "unknown"}
        unknown[name] = len(judged - (sure - unsure)) / len(judged)
    print(f"\nunknown verdicts of {len(judged)}: {unknown}")
    assert unknown["alone"] > 0.9
    assert unknown["reviews"] < 0.6
    assert unknown["named reviews"] < 0.05


def differ(found: dict[str, Any], known: dict[str, Any]) -> bool:
    return found["decision"] != "unknown" and any(
        found[name] != known[name] for name in ("decision", "effect", "message", "reason")
    )
