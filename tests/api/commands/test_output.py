"""Every listing command prints the same tables in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cli import run
from api.printing.layout import Screen, lines_of
from api.printing.output import Column, Format, Table, render, text
from tests.yaml_text import load_yaml

MOMENT = datetime(2026, 11, 1, 8, tzinfo=UTC)

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
    assert load_yaml(printed(Format.YAML)) == data
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
    assert "two lines\n" in out.getvalue()  # in a pipe a row is one line


NAME = st.text("abcdefghij-./:", min_size=1, max_size=40)
ROW = st.tuples(NAME, NAME, st.integers(0, 10**7), st.datetimes(timezones=st.just(UTC)), st.lists(NAME, max_size=20).map(" ".join))
NAMES = [Column("name"), Column("owner", may_go=2), Column("many", number=True), Column("last_ts", may_go=1)]


@given(st.lists(ROW, min_size=1, max_size=4), st.integers(40, 200), st.booleans())
def test_no_name_time_or_number_is_ever_broken(rows: list[tuple[Any, ...]], width: int, wide: bool) -> None:
    table = Table("t", [*NAMES, Column("message", prose=True)], rows)
    lines = lines_of(table, Screen(width), wide=wide)
    words = {word for line in lines for word in line.split()}
    for name, owner, many, last, message in rows:
        assert {name, f"{many:,}"} <= words
        if wide:  # nothing is left out either
            assert {owner, text(last), *message.split()} <= words
        elif not any("-o wide also shows" in line for line in lines):
            assert text(last) in words
    # Only a word that leaves no room for itself behind the label of its column may stand beyond the edge.
    assert all(len(line) <= width for line in lines if max(map(len, line.split()), default=0) + len("MESSAGE  ") <= width)


@given(st.lists(ROW, min_size=1, max_size=4))
def test_in_a_pipe_each_row_is_one_line_that_holds_all(rows: list[tuple[Any, ...]]) -> None:
    lines = lines_of(Table("t", [*NAMES, Column("message", prose=True)], rows), Screen(None), wide=False)
    assert len(lines) == 1 + len(rows)
    for line, row in zip(lines[1:], rows, strict=True):
        assert line.split() == [word for cell in row for word in text(cell).split()]


LOG = Table(
    "log",
    [
        Column("policy"),
        Column("binding"),
        Column("user", may_go=2),
        Column("last_ts", "LAST", may_go=1),
        Column("message", prose=True),
    ],
    [
        [
            "host-access",
            "host-access",
            "system:serviceaccount:kube-system:replicaset-controller",
            MOMENT,
            "host ports are not allowed " * 6,
        ],
        ["limits", "limits", "alice", MOMENT, "short"],
    ],
)


def test_where_room_is_short_columns_that_say_least_are_left_out() -> None:
    assert lines_of(LOG, Screen(80), wide=False) == [
        "POLICY        LAST                   MESSAGE",
        "host-access   2026-11-01T08:00:00Z   host ports are not allowed host ports are",
        "                                     not allowed host ports are not allowed host",
        "                                     ports are not allowed host ports are not …",
        "limits        2026-11-01T08:00:00Z   short",
        "note: -o wide also shows BINDING, USER",
        "note: … stands for more text: -o wide shows it",
    ]


LONG = "company-c-0075-deny-resources-with-image-pull-policy-not-set-to-always-for-latest-tag"


def test_a_long_name_that_stands_whole_elsewhere_loses_its_middle() -> None:
    columns = [Column("policy", may_shorten=True), Column("binding", may_shorten=True, may_go=1), Column("verdict")]
    table = Table("verdicts", columns, [[LONG, LONG, "NOT READY"], ["limits", "limits-everywhere", "READY"]])
    assert lines_of(table, Screen(80), wide=False) == [
        f"{'POLICY':69}  VERDICT",
        "company-c-0075-deny-resources-with-image-…et-to-always-for-latest-tag  NOT READY",
        f"{'limits':69}  READY",
        "note: -o wide also shows BINDING",
    ]
    assert any(LONG in line for line in lines_of(table, Screen(80), wide=True))


def test_sentences_with_a_long_name_stay_one_column() -> None:
    table = Table("reasons", [Column("reason", "WHY")], [["first"], [f"policy {LONG} has no binding"]])
    assert lines_of(table, Screen(60), wide=False) == ["WHY", "first", "policy", f"  {LONG}", "  has no binding"]


def test_what_does_not_fit_with_every_column_is_stacked() -> None:
    assert lines_of(LOG, Screen(80), wide=True)[-6:] == [
        "",
        "POLICY   limits",
        "BINDING  limits",
        "USER     alice",
        "LAST     2026-11-01T08:00:00Z",
        "MESSAGE  short",
    ]


@pytest.mark.parametrize(
    ("environment", "is_terminal", "expected"),
    [
        ({}, False, Screen(None, False, False)),
        ({"COLUMNS": "80"}, False, Screen(80, False, False)),
        ({"COLUMNS": "wide", "FORCE_COLOR": "1"}, False, Screen(None, True, False)),
        ({"COLUMNS": "90", "TERM": "xterm"}, True, Screen(90, True, True)),
        ({"COLUMNS": "90", "TERM": "dumb"}, True, Screen(90, False, True)),
        ({"COLUMNS": "90", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, Screen(90, False, True)),
        ({"COLUMNS": "90", "NO_COLOR": ""}, True, Screen(90, True, True)),
    ],
)
def test_width_and_colour_are_what_the_environment_asks_for(
    environment: dict[str, str], is_terminal: bool, expected: Screen
) -> None:
    assert Screen.of(SimpleNamespace(isatty=lambda: is_terminal), environment) == expected  # type: ignore[arg-type]


def test_a_verdict_has_its_colour_and_the_widths_do_not_change() -> None:
    table = Table("t", [Column("verdict", styles={"NOT READY": "red"}), Column("policy")], [["NOT READY", "p"], ["READY", "q"]])
    plain, coloured = (lines_of(table, Screen(80, has_colour), wide=False) for has_colour in (False, True))
    assert coloured[1] == "\x1b[1;31mNOT READY\x1b[0m   p"
    assert [re.sub("\x1b[^m]*m", "", line) for line in coloured] == plain


def test_a_limit_says_how_much_it_leaves_out() -> None:
    out = io.StringIO()
    render([Table("t", [Column("n")], [[n] for n in range(5)])], Format.TABLE, out, limit=2)
    assert out.getvalue() == "N\n0\n1\nnote: 3 more rows: --limit 0 shows all\n\n"


@pytest.mark.parametrize(
    "command", ["violations", "runs", "replay", "calibrate", "readiness", "exemptions", "gate", "policy", "doctor"]
)
def test_every_command_with_long_tables_can_shorten_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert "--limit" in capsys.readouterr().out


def test_doctor_ends_with_its_answer(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--lake", str(demo_lake), "doctor"])
    told = capsys.readouterr()
    assert told.err.splitlines()[-1].startswith("doctor: ")
    assert told.err.splitlines()[-1].endswith(f"; exit code {code}")


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        (["violations", "--by", "workload", "--by", "policy"], ("Recorded validation failures",)),
        (["doctor"], ("Where events came from", "The lake", "Missing or doubtful evidence")),
        (["calibrate", "--workers", "1"], ("Disagreements", "Replay of the bound policies")),
        (["least-privilege", "--subject", "dana", "-o", "table"], ("Used rights",)),
        (["least-privilege", "--unused"], ("Rules in force",)),
        (["policy", "cost"], ("CEL cost over recorded requests", "By expression", "Requests that come nearest to a limit")),
        (["exemptions"], ("Exemptions that leave no denial", "Tried on the later half", "The replay with these exemptions")),
        (["replay"], ("Run ",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_tables_stay_tables_in_80_columns(
    arguments: list[str],
    titles: tuple[str, ...],
    stretched_lake: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row that becomes several lines begins with a heading and its value; the row of headings has no value."""
    monkeypatch.setenv("COLUMNS", "80")
    if arguments[0] in ("policy", "exemptions", "replay"):
        arguments = [*arguments, "-f", str(Path(__file__).parents[3] / "api" / "demo" / "policies")]
    assert run(["-q", "--lake", str(stretched_lake), *arguments]) in (0, 3)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for title in titles:
        (at,) = [number for number, line in enumerate(lines) if line.startswith(title)]
        below = lines[at + 1 : lines.index("", at)]
        headings = next(line for line in below if re.match("[A-Z]+( |$)", line))
        assert headings == headings.upper().replace("X10", "x10")
        assert len(headings.split()) > 1
