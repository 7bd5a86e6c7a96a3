"""Names of columns that a question gives, and questions about what lies outside of the lake."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from api.cli import run

NAME = "a\x1b[31mb\nc|d"


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "csv", "json", "yaml"])
def test_a_name_of_a_column_does_nothing_to_a_terminal(demo_lake: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(demo_lake), "sql", f'SELECT 1 AS "{NAME}", 2 AS "=cmd()"', "-o", form]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    if form == "csv":
        (head, row) = list(csv.reader(io.StringIO(shown)))
        assert head == ["a\\x1b[31mb\nc|d", "'=cmd()"]
        assert row == ["1", "2"]
    elif form == "json":
        assert json.loads(shown)["rows"] == [{NAME: 1, "=cmd()": 2}]
    elif form == "markdown":
        assert "c\\|d" in shown


def test_an_extension_is_not_looked_for(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lake is not to blame, and nothing is downloaded."""
    assert run(["--lake", str(demo_lake), "sql", "SELECT * FROM sqlite_scan('x', 'y')"]) == 2
    problem = capsys.readouterr().err
    assert problem.startswith("hindcast: this SQL cannot be run: ")
    assert "doctor" not in problem
