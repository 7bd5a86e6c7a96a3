"""The small lake of the contract, and the runs of each stage over it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
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
) -> Made:
    """Plan and run a stage over a lake; `is_cut`: in many small parts."""
    stage = stage_of(stage_name)
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, stage.read(manifests_of(texts_of([MANIFESTS[stage_name]]))), asked or Asked())
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


def lake_of(pieces: list[list[bytes]], folder: Path) -> Path:
    """A lake in a folder, into which pieces of a log are ingested one by one."""
    with closing(Lake.create(folder / "lake")) as lake:
        for number, piece in enumerate(pieces):
            file = folder / f"audit-{number}.jsonl"
            file.write_bytes(b"\n".join(piece) + b"\n")
            ingest_files(lake, [file], "demo", 1.0)
    return folder / "lake"
