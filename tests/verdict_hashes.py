"""Hashes of the verdicts that every stage gives on recorded logs, for two versions of the code to be compared by.

    python -m tests.verdict_hashes [--lakes FOLDER] [--workers N] [NAME ...] > FILE

Each line has the name of a replay, its number of rows, and the SHA-256 of them: in their order, columns by name, without the run.
`--lakes` keeps the lakes between calls. A NAME chooses the replays that begin with it. A log that is missing is named and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import zstandard

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline import plan_replay_from_log, run_replay
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs import RunStore
from pipeline.stages.assign import assign
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.webhooks.model import AsRecorded
from queries import LakeReader, open_lake
from tests.verdict_tables import DATA, DEMO, SOURCES

CASES = Path(__file__).parent / "cases" / "stages"
_OLD_SCHEMAS = datetime(2026, 11, 22, 1, 47, 43, tzinfo=UTC)


class Recording(NamedTuple):
    """A recorded log with its snapshots: folders or files, and when each was taken."""

    log: Path
    snapshots: Sequence[tuple[Path, datetime]]

    def lake(self, path: Path) -> None:
        """Take all of it into a new lake."""
        with closing(Lake.create(path)) as lake:
            ingest_files(lake, [self.log], "lab", received_ts=0.0)
            for snapshot, taken in self.snapshots:
                ingest_snapshot(lake, [snapshot], "lab", taken)


# Runs a stage over a lake; returns the ids of the runs.
Runs = Callable[[Path, LakeReader, int], list[str]]


class Hashed(NamedTuple):
    """Replays of one lake under one name."""

    name: str
    lake: str
    runs: Runs


def _listed(folder: str, *kinds: str) -> Iterator[tuple[str, str]]:
    """The objects of a recorded snapshot as manifests."""
    for kind in kinds:
        for item in _document(DATA / folder / f"{kind}.json.zst")["items"]:
            yield f"{kind}.json", json.dumps(item)


def _document(path: Path) -> Any:
    return json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=1 << 30))


def _given(texts: Callable[[], Iterator[tuple[str, str]]], asked: Asked, lake: Path, reader: LakeReader, workers: int) -> list[str]:
    found = []
    for stage, rules in assign(manifests_of(texts())).rules:
        plan = stage.plan(reader, rules, asked)
        stage.run(plan, lake, workers=workers)
        found.append(plan.run_id)
    return found


def _of_files(*paths: Path) -> Runs:
    return partial(_given, lambda: texts_of(paths), Asked())


def _of_snapshot(folder: str, *kinds: str, only: bool = False, objects: bool = False) -> Runs:
    return partial(_given, lambda: _listed(folder, *kinds), Asked(replaces_all=only, with_objects=objects))


def _as_bound(lake: Path, reader: LakeReader, workers: int) -> list[str]:
    plan = plan_replay_from_log(reader)
    run_replay(plan, lake, workers)
    return [plan.run_id]


def _as_recorded(lake: Path, reader: LakeReader, workers: int) -> list[str]:
    plan = WEBHOOKS.plan(reader, AsRecorded.RULES, Asked())
    WEBHOOKS.run(plan, lake, workers=workers)
    return [plan.run_id]


def _snapshots(source: str, *names: str) -> list[tuple[Path, datetime]]:
    found = []
    for name in names:
        folder = DATA / source / "snapshots" / name
        taken = _document(folder / "namespaces.json.zst")["metadata"]["takenAt"]
        found.append((folder, datetime.fromtimestamp(float(taken), UTC)))
    return found


def _recordings() -> dict[str, Callable[[], Recording]]:
    schemas = DATA / "crd-a" / "schema-change"

    def story(name: str, *snapshots: str) -> Recording:
        return Recording(DATA / name / "audit.jsonl.zst", _snapshots(name, *snapshots))

    def of_schemas() -> Recording:
        start = (schemas / "snapshots" / "start", datetime(2026, 11, 22, 1, 47, 45, tzinfo=UTC))
        return Recording(schemas / "audit.jsonl.zst", [(schemas / "crds" / "old.json", _OLD_SCHEMAS), start])

    bundled = SOURCES["bundled"]
    assert bundled.snapshot is not None
    assert bundled.taken is not None
    own = Recording(bundled.log, [(bundled.snapshot, bundled.taken)])
    return {
        "bundled": lambda: own,
        "control-plane": partial(story, "control-plane-a", "1-before-policies"),
        "webhooks": partial(story, "webhooks-a", "0-before", "1-webhooks", "2-end"),
        "mutating": partial(story, "mutating-policies-a", "1-policies", "2-changed", "3-end"),
        "rbac": partial(story, "rbac-a", "before", "after"),
        "schemas": of_schemas,
    }


_STAGES = ("authorization", "mutating", "webhooks", "schema", "conditions")
_MUTATING = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "configmaps-params", "crds")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
REPLAYS = [
    Hashed("bundled-validating", "bundled", _of_files(DEMO / "policies")),
    Hashed("bundled-as-bound", "bundled", _as_bound),
    *(Hashed(f"bundled-{name}", "bundled", _of_files(CASES / f"{name}.yaml")) for name in _STAGES),
    Hashed("control-plane-validating", "control-plane", _of_files(DATA / "control-plane-a" / "policies")),
    Hashed("webhooks-given", "webhooks", _of_snapshot("webhooks-a/snapshots/1-webhooks", *_WEBHOOKS)),
    Hashed("webhooks-as-recorded", "webhooks", _as_recorded),
    Hashed("webhooks-conditions", "webhooks", _of_files(CASES / "conditions.yaml")),
    Hashed("mutating-given", "mutating", _of_snapshot("mutating-policies-a/snapshots/2-changed", *_MUTATING, objects=True)),
    Hashed("rbac-tightened", "rbac", _of_snapshot("rbac-a/sets", "tightened", only=True)),
    Hashed("rbac-mistakes", "rbac", _of_snapshot("rbac-a/sets", "mistakes")),
    Hashed("rbac-conditions", "rbac", _of_files(CASES / "conditions.yaml")),
    Hashed("schemas-new", "schemas", _of_files(DATA / "crd-a" / "schema-change" / "crds" / "new.json")),
    Hashed("schemas-old", "schemas", _of_files(DATA / "crd-a" / "schema-change" / "crds" / "old.json")),
]


def hash_of(verdicts: Path) -> tuple[int, str]:
    """How many rows a table of verdicts has, and the SHA-256 of them in their order, without the run."""
    rows, digest = 0, hashlib.sha256()
    with pq.ParquetFile(verdicts) as file:
        names = sorted(set(file.schema_arrow.names) - {"run_id"})
        for batch in file.iter_batches(columns=names):
            rows += batch.num_rows
            columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
            for row in zip(*columns, strict=True):
                digest.update(repr(row).encode())
    return rows, digest.hexdigest()


def main(arguments: list[str]) -> int:
    """Print a line for each run; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdict_hashes", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lakes", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    recordings = _recordings()
    with tempfile.TemporaryDirectory(prefix="hindcast-hashes-") as folder:
        for replay in REPLAYS:
            if options.names and not any(replay.name.startswith(name) for name in options.names):
                continue
            lake = (options.lakes or Path(folder)) / replay.lake
            if replay.lake != "bundled" and not DATA.exists():
                print(f"{replay.name}: left out, {DATA} is not there", file=sys.stderr)
                continue
            if not lake.exists():
                recordings[replay.lake]().lake(lake)
            for line in _lines(replay, lake, options.workers):
                print(line, flush=True)
    return 0


def _lines(replay: Hashed, lake: Path, workers: int) -> Iterator[str]:
    store = RunStore(lake)
    for run in store.every():
        run.discard()
    with closing(open_lake(lake)) as reader:
        for run_id in replay.runs(lake, reader, workers):
            run = store.run(run_id)
            rows, digest = hash_of(run.verdicts)
            stage = json.loads(run.plan_text).get("stage", "validating")
            print(f"{replay.name}: run {run_id}", file=sys.stderr)
            yield f"{replay.name} {stage} {rows} {digest}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
