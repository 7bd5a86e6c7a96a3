"""The views on three million events: the recorded churn, eighteen times, a day apart, in compacted files."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from api.ask import reads
from api.ask.listing import Source
from api.ask.questions import RequestFilters, TimePaging, ViolationFilters
from api.pages.requests import request_view
from ingest.lake import Lake
from ingest.schema import SORT_ORDER
from ingest.sources.files import ingest_files
from pipeline.readiness.sql import rows_of
from pipeline.requests import past
from pipeline.runs.window import Window
from queries import LakeReader, open_lake
from queries.ledger import losses_by_part

CHURN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "churn" / "audit.jsonl.zst"
COPIES = 18
REPEATS = 5
# An update of the middle of the lake's time, the one with the smallest name.
_AN_UPDATE = """
    SELECT min(audit_id) FROM events
    WHERE verb = 'update' AND resource = 'deployments' AND code = 200
        AND ts::DATE = (SELECT min(ts)::DATE + 9 FROM events)
"""
_TIMES = ("ts", "stage_ts", "ingest_ts")

QUESTIONS: dict[str, Callable[[LakeReader], Any]] = {
    "violations by policy and binding": lambda reader: reader.violation_rollup(["policy", "binding"]),
    "violations by policy and day": lambda reader: reader.violation_rollup(["policy", "day"]),
    "violations by policy, SQL": lambda reader: reader.sql("SELECT policy, count(*) FROM violations GROUP BY ALL"),
    "violations by workload (reads bodies)": lambda reader: reader.violation_rollup(["workload"]),
    "requests by resource and verb": lambda reader: reader.sql("SELECT resource, verb, count(*) FROM requests GROUP BY ALL"),
    "denials by denier": lambda reader: reader.sql("SELECT denier, count(*) FROM denials GROUP BY ALL"),
    "classes of a replay plan": lambda reader: reader.sql("FROM admission_classes(NULL, NULL)"),
}

# What a person waits for: pages, and the parts of pages that are worked out next to them.
PAGES: dict[str, Callable[[Source, str], object]] = {
    "page of one request": lambda source, audit_id: request_view(source, None, "churn", audit_id, ""),
    "one request over HTTP": lambda source, audit_id: reads.request_details(source, "churn", audit_id),
    "newest requests": lambda source, _: reads.view_page(source, "requests", RequestFilters(), TimePaging()),
    "newest requests of a user": lambda source, _: reads.view_page(
        source, "requests", RequestFilters(user=["alice"]), TimePaging()
    ),
    "newest violations": lambda source, _: reads.view_page(source, "violations", ViolationFilters(), TimePaging()),
    "overview: extent": lambda source, _: reads.clusters(source),
    "overview: recorded policies": lambda source, _: rows_of(source.reader.connection, "recorded"),
    "policies in force, first time": lambda source, _: _load_first(source.reader),
    "ledger": lambda source, _: losses_by_part(source.reader),
}


def run() -> list[dict[str, Any]]:
    """Median milliseconds of each question, fetched in full, files in the page cache."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        lake = Lake.create(Path(folder) / "lake")
        events = _fill(lake, Path(folder))
        reader = open_lake(lake.path)
        rows = [
            {
                "name": name,
                "value": _median_ms(lambda ask=ask: ask(reader).fetchall()),
                "unit": "ms",
                "detail": f"{events:,} events, median of {REPEATS}",
            }
            for name, ask in QUESTIONS.items()
        ]
        source = Source(reader, lake.path)
        ((audit_id,),) = reader.sql(_AN_UPDATE).fetchall()
        for name, page in PAGES.items():
            times = REPEATS if name != "ledger" else 1
            value = _median_ms(lambda page=page: page(source, audit_id), times)
            rows.append({"name": name, "value": value, "unit": "ms", "detail": f"{events:,} events, median of {times}"})
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append({"name": "peak memory of all questions", "value": peak, "unit": "MB", "detail": f"{events:,} events"})
        reader.close()
        return rows


def _load_first(reader: LakeReader) -> None:
    """A process keeps the history that it loaded last; the first time has none."""
    past._loaded.clear()
    past.load_history(reader, (), Window())


def _fill(lake: Lake, folder: Path) -> int:
    once = Lake.create(folder / "once")
    ingest_files(once, [CHURN], "churn", received_ts=0.0)
    table = pa.concat_tables([pq.read_table(file) for file in once.files()]).sort_by([(name, "ascending") for name in SORT_ORDER])
    with lake.writer() as writer:
        for copy in range(COPIES):
            writer.commit(writer.write("events", "churn", _shifted(table, copy), compacted=True))
    return int(table.num_rows * COPIES)


def _shifted(table: pa.Table, days: int) -> pa.Table:
    """The same events some days later, under audit IDs of their own."""
    for name in _TIMES:
        position = table.schema.get_field_index(name)
        moved = pc.add(table[name], pa.scalar(timedelta(days=days), pa.duration("us")))
        table = table.set_column(position, table.schema.field(name), moved)
    position = table.schema.get_field_index("audit_id")
    return table.set_column(
        position, table.schema.field("audit_id"), pc.binary_join_element_wise(table["audit_id"], str(days), "-")
    )


def _median_ms(ask: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        ask()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)
