"""Rows in, rows out: every case of tests/cases/queries is one lake of a few events and one question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.schema import EVENTS, REPEATS
from queries.catalog import LakeFiles, statements
from queries.lake import LakeReader
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[1] / "cases" / "queries"
START = datetime(2026, 1, 1, tzinfo=UTC)

# One create of a pod, recorded whole.
DEFAULTS: dict[str, Any] = {
    "cluster": "lab",
    "audit_id": "a",
    "stage": "ResponseComplete",
    "level": "RequestResponse",
    "verb": "create",
    "request_uri": "/api/v1/namespaces/n/pods",
    "user_name": "alice",
    "user_groups": ["system:authenticated"],
    "source_ips": [],
    "api_group": "",
    "api_version": "v1",
    "resource": "pods",
    "namespace": "n",
    "name": "x",
    "code": 201,
    "annotations": {},
    "vap_failures": [],
    "ingest_source": "case",
    "flags": [],
}


def event(case: dict[str, Any]) -> dict[str, Any]:
    """A row of `events`: `ts` and `posted` (when the sink had it) are in seconds after START, `at` in seconds after `ts`."""
    row = DEFAULTS | case
    received = START + timedelta(seconds=case.get("ts", 0))
    row |= {"ts": received, "stage_ts": received + timedelta(seconds=row.pop("at", 0))}
    row["ingest_ts"] = START + timedelta(seconds=row.pop("posted", 0))
    row["annotations"] = list(row["annotations"].items())
    assert row.keys() <= set(EVENTS.names), row.keys() - set(EVENTS.names)
    return row


def repeat(case: dict[str, Any]) -> dict[str, Any]:
    """A row of `repeats`, with the key of the event that the same fields make."""
    row = event({name: value for name, value in case.items() if name != "conflicting"})
    return {name: row.get(name) for name in REPEATS.names} | {"conflicting": case.get("conflicting", False)}


def reader_of(events: list[dict[str, Any]], folder: Path, repeats: list[dict[str, Any]] | None = None) -> LakeReader:
    files = []
    for name, rows, schema in (("events", map(event, events), EVENTS), ("repeats", map(repeat, repeats or []), REPEATS)):
        files.append(str(folder / f"{name}.parquet"))
        pq.write_table(pa.Table.from_pylist(list(rows), schema), files[-1])
    return LakeReader(lambda: LakeFiles(events=(files[0],), repeats=(files[1],)))


def cases() -> list[Any]:
    found = [(path.stem, case) for path in sorted(CASES.glob("*.yaml")) for case in load_yaml(path.read_text())]
    return [pytest.param(case, id=f"{stem}: {case['name']}") for stem, case in found]


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    reader = reader_of(case["events"], tmp_path, case.get("repeats"))
    if "checks" in case:
        assert [check.name for check in reader.checks() if check.rows] == case["checks"]
    else:
        assert [list(row) for row in reader.sql(case["query"]).fetchall()] == case["expect"]


def test_every_check_has_a_case_that_breaks_it() -> None:
    broken = {name for case in load_yaml((CASES / "checks.yaml").read_text()) for name in case["checks"]}
    # The columns cannot hold null in a Parquet file of this schema; other writers' files are what that check is for.
    assert broken | {"lists_are_never_null"} == {statement.name for statement in statements() if statement.kind == "check"}
