"""The report's tables hold the model's figures, whole, in Parquet and in CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pyarrow as pa

from pipeline.readiness.report import Report
from pipeline.report.tables import export_tables, report_tables


def test_lists_of_a_policy_name_the_policy(report: Report) -> None:
    tables = report_tables(report)
    assert tables["policies"].num_rows == len(report.policies)
    owners = tables["owners"].to_pylist()
    assert [(row["policy"], row["binding"], row["namespace"]) for row in owners] == [
        ("image-registry", "everywhere", "pay-prod"),
        ("image-registry", "everywhere", ""),
        ("exempted", "everywhere", "pay-prod"),
        ("exempted", "everywhere", ""),
    ]
    assert owners[0]["chain"] == ["Pod/cart-17-x", "ReplicaSet/cart-17-5d", "Deployment/cart-17"]


def test_counts_over_time_name_their_chart_and_what_they_count(report: Report, hostile: str) -> None:
    moments = report_tables(report)["moments"].to_pylist()
    assert [(row["chart"], row["what"], row["count"]) for row in moments] == [
        (hostile, hostile, 7),
        (hostile, hostile, 14),
        (hostile, "as recorded", 1),
    ]


def test_parts_of_a_policy_are_columns(report: Report) -> None:
    row = report_tables(report)["policies"].to_pylist()[0]
    assert row["exposure_requests_matched"] == 900
    assert row["denials_trend_direction"] == "rising"
    assert row["fidelity_agreement"] == 0.99
    assert row["status"] == "NOT READY"


def test_tables_have_the_same_columns_with_and_without_rows(any_report: Report, report: Report) -> None:
    assert {name: table.schema for name, table in report_tables(any_report).items()} == {
        name: table.schema for name, table in report_tables(report).items()
    }


def test_export_writes_every_table_twice(tmp_path: Path, report: Report, hostile: str) -> None:
    folder = tmp_path / "made" / "here"
    written = export_tables(report, folder)
    tables = report_tables(report)
    assert sorted(path.name for path in written) == sorted(f"{name}.{end}" for name in tables for end in ("csv", "parquet"))
    for name, table in tables.items():
        found = duckdb.read_parquet(str(folder / f"{name}.parquet"))
        assert pa.table(found.to_arrow_table()).to_pylist() == table.to_pylist()
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        assert len(rows) == table.num_rows
    with (folder / "owners.csv").open(newline="", encoding="utf-8") as lines:
        assert next(csv.DictReader(lines))["message"] == hostile
