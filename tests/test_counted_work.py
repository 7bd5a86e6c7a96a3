"""No command does more than the tables in tests/cases/counted say: modules, calls, turns, documents, records, judgements, rows.

Counts are exact where seconds are noise. Here are the commands that take little time. `.ci/run` compares all of them, over a copy
of the log that is grown four times, too: so a quadratic step shows as a number.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.counted.__main__ import count_stories
from tests.counted.stories import told
from tests.counted.table import differences, kept_table, why_not_here

TOLD = told()


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "the tables are of this Python")
def test_no_command_does_more_than_the_table_says(tmp_path: Path) -> None:
    often = [story for story in TOLD.stories if story.often]
    if worse := list(differences(kept_table(1), count_stories(often, 1, tmp_path, TOLD.functions), 1)):
        pytest.fail("\n".join(worse), pytrace=False)


@pytest.mark.parametrize("name", [name for names in TOLD.functions.values() for name in names])
def test_a_function_that_is_counted_by_name_exists(name: str) -> None:
    module, _, function = name.partition(":")
    found: object = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)


def test_a_rise_and_a_table_that_is_too_high_are_told_with_the_line_and_the_count() -> None:
    kept = {"questions": {"sql": {"calls": 100, "scanned": 1000}}}

    def of(calls: int, scanned: int) -> list[str]:
        return list(differences(kept, {"questions": {"sql": {"calls": calls, "scanned": scanned}}}, 1))

    assert of(103, 900) == []
    where, hides = "1x, questions, sql", "and a table that is too high hides a later rise"
    assert [line.partition(";")[0] for line in of(104, 899)] == [
        f"{where}: calls of our own functions rose from 100 to 104 (+4.0%)",
        f"{where}: rows that DuckDB scanned fell from 1,000 to 899 (-10.1%), {hides}",
    ]
    assert "no table has this line" in next(differences(kept, {"questions": {"doctor": {"calls": 1}}}, 1))


def test_both_tables_have_every_line_that_runs() -> None:
    for copies in (1, 4):
        table = kept_table(copies)
        for story in TOLD.stories:
            lines = {
                name
                for name, line in story.lines.items()
                if not (copies > 1 and (line.once or story.once)) and (story.request or "{request}" not in line.run)
            }
            assert set(table.get(story.name, {})) == lines, (copies, story.name)
