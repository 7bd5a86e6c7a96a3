"""Texts of the log act neither on a spreadsheet nor on a terminal, and numbers stay numbers."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.printing.output import Column, Format, Table, render
from pipeline.report.cells import spreadsheet_text, visible
from pipeline.report.spreadsheet_columns import spreadsheet_column

HOSTILE = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-", "--help"]
HARMLESS = ["", "a=b", "-5", "+3.5e-7", "12", ".5", "2026-11-22", "[1, 2]", "'quoted'", "system:node:a"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_formula_gets_an_apostrophe(text: str) -> None:
    assert spreadsheet_text(text) == f"'{text}"


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert spreadsheet_text(text) == text


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([*HOSTILE, *HARMLESS]))))
def test_a_column_is_treated_as_its_texts_are(values: list[str | None]) -> None:
    expected = [None if value is None else spreadsheet_text(value) for value in values]
    column = pa.chunked_array([pa.array(values, pa.string())])
    assert spreadsheet_column(column).to_pylist() == expected
    assert spreadsheet_column(column.dictionary_encode()).to_pylist() == expected


def test_a_column_of_numbers_stays() -> None:
    column = pa.chunked_array([pa.array([-1, None], pa.int64())])
    assert spreadsheet_column(column).equals(column)


def test_csv_of_the_command_line_holds_no_formula() -> None:
    out = io.StringIO()
    render([Table("t", [Column("user"), Column("change", number=True)], [["=1+1", -5], [["@a", "b"], -0.5]])], Format.CSV, out)
    assert list(csv.reader(io.StringIO(out.getvalue()))) == [["user", "change"], ["'=1+1", "-5"], ["'@a, b", "-0.5"]]


@given(st.text())
def test_what_is_shown_acts_on_nothing(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert all(sign in "\n\t" or ord(sign) >= 0x20 for sign in shown)
    shown.encode()


def test_escapes_say_what_was_there() -> None:
    assert visible("a\x1b[31m\r\x9b\u202eb\ud800\n\tc") == "a\\x1b[31m\\r\\x9b\\u202eb\\ud800\n\tc"


def test_markdown_of_the_command_line_shows_escapes() -> None:
    out = io.StringIO()
    render([Table("t", [Column("user")], [["\x1b]0;owned\x07"]])], Format.MARKDOWN, out)
    assert "\\x1b]0;owned\\x07" in out.getvalue()
    assert "\x1b" not in out.getvalue()
