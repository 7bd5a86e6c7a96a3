"""No text of a client acts where a report is shown, whatever its form, and the values stay what they are."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.printing.output import Column, Format, Table, render
from pipeline.report.cells import spreadsheet_text, visible
from pipeline.report.texts import json_text, yaml_text

# Written out here: C0 without tab and line feed, DEL and C1, marks and overrides of direction, separators of lines.
ACTING = [
    *(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
]
texts = st.text(st.one_of(st.sampled_from(ACTING), st.characters(exclude_categories=("Cs",))), max_size=12)
values = st.recursive(texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6)


def acts(text: str) -> bool:
    return any(character in text for character in ACTING)


@given(values)
def test_json_and_yaml_have_the_same_values_and_nothing_that_acts(value: Any) -> None:
    for indent in (None, 2):
        text = json_text(value, indent)
        assert json.loads(text) == value
        assert not acts(text)
    for flow in (False, True):
        text = yaml_text([value], flow=flow)
        assert yaml.safe_load(text) == value
        assert not acts(text)


@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=3))
def test_a_cell_of_a_csv_file_begins_no_row(rows: list[list[str]]) -> None:
    out = io.StringIO()
    render([Table("rows", [Column("a"), Column("b")], rows)], Format.CSV, out)
    assert not acts(out.getvalue())
    # As readers read it that take a bare carriage return for the end of a row.
    found = list(csv.reader(io.StringIO(out.getvalue().replace("\r", "\n"), newline="")))
    assert found == [["a", "b"], *([spreadsheet_text(visible(cell)) for cell in row] for row in rows)]
