"""Hashes of the verdicts that every stage gives on recorded logs: a rebuild of the code keeps them, or says which rows changed.

    python -m tests.verdict_hashes [--lakes FOLDER] [--workers N] [--without COLUMN ...] [--write] [NAME ...]

Each line has the name of a replay, the stage, what it ran over, its number of rows, and the SHA-256 of them: in their order,
columns by name, without the run. Over the bundled log a replay runs five times: over all but its last 1,000 events and again, over
a lake that took these later and again, and over the whole log. Over other logs it runs twice. Long replays run less often.
`--lakes` keeps the lakes between calls. A NAME chooses the replays that begin with it. `--write` writes
tests/cases/verdict_hashes. A log that is missing is named, and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
from pipeline.runs import RunKind, RunStore
from pipeline.stages.assign import assign
from pipeline.stages.pod_security.checks.table import Level
from pipeline.stages.pod_security.given import labelled
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.webhooks.model import AsRecorded
from queries import LakeReader, open_lake
from tests.verdict_tables import DATA, DEMO, SOURCES

CASES = Path(__file__).parent / "cases" / "stages"
KEPT = Path(__file__).parent / "cases" / "verdict_hashes"
_EVENTS_LATER = 1_000
_OLD_SCHEMAS = datetime(2026, 11, 22, 1, 47, 43, tzinfo=UTC)


class Recording(NamedTuple):
    """A recorded log with its snapshots: folders or files, and when each was taken."""

    log: Path
    snapshots: Sequence[tuple[Path, datetime]]

    def lake(self, path: Path, log: Path | None = None) -> None:
        """Take all of it into a new lake, or the snapshots and another log."""
        with closing(Lake.create(path)) as lake:
            ingest_files(lake, [log or self.log], "lab", received_ts=0.0)
            for snapshot, taken in self.snapshots:
                ingest_snapshot(lake, [snapshot], "lab", taken)


# Runs a stage over a lake; returns the ids of the runs.
Runs = Callable[[Path, LakeReader, int], list[str]]


class Hashed(NamedTuple):
    """Replays of one lake under one name."""

    name: str
    lake: str
    runs: Runs
    is_long: bool = False


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
        stage.run(plan, lake, workers, None, RunKind.REPLAY)
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
    WEBHOOKS.run(plan, lake, workers, None, RunKind.REPLAY)
    return [plan.run_id]


def _of_level(level: Level) -> Runs:
    return partial(_given, lambda: iter([("level.yaml", labelled(level, ()))]), Asked())


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
        "pod-security": partial(story, "pod-security-a", "1-before", "2-middle", "3-after"),
        "schemas": of_schemas,
    }


_LONG = ("conditions", "mutating")
_STAGES = ("authorization", "mutating", "webhooks", "schema", "conditions", "pod-security")
_MUTATING = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "configmaps-params", "crds")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
REPLAYS = [
    Hashed("bundled-validating", "bundled", _of_files(DEMO / "policies")),
    Hashed("bundled-as-bound", "bundled", _as_bound),
    *(Hashed(f"bundled-{name}", "bundled", _of_files(CASES / f"{name}.yaml"), name in _LONG) for name in _STAGES),
    Hashed("control-plane-validating", "control-plane", _of_files(DATA / "control-plane-a" / "policies")),
    Hashed("pod-security-given", "pod-security", _of_files(CASES / "pod-security.yaml")),
    Hashed("pod-security-restricted", "pod-security", _of_level(Level.RESTRICTED)),
    Hashed("webhooks-given", "webhooks", _of_snapshot("webhooks-a/snapshots/1-webhooks", *_WEBHOOKS)),
    Hashed("webhooks-as-recorded", "webhooks", _as_recorded),
    Hashed("webhooks-conditions", "webhooks", _of_files(CASES / "conditions.yaml")),
    Hashed(
        "mutating-given",
        "mutating",
        _of_snapshot("mutating-policies-a/snapshots/2-changed", *_MUTATING, objects=True),
        is_long=True,
    ),
    Hashed("rbac-tightened", "rbac", _of_snapshot("rbac-a/sets", "tightened", only=True)),
    Hashed("rbac-mistakes", "rbac", _of_snapshot("rbac-a/sets", "mistakes")),
    Hashed("rbac-conditions", "rbac", _of_files(CASES / "conditions.yaml")),
    Hashed("schemas-new", "schemas", _of_files(DATA / "crd-a" / "schema-change" / "crds" / "new.json")),
    Hashed("schemas-old", "schemas", _of_files(DATA / "crd-a" / "schema-change" / "crds" / "old.json")),
]


def hash_of(verdicts: Path, without: Collection[str] = ()) -> tuple[int, str]:
    """How many rows a table of verdicts has, and the SHA-256 of them in their order, without the run and some columns."""
    rows, digest = 0, hashlib.sha256()
    with pq.ParquetFile(verdicts) as file:
        names = sorted(set(file.schema_arrow.names) - {"run_id", *without})
        for batch in file.iter_batches(columns=names):
            rows += batch.num_rows
            columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
            for row in zip(*columns, strict=True):
                digest.update(repr(row).encode())
    return rows, digest.hexdigest()


class Asking(NamedTuple):
    """What a call asks for. Lakes are made in a folder."""

    lakes: Path
    workers: int = 1
    without: Sequence[str] = ()


def bundled_lines(asked: Asking, names: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the replays over the bundled log."""
    recording = _recordings()["bundled"]()
    chosen = _chosen(names, "bundled")
    cut, whole = asked.lakes / "bundled-cut", asked.lakes / "bundled-whole"
    lines = zstandard.ZstdDecompressor().stream_reader(recording.log.read_bytes()).readall().splitlines(keepends=True)
    parts = []
    for name, text in (("first", lines[:-_EVENTS_LATER]), ("later", lines[-_EVENTS_LATER:])):
        parts.append(asked.lakes / f"{name}.jsonl")
        parts[-1].write_bytes(b"".join(text))
    recording.lake(cut, parts[0])
    for replay in chosen:
        for what in () if replay.is_long else ("without its end", "without its end, again"):
            yield from _lines(replay, cut, what, asked)
    with closing(Lake.open(cut)) as lake:
        ingest_files(lake, [parts[1]], "lab", received_ts=0.0)
    recording.lake(whole)
    for replay in chosen:
        for what in ("its end came later", *(() if replay.is_long else ("its end came later, again",))):
            yield from _lines(replay, cut, what, asked)
        yield from _lines(replay, whole, "whole", asked)


def recorded_lines(asked: Asking, names: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the replays over recordings that lie next to the checkout."""
    recordings = _recordings()
    for lake in recordings:
        if lake == "bundled" or not (chosen := _chosen(names, lake)):
            continue
        if not DATA.exists():
            print(f"{lake}: left out, {DATA} is not there", file=sys.stderr)
            continue
        path = asked.lakes / lake
        if not path.exists():
            recordings[lake]().lake(path)
        for replay in chosen:
            for what in ("whole",) if replay.is_long else ("whole", "whole, again"):
                yield from _lines(replay, path, what, asked)


def _chosen(names: Sequence[str], lake: str) -> list[Hashed]:
    return [each for each in REPLAYS if each.lake == lake and (not names or any(each.name.startswith(name) for name in names))]


def _lines(replay: Hashed, lake: Path, what: str, asked: Asking) -> Iterator[str]:
    store = RunStore(lake)
    for run in store.every():
        run.discard()
    with closing(open_lake(lake)) as reader:
        for run_id in replay.runs(lake, reader, asked.workers):
            run = store.run(run_id)
            rows, digest = hash_of(run.verdicts, asked.without)
            stage = json.loads(run.plan_text).get("stage", "validating")
            yield f"{replay.name}, {stage}, {what}: {rows} {digest}"


def main(arguments: list[str]) -> int:
    """Print a line for each run; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdict_hashes", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lakes", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--without", nargs="+", default=(), metavar="COLUMN")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hindcast-hashes-") as folder:
        lakes = options.lakes or Path(folder)
        lakes.mkdir(parents=True, exist_ok=True)
        asked = Asking(lakes, options.workers, options.without)
        for kind, lines in (("bundled", bundled_lines(asked, options.names)), ("recorded", recorded_lines(asked, options.names))):
            found = []
            for line in lines:
                print(line, flush=True)
                found.append(line)
            if options.write and found:
                write_kept(kind, found, is_whole=not options.names)
    return 0


def kept_lines(kind: str) -> dict[str, str]:
    """The kept hashes, `bundled` or `recorded`: by the name of a replay and what it ran over."""
    lines = (KEPT / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def changed(kind: str, lines: Iterable[str]) -> list[str]:
    """A sentence for each kept or found line that is not the same in both."""
    kept, found = kept_lines(kind), dict(line.split(": ", 1) for line in lines)
    return [
        f"{name}: {kept.get(name, 'nothing')} before, {found.get(name, 'nothing')} now"
        for name in sorted(kept.keys() | found)
        if kept.get(name) != found.get(name)
    ]


def write_kept(kind: str, lines: Sequence[str], *, is_whole: bool) -> None:
    """Write the kept hashes; with a part of them, the others stay."""
    found = {} if is_whole else kept_lines(kind)
    found |= dict(line.split(": ", 1) for line in lines)
    (KEPT / f"{kind}.txt").write_text("".join(f"{name}: {told}\n" for name, told in found.items()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
