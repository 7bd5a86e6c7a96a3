"""Every listing command prints the same tables in every format."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest
import yaml

from api.output import Column, Format, Table, render

TABLES = (
    Table(
        "first",
        (Column("name"), Column("when", wide=True), Column("many", number=True), Column("kinds"), Column("is_new")),
        (('a, "b"\nc', datetime(2026, 11, 1, 8, tzinfo=UTC), 12345, ["x", "y"], True), ("", None, 0.25, (), False)),
        "A title",
        ("a note",),
    ),
    Table("second", (Column("one"),), (("| <b>",),)),
)


def printed(form: Format) -> str:
    stream = io.StringIO()
    render(TABLES, form, stream)
    return stream.getvalue()


def test_csv_holds_the_first_table_whole_and_says_what_else_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(Format.CSV))))
    assert rows == [
        {"name": 'a, "b"\nc', "when": "2026-11-01T08:00:00Z", "many": "12345", "kinds": "x, y", "is_new": "true"},
        {"name": "", "when": "", "many": "0.25", "kinds": "", "is_new": "false"},
    ]
    assert capsys.readouterr().err == "csv holds one table, here first; second: -o json\n"


def test_json_and_yaml_hold_every_table_and_note() -> None:
    data = json.loads(printed(Format.JSON))
    assert yaml.safe_load(printed(Format.YAML)) == data
    assert set(data) == {"first", "second", "notes"}
    assert data["first"][0]["when"] == "2026-11-01T08:00:00Z"


def test_wide_shows_more_than_a_table() -> None:
    assert "WHEN" not in printed(Format.TABLE)
    assert "WHEN" in printed(Format.WIDE)
    assert "12,345" in printed(Format.TABLE)


def test_markdown_cells_end_no_table() -> None:
    lines = [line for line in printed(Format.MARKDOWN).splitlines() if line.startswith("|")]
    assert len(lines) == 7
    assert {line.replace("\\|", "").count("|") for line in lines[:4]} == {6}
    assert {line.replace("\\|", "").count("|") for line in lines[4:]} == {2}


def test_names_that_clients_choose_do_nothing_to_a_terminal() -> None:
    out = io.StringIO()
    render([Table("names", [Column("name")], [["\x1b[2Jevil\u202egnp\ttab"], ["two\nlines"]])], Format.TABLE, out)
    assert "\\x1b[2Jevil\\u202egnp\\ttab" in out.getvalue()
    assert not {"\x1b", "\u202e", "\t"} & set(out.getvalue())
    assert "two\n" in out.getvalue().replace(" ", "")
