"""The verdicts of every recorded log, written as tables that two versions of the code can be compared by.

    python -m tests.verdict_tables make OUT [--lakes FOLDER] [--only NAME ...]
    python -m tests.verdict_tables compare OLD NEW

`make` replays the bundled log, control-plane-a (with its first snapshot, its last, and without any) and churn (with 1 and 12
policies). It writes one Parquet file per replay, sorted, with every column but run_id. `counts.json` says how many requests were
evaluated, and why the others were not. `compare` exits with 1 if any row or count differs, and prints the first rows that do.
`--lakes` keeps the lakes between runs; without it, each run ingests the logs again. `make` names each log that is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import duckdb
import zstandard

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline import load_policy_set, plan_replay, plan_replay_from_log, run_replay
from pipeline.runs import RunStore
from pipeline.stages.validating.plan import ReplayPlan
from queries import LakeReader, open_lake

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "api" / "demo"
DATA = ROOT.parent / "shared" / "data"
CONTROL_PLANE = DATA / "control-plane-a"
CHURN = DATA / "churn"
_SHOWN_MAX = 5
_LATER_TS = datetime(2030, 1, 1, tzinfo=UTC).timestamp()  # after every recorded day: all of them are merged

Planner: TypeAlias = Callable[[LakeReader], ReplayPlan]


class Source(NamedTuple):
    """A log, a snapshot of its cluster, and when that was taken."""

    log: Path
    snapshot: Path | None = None
    taken: datetime | None = None
    compacted: bool = False

    def lake(self, path: Path) -> None:
        """Take both into a new lake."""
        lake = Lake.create(path)
        ingest_files(lake, [self.log], "lab", received_ts=0.0)
        if self.snapshot is not None:
            ingest_snapshot(lake, [self.snapshot], "lab", self.taken or _taken_at(self.snapshot))
        if self.compacted:
            with lake.writer() as writer:
                compact(writer, _LATER_TS)
                remove_retired(writer, 2 * _LATER_TS)
        lake.close()


class Replay(NamedTuple):
    """A replay whose verdicts are kept under a name. Replays with one lake share it."""

    name: str
    lake: str
    plan: Planner


def _taken_at(snapshot: Path) -> datetime:
    data = zstandard.ZstdDecompressor().decompress((snapshot / "namespaces.json.zst").read_bytes(), max_output_size=1 << 30)
    return datetime.fromtimestamp(float(json.loads(data)["metadata"]["takenAt"]), UTC)


def _given(*paths: Path) -> Planner:
    return lambda reader: plan_replay(reader, load_policy_set(list(paths)))


SOURCES = {
    "bundled": Source(DEMO / "audit.jsonl.zst", DEMO / "snapshot", datetime(2026, 11, 21, 3, 24, 34, 88216, tzinfo=UTC)),
    "first": Source(CONTROL_PLANE / "audit.jsonl.zst", CONTROL_PLANE / "snapshots" / "1-before-policies"),
    "last": Source(CONTROL_PLANE / "audit.jsonl.zst", CONTROL_PLANE / "snapshots" / "5-end"),
    "without": Source(CONTROL_PLANE / "audit.jsonl.zst"),
    "churn": Source(CHURN / "audit.jsonl.zst"),
    "churn-compacted": Source(CHURN / "audit.jsonl.zst", compacted=True),
}
REPLAYS = [
    Replay("bundled-demo-policies", "bundled", _given(DEMO / "policies")),
    Replay("bundled-as-bound", "bundled", plan_replay_from_log),
    *(
        replay
        for snapshot in ("first", "last", "without")
        for replay in (
            Replay(f"control-plane-a-{snapshot}-given", snapshot, _given(CONTROL_PLANE / "policies")),
            Replay(f"control-plane-a-{snapshot}-as-bound", snapshot, plan_replay_from_log),
        )
    ),
    Replay("churn-1", "churn", _given(CHURN / "perf-policies-1.yaml")),
    Replay("churn-12", "churn", _given(CHURN / "perf-policies-12.yaml")),
    Replay("churn-compacted-12", "churn-compacted", _given(CHURN / "perf-policies-12.yaml")),
]


def make(out: Path, lakes: Path, only: list[str], workers: int) -> None:
    """Replay every log, and write its verdicts and counts under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "counts.json"
    counts: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for replay in REPLAYS:
        if only and not any(replay.name.startswith(name) for name in only):
            continue
        if not SOURCES[replay.lake].log.exists():
            print(f"{replay.name}: left out, {SOURCES[replay.lake].log} is not there")
            continue
        lake = lakes / replay.lake
        if not lake.exists():
            SOURCES[replay.lake].lake(lake)
        started = time.process_time()
        counts[replay.name] = _replayed(replay, lake, out, workers)
        seconds = time.process_time() - started
        print(f"{replay.name}: {counts[replay.name]['verdicts']:,} rows, {seconds:.1f} s of processor", flush=True)
        file.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")


def _replayed(replay: Replay, lake: Path, out: Path, workers: int) -> dict[str, Any]:
    """Write the verdicts of one replay, sorted; returns its counts."""
    with closing(open_lake(lake)) as reader:
        plan = replay.plan(reader)
    shutil.rmtree(RunStore(lake).run(plan.run_id).folder, ignore_errors=True)
    summary = run_replay(plan, lake, workers)
    verdicts = RunStore(lake).run(plan.run_id).verdicts
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "COPY (SELECT * EXCLUDE (run_id, audit_annotations), map_entries(audit_annotations)::VARCHAR AS audit_annotations "
            f"FROM read_parquet('{verdicts}') ORDER BY ALL) TO '{out / replay.name}.parquet' (COMPRESSION zstd)"
        )
    return {
        "planned": summary.planned,
        "evaluated": summary.evaluated,
        "verdicts": summary.verdicts,
        "not_evaluated": dict(summary.not_evaluated),
        "excluded": dict(plan.excluded),
        "bindings": {f"{item.policy}/{item.binding}": [item.matched, item.deny, item.unknown] for item in summary.bindings},
    }


def compare(old: Path, new: Path) -> Iterator[str]:
    """What differs between the tables that two versions made, for a person."""
    counts = [json.loads((folder / "counts.json").read_text()) for folder in (old, new)]
    for name in sorted(counts[0].keys() | counts[1].keys()):
        pair = [each.get(name) for each in counts]
        if None in pair:
            if pair[0] is not None:
                yield f"{name}: not made by the new version"
            continue
        for field in pair[0]:
            if pair[0][field] != pair[1].get(field):
                yield f"{name}: {field} was {pair[0][field]} and is {pair[1].get(field)}"
        yield from _differing_rows(name, old, new)


def _differing_rows(name: str, old: Path, new: Path) -> Iterator[str]:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [[column[0] for column in connection.sql(f"FROM '{each / name}.parquet'").description] for each in (old, new)]
        for gone in [column for column in names[0] if column not in names[1]]:
            yield f"{name}: the new table has no column {gone}"
        # A column that only the new version has is no difference: the old version said nothing of it.
        both = ", ".join(column for column in names[0] if column in names[1])
        for said, one, other in (("only in the old table", old, new), ("only in the new table", new, old)):
            left, right = (f"SELECT {both} FROM '{each / name}.parquet'" for each in (one, other))
            found = connection.execute(f"FROM ({left} EXCEPT ALL {right}) ORDER BY ALL").fetchall()
            if found:
                yield f"{name}: {len(found):,} rows {said}"
                yield from (f"  {row}" for row in found[:_SHOWN_MAX])


def main(arguments: list[str]) -> int:
    """Run a command; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdict_tables", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("out", type=Path)
    making.add_argument("--lakes", type=Path)
    making.add_argument("--only", nargs="*", default=[], help="names of replays, or how they begin")
    making.add_argument("--workers", type=int, default=1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "make":
        with tempfile.TemporaryDirectory(prefix="hindcast-verdicts-") as folder:
            make(options.out, options.lakes or Path(folder), options.only, options.workers)
        return 0
    found = list(compare(options.old, options.new))
    print("\n".join(found) or "equal, row for row")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
