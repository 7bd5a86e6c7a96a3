"""The catalog installs every statement, documents it, and is seen by every cursor."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import InputError, LakeError
from ingest.schema import EVENTS
from queries import rows
from queries.catalog import LakeFiles, file_literal, install, parse_statement, statements
from queries.lake import DIMENSIONS, LakeReader, rows_of, view_names
from queries.templates import install_new

DUCKDB_TYPES = {
    str: {"VARCHAR", "JSON"},
    int: {"INTEGER", "BIGINT"},
    bool: {"BOOLEAN"},
    datetime: {"TIMESTAMP WITH TIME ZONE"},
    date: {"DATE"},
    list[str]: {"VARCHAR[]"},
}

RELATIONS: dict[type, Callable[[LakeReader], duckdb.DuckDBPyRelation]] = {
    rows.Violation: LakeReader.violations,
    rows.ViolationCount: lambda reader: reader.violation_rollup(DIMENSIONS),
    rows.Denial: LakeReader.denials,
    rows.AuditAnnotation: LakeReader.audit_annotations,
    rows.ObjectVersion: LakeReader.object_versions,
    rows.Evidence: LakeReader.evidence,
    rows.KnownPolicy: LakeReader.known_policies,
    rows.Source: LakeReader.sources,
    rows.Loss: LakeReader.losses,
}


@pytest.fixture
def reader() -> LakeReader:
    return LakeReader(LakeFiles)


@pytest.mark.parametrize("row", RELATIONS, ids=lambda row: row.__name__)
def test_rows_have_the_columns_and_types_of_their_view(row: type, reader: LakeReader) -> None:
    relation = RELATIONS[row](reader)
    described = dict(zip(relation.columns, map(str, relation.types), strict=True))
    fields = {name: _without_none(hint) for name, hint in typing.get_type_hints(row).items()}
    assert list(described) == list(fields)
    for name, hint in fields.items():
        assert described[name] in DUCKDB_TYPES[hint], name


def test_every_row_class_is_held_against_a_view() -> None:
    declared = {value for value in vars(rows).values() if dataclasses.is_dataclass(value)}
    assert declared == {*RELATIONS, rows.CheckResult}


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    return hint


def test_an_empty_lake_answers_every_question_with_no_rows(reader: LakeReader) -> None:
    for name in view_names():
        assert reader.sql(f"FROM {name}").fetchall() == []
    assert [check.rows for check in reader.checks()] == [0] * len(reader.checks())


def test_views_that_people_ask_come_first() -> None:
    assert view_names()[:3] == ("violations", "denials", "requests")
    assert sorted(view_names()) == sorted(statement.name for statement in statements() if statement.kind == "view")


def test_documented_columns_exist_and_are_kept_in_the_database(reader: LakeReader) -> None:
    for statement in statements():
        if statement.kind == "view":
            columns = reader.columns(statement.name)
            assert statement.names.items() <= columns.items()
            assert all(columns.values()), statement.name
            kept = reader.sql("SELECT comment FROM duckdb_views() WHERE view_name = ?", [statement.name]).fetchall()
            assert kept[0][0].startswith("one row per ")


def test_every_macro_documents_its_arguments_and_every_check_its_severity(reader: LakeReader) -> None:
    arguments = dict(reader.sql("SELECT function_name, parameters FROM duckdb_functions() WHERE NOT internal").fetchall())
    for statement in statements():
        if statement.kind == "macro":
            documented = [name.removesuffix("_name") for name in arguments[statement.name]]
            assert len(statement.names) == len(documented), statement.name
        if statement.kind == "check":
            assert statement.severity in {"fail", "warn"}, statement.name


def test_statements_come_after_those_that_they_name() -> None:
    order = {statement.name: position for position, statement in enumerate(statements())}
    for statement in statements():
        for name in (statement.words & order.keys()) - {statement.name}:
            assert order[name] < order[statement.name], f"{statement.name} names {name}"


def test_a_header_is_taken_apart() -> None:
    header = "-- one row per x\n-- a: first\n--   and more\n-- b: second\n--\n-- A remark: of two\n-- lines.\n"
    text = header + "SELECT x FROM y -- not this"
    statement = parse_statement("view", "v", text)
    assert statement.promise == "one row per x"
    assert statement.names == {"a": "first and more", "b": "second"}
    assert statement.remark == "A remark: of two\nlines."
    assert statement.words == {"x", "y"}


def test_a_file_without_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match=r"v\.sql does not begin with a comment"):
        parse_statement("view", "v", "SELECT 1")


def test_installing_twice_is_the_same_as_once() -> None:
    connection = duckdb.connect()
    install(connection, LakeFiles())
    install(connection, LakeFiles())
    assert connection.sql("FROM violations").fetchall() == []


def test_few_events_take_one_thread(tmp_path: Path) -> None:
    path = str(tmp_path / "events.parquet")
    pq.write_table(EVENTS.empty_table(), path)
    state = [LakeFiles((path,))]

    def threads(reader: LakeReader) -> int:
        return int(reader.rows("SELECT current_setting('threads') AS threads")[0]["threads"])

    every = threads(LakeReader(lambda: state[0]))
    state[0] = LakeFiles((path,), event_rows=10)
    reader = LakeReader(lambda: state[0])
    assert (threads(reader), threads(LakeReader(lambda: state[0], threads=3))) == (1, 3)
    state[0] = LakeFiles((path,), event_rows=10_000_000)
    assert reader.refresh() is True
    assert threads(reader) == every


def test_sessions_see_the_views_the_time_zone_and_refreshed_files(tmp_path: Path) -> None:
    one, two = _file(tmp_path / "it's one.parquet", "a"), _file(tmp_path / "two.parquet", "b")
    files = [one]
    reader = LakeReader(lambda: LakeFiles(tuple(files)))
    with reader.session() as session:
        assert session.events().project("audit_id").fetchall() == [("a",)]
        assert session.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
        files.append(two)
        assert session.events().project("audit_id").fetchall() == [("a",)]
        assert reader.refresh() is True
        assert session.events().order("audit_id").project("audit_id").fetchall() == [("a",), ("b",)]
    assert reader.refresh() is False


def _file(path: Path, audit_id: str) -> str:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row: dict[str, Any] = {name: [] for name in ("user_groups", "source_ips", "annotations", "vap_failures", "flags")}
    row |= {"cluster": "lab", "audit_id": audit_id, "stage": "ResponseComplete", "level": "Metadata", "ingest_source": "test"}
    row |= {"stage_ts": now, "ts": now, "ingest_ts": now}
    pq.write_table(pa.Table.from_pylist([row], EVENTS), path)
    return str(path)


@pytest.mark.parametrize("path", ["events/*.parquet", "a?b", "[1].parquet"])
def test_a_path_that_engines_expand_is_refused(path: str) -> None:
    with pytest.raises(LakeError, match="move the lake to a plain path"):
        file_literal(path)


def test_a_quote_in_a_path_stays_inside_the_literal() -> None:
    assert file_literal("it's.parquet") == "'it''s.parquet'"


def test_sql_that_cannot_be_bound_is_an_input_error(reader: LakeReader) -> None:
    with pytest.raises(InputError, match="nowhere"):
        reader.sql("FROM nowhere")
    with pytest.raises(InputError, match="this SQL cannot be run"):
        reader.sql("SELEC 1")


def test_an_unknown_dimension_or_view_is_an_input_error(reader: LakeReader) -> None:
    with pytest.raises(InputError, match="violations cannot be counted by 'colour'; use one of policy, binding"):
        reader.violation_rollup(["policy", "colour"])
    with pytest.raises(InputError, match="found no view 'nowhere'"):
        reader.columns("nowhere")


def test_a_relation_with_other_columns_is_not_taken_for_rows(reader: LakeReader) -> None:
    with pytest.raises(LakeError, match="are not those of KnownPolicy"):
        rows_of(reader.denials(), rows.KnownPolicy)


def described(connection: duckdb.DuckDBPyConnection) -> list[list[tuple[object, ...]]]:
    """Every view, macro and column of a connection, with its text and comment."""
    # DuckDB prints the columns of an EXCLUDE in any order.
    words = "list_sort(regexp_split_to_array({}, '[ ,()]+'))"
    queries = (
        f"SELECT view_name, {words.format('sql')}, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1",
        f"SELECT function_name, {words.format('macro_definition')} FROM duckdb_functions() WHERE NOT internal ORDER BY 1",
        "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
    )
    return [connection.execute(query).fetchall() for query in queries]


def test_a_later_connection_has_the_same_views_without_their_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = duckdb.connect()
    install(whole, LakeFiles())
    wanted = described(whole)
    assert all(wanted)

    def opened() -> list[list[tuple[object, ...]]]:
        with duckdb.connect() as connection:
            install_new(connection, LakeFiles())
            return described(connection)

    assert [opened(), opened()] == [wanted, wanted]
    (template,) = (tmp_path / "hindcast").iterdir()
    # A user may clean the folder, a disk may damage the file, and other versions leave files of their own.
    template.unlink()
    assert opened() == wanted
    template.write_bytes(template.read_bytes()[:5000])
    for number in range(8):
        (tmp_path / "hindcast" / f"views-{number}.duckdb").touch()
    assert [opened(), opened()] == [wanted, wanted]
    kept = list((tmp_path / "hindcast").iterdir())
    assert len(kept) == 4
    assert template in kept


def test_a_user_without_a_cache_folder_gets_the_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        with duckdb.connect() as connection:
            install_new(connection, LakeFiles())
            assert connection.execute("SELECT count(*) FROM requests").fetchall() == [(0,)]
