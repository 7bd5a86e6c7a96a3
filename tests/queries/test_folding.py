"""Requests and violations are what a plain walk over all events gives, also where only the files of their time are seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.schema import EVENTS
from queries.catalog import LakeFiles, narrow_events
from queries.lake import LakeReader

from .test_cases import START, event

FINAL = ("ResponseComplete", "Panic")
STAGES = ("RequestReceived", "ResponseStarted", *FINAL)
FAILURE = {"policy": "p", "binding": "b", "message": "m", "expression_index": 0, "actions": ["Audit"]}


def _of(stages: Sequence[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(
        st.fixed_dictionaries(
            {
                "audit_id": st.sampled_from("ab"),
                "ts": st.integers(0, 2),
                "stage": st.sampled_from(stages),
                "at": st.integers(0, 3),
                "code": st.sampled_from([None, 200, 403]),
                "vap_failures": st.integers(0, 2).map(lambda found: [FAILURE] * found),
                "timeless": st.integers(0, 9).map(lambda drawn: drawn == 0),
            }
        ),
        max_size=8,
        # As the lake stores them: once, and with one final stage.
        unique_by=(lambda row: (row["audit_id"], row["ts"], "final" if row["stage"] in FINAL else row["stage"])),
    )


# Where all are of the final stage, requests are read in a shorter way.
_events = _of(STAGES) | _of(FINAL[:1])


@pytest.fixture(scope="module")
def reader() -> Iterator[LakeReader]:
    opened = LakeReader(LakeFiles)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


_numbers = count()


def show(reader: LakeReader, folder: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the reader's views show these events. Some of them have no time of receipt."""
    rows = []
    for case in cases:
        row = event({name: value for name, value in case.items() if name != "timeless"})
        rows.append(row | ({"ts": None} if case["timeless"] else {}))
    path = folder / f"{next(_numbers)}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, EVENTS), path)
    narrow_events(reader.connection, (str(path),))
    return rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_events)
def test_stages_fold_as_in_a_plain_walk(reader: LakeReader, folder: Path, cases: list[dict[str, Any]]) -> None:
    rows = show(reader, folder, cases)
    stages: defaultdict[tuple[str, datetime], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["ts"] is not None:
            stages[row["audit_id"], row["ts"]].append(row)
    folded: Counter[tuple[Any, ...]] = Counter()
    for (audit_id, ts), members in stages.items():
        final = [row for row in members if row["stage"] in FINAL]
        decided = final or [max(members, key=lambda row: (row["stage_ts"], row["stage"]))]
        folded.update((audit_id, ts, row["stage"], bool(final), len(members)) for row in decided)
    # What has no time is folded with nothing.
    folded.update((row["audit_id"], None, row["stage"], True, 1) for row in rows if row["ts"] is None and row["stage"] in FINAL)
    assert Counter(reader.sql("SELECT audit_id, ts, stage, complete, stages FROM requests").fetchall()) == folded

    failures: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        is_answered = any(other["stage"] in FINAL for other in stages.get((row["audit_id"], row["ts"]), ()))
        if row["stage"] != "ResponseStarted" or not is_answered:
            failures[row["audit_id"], row["ts"], row["stage"]] += len(row["vap_failures"])
    assert Counter(reader.sql("SELECT audit_id, ts, stage FROM violations").fetchall()) == +failures
    later = START.replace(second=1)
    assert Counter(reader.sql("SELECT audit_id, ts, stage FROM violations WHERE ts >= ?", [later]).fetchall()) == +Counter(
        {key: found for key, found in failures.items() if key[1] is not None and key[1] >= later}
    )


def test_a_session_of_a_time_sees_the_files_of_that_time(tmp_path: Path) -> None:
    paths, spans = [], []
    for second in (0, 10, 20):
        paths.append(str(tmp_path / f"{second}.parquet"))
        rows = [event({"audit_id": f"a{second}", "ts": second}), event({"audit_id": f"b{second}", "ts": second + 2})]
        pq.write_table(pa.Table.from_pylist(rows, EVENTS), paths[-1])
        low = int(START.timestamp() + second) * 1_000_000
        spans.append((low, low + 2_000_000))
    reader = LakeReader(lambda: LakeFiles(events=tuple(paths), event_spans=tuple(spans)))
    with reader.between(START.replace(second=12), START.replace(second=19)) as near:
        assert near.sql("SELECT audit_id FROM requests ORDER BY ALL").fetchall() == [("a10",), ("b10",)]
        assert reader.sql("SELECT count(*) FROM requests").fetchall() == [(6,)]
    with reader.between(START.replace(second=3), START.replace(second=9)) as near:
        assert near.sql("SELECT count(*) FROM requests").fetchall() == [(0,)]
    with reader.session() as whole:
        assert whole.sql("SELECT count(*) FROM requests").fetchall() == [(6,)]
    reader.close()


def test_a_query_during_a_refresh_sees_the_files_of_one_moment(folder: Path) -> None:
    """The files turn from final stages alone to earlier ones as well, and back."""
    final, staged = (folder / f"{name}.parquet" for name in ("final", "staged"))
    for path, stages in ((final, FINAL[:1]), (staged, STAGES[:1])):
        pq.write_table(pa.Table.from_pylist([event({"audit_id": "a", "stage": stage}) for stage in stages], EVENTS), path)
    files = [LakeFiles((str(final),)), LakeFiles((str(final), str(staged)))]
    turns = iter(files * 40)
    with closing(LakeReader(lambda: next(turns))) as refreshed, refreshed.session() as other, ThreadPoolExecutor(1) as background:
        refreshing = background.submit(lambda: [refreshed.refresh() for _ in files * 39])
        seen = set()
        while not refreshing.done():
            seen.update(other.sql("SELECT audit_id, stage, complete, stages FROM folded_requests").fetchall())
        refreshing.result()
    assert seen <= {("a", "ResponseComplete", True, 1), ("a", "ResponseComplete", True, 2)}
