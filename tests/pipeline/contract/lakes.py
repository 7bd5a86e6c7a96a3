"""The small lake of the contract, and the runs of each stage over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.manifests.documents import Document
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs import RunKind, RunStore, RunSummary
from pipeline.runs.executors import Executor
from pipeline.runs.running import Progress
from pipeline.stages.registry import stage_of
from pipeline.stages.stage import Asked
from queries import open_lake

from .drivers import cut

CASES = Path(__file__).parents[2] / "cases" / "stages"
CONTRACT: dict[str, Any] = yaml.safe_load((CASES / "contract.yaml").read_text())
MANIFESTS: dict[str, Path] = {name: CASES / file for name, file in CONTRACT["manifests"].items()}
NAMES = tuple(MANIFESTS)
LOG = Path(__file__).parents[3] / "api" / "demo" / "audit.jsonl.zst"
# Of the bundled log: every request about these, and of the others one in so many.
WHOLE = (b"shop.example.com", b"apiextensions", b'"scale"')
ONE_IN = 60
PART_EVENTS = 300


class Made(NamedTuple):
    """A finished run of a stage."""

    plan: Any
    summary: RunSummary
    content: bytes
    table: pa.Table


def made(
    stage_name: str,
    lake: Path,
    asked: Asked | None = None,
    *,
    workers: int = 1,
    progress: Progress | None = None,
    executor: Executor | None = None,
    is_cut: bool = True,
    from_log: bool = False,
) -> Made:
    """Plan and run a stage over a lake; `is_cut`: in many small parts; `from_log`: with the rules of `rule_lines`."""
    stage = stage_of(stage_name)
    with closing(open_lake(lake)) as reader:
        documents: Sequence[Document] = manifests_of(texts_of([MANIFESTS[stage_name]]))
        if from_log:
            found = stage.readiness.recorded(reader, "demo", RULES_IN_FORCE)
            assert found is not None
            documents = found.rules
        plan = stage.plan(reader, stage.read(documents), asked or Asked())
    plan = cut(plan, PART_EVENTS) if is_cut else plan
    summary = stage.run(plan, lake, workers=workers, progress=progress, kind=RunKind.REPLAY, executor=executor)
    verdicts = RunStore(lake).run(plan.run_id).verdicts
    return Made(plan, summary, verdicts.read_bytes(), pq.read_table(verdicts).drop_columns(["run_id"]))


def log_lines() -> list[bytes]:
    """The part of the bundled log that the contract takes."""
    lines = _bundled()
    return list(dict.fromkeys([*(line for line in lines if any(word in line for word in WHOLE)), *lines[::ONE_IN]]))


def _bundled() -> list[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(LOG.read_bytes()).read().splitlines()


def odd_lines() -> list[bytes]:
    """Writes of new objects as a stranger may send them: a dry run, bodies that are none, nest too deep, or lack values."""
    odd: list[bytes] = []
    found: dict[str, bytes] = {}
    for line in _bundled():
        event = json.loads(line)
        asked, answer = event.get("objectRef") or {}, event.get("responseObject")
        if event["verb"] == "create" and not asked.get("subresource") and isinstance(answer, dict) and "spec" in answer:
            found.setdefault(asked["resource"], line)
    for resource in ("pods", "deployments", "widgets"):
        for what, change in _ODD.items():
            event = json.loads(found[resource])
            name = f"odd-{what}"
            event["auditID"] = f"{event['auditID']}-{what}"
            event["objectRef"]["name"] = event["responseObject"].setdefault("metadata", {})["name"] = name
            change(event)
            odd.append(json.dumps(event).replace(_DEEP, "[" * _LEVELS + "]" * _LEVELS).encode())
    return odd


_DEEP, _LEVELS = '"too deep"', 3_000


def _dry_run(event: dict[str, Any]) -> None:
    event["requestURI"] += ("&" if "?" in event["requestURI"] else "?") + "dryRun=All"


def _taken_out(event: dict[str, Any]) -> None:
    event["responseObject"]["spec"] = event["requestObject"]["spec"] = "REDACTED"
    event.setdefault("annotations", {})["authorization.k8s.io/reason"] = "REDACTED"


_ODD: dict[str, Callable[[dict[str, Any]], None]] = {
    "dry-run": _dry_run,
    "text": lambda event: event.update(responseObject="none", requestObject=[]),
    "types": lambda event: event["responseObject"].update(spec=[3], metadata={"name": 4, "labels": "x"}),
    "deep": lambda event: event["responseObject"].update(spec={"template": "too deep"}),
    "taken-out": _taken_out,
}


def rule_lines(stage_name: str) -> list[bytes]:
    """The creation of a stage's rules, each by one event after all others, as a client sends it and as a server answers."""
    creation = next(event for event in map(json.loads, _bundled()) if _is_of_policy(event))
    written: list[bytes] = []
    for document in yaml.safe_load_all(MANIFESTS[stage_name].read_text()):
        group, _, version = document["apiVersion"].rpartition("/")
        name, resource = document["metadata"]["name"], _plural(document["kind"].lower())
        event = json.loads(json.dumps(creation)) | {"auditID": f"rule-{resource}-{name}"}
        event["requestURI"] = f"/apis/{document['apiVersion']}/{resource}"
        event["objectRef"] = {"resource": resource, "name": name, "apiGroup": group, "apiVersion": version}
        event["requestObject"] = document
        metadata = {**document["metadata"], "uid": event["auditID"], "resourceVersion": "900000", "generation": 1}
        event["responseObject"] = {**document, "metadata": metadata}
        event["requestReceivedTimestamp"] = event["stageTimestamp"] = RULES_WRITTEN
        written.append(json.dumps(event).encode())
    return written


# After the last event of the bundled log, and a moment at which the server enforces the rules of `rule_lines`.
RULES_WRITTEN, RULES_IN_FORCE = "2026-11-21T04:00:00.000000Z", datetime(2026, 11, 21, 4, 1, tzinfo=UTC)


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _is_of_policy(event: dict[str, Any]) -> bool:
    return bool(event["verb"] == "create" and event.get("objectRef", {}).get("resource") == "validatingadmissionpolicies")


def lake_of(pieces: list[list[bytes]], folder: Path) -> Path:
    """A lake in a folder, into which pieces of a log are ingested one by one."""
    with closing(Lake.create(folder / "lake")) as lake:
        for number, piece in enumerate(pieces):
            file = folder / f"audit-{number}.jsonl"
            file.write_bytes(b"\n".join(piece) + b"\n")
            ingest_files(lake, [file], "demo", 1.0)
    return folder / "lake"
