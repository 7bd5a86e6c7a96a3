"""The tables of counts that stand in the repository, and how new counts compare with them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

import yaml

from tests.counted.stories import CASES

Counts = dict[str, int]
Table = dict[str, dict[str, Counts]]
# A table holds for one minor of Python: others import other modules, and call other functions.
PYTHON = "3.11"
RISE_MAX = 0.03
# A table that is far too high would hide a later rise.
FALL_MAX = 0.10
COLUMNS = {
    "modules": "modules imported", "calls": "calls of our own functions", "turns": "turns of our own loops",
    "decoded": "documents decoded from JSON", "records": "records met", "judgements": "judgements",
    "statements": "statements sent to DuckDB", "scanned": "rows that DuckDB scanned", "inside": "rows that DuckDB's operators made",
    "returned": "rows that came back from DuckDB",
}  # fmt: skip


def why_not_here() -> str:
    """Why this Python cannot be compared with the tables, or nothing."""
    own = ".".join(platform.python_version_tuple()[:2])
    return "" if own == PYTHON else f"the tables of counts are of Python {PYTHON}, this is {own}"


def _file(copies: int) -> str:
    return "once.yaml" if copies == 1 else f"grown-{copies}.yaml"


def kept_table(copies: int) -> Table:
    """The table of the bundled log, or of its copy grown so many times."""
    found: Table = yaml.safe_load((CASES / _file(copies)).read_text(encoding="utf-8"))
    return found


def write_table(copies: int, found: Table, *, is_whole: bool) -> None:
    """Write the lines found; those of other stories stay, unless it is the whole table."""
    path = CASES / _file(copies)
    table = {**({} if is_whole else kept_table(copies)), **found}
    log = "the bundled log" if copies == 1 else f"a copy of the bundled log grown {copies} times"
    lines = [f"# What commands do over {log}. `make counted` writes this file; commands.yaml says what runs.\n"]
    lines += [f"#   {name}: {words}\n" for name, words in COLUMNS.items()]
    for story, rows in table.items():
        lines.append(f"{_key(story)}:\n")
        for name, counts in rows.items():
            figures = ", ".join(f"{column}: {counts[column]}" for column in COLUMNS)
            lines.append(f"  {_key(name)}: {{{figures}}}\n")
    path.write_text("".join(lines), encoding="utf-8")


def _key(name: str) -> str:
    return f'"{name}"' if "," in name or ":" in name else name


def differences(kept: Table, found: Table, copies: int) -> Iterator[str]:
    """A sentence for each count that rose by more than RISE_MAX, or fell by more than FALL_MAX, or that no table has."""
    for story, rows in found.items():
        for name, counts in rows.items():
            before = kept.get(story, {}).get(name)
            if before is None:
                yield f"{copies}x, {story}, {name}: no table has this line; `make counted` writes it"
                continue
            for column, count in counts.items():
                if sentence := _moved(before.get(column, 0), count):
                    yield (
                        f"{copies}x, {story}, {name}: {COLUMNS[column]} {sentence}; `make counted` writes the new table, and its "
                        "difference is read in review"
                    )


def _moved(before: int, now: int) -> str:
    share = f" ({(now - before) / before:+.1%})" if before else ""
    if now > before * (1 + RISE_MAX):
        return f"rose from {before:,} to {now:,}{share}"
    if now < before * (1 - FALL_MAX):
        return f"fell from {before:,} to {now:,}{share}, and a table that is too high hides a later rise"
    return ""


def growth(once: Table, grown: Table) -> Mapping[tuple[str, str], dict[str, float]]:
    """How many times each count is what it was over the bundled log."""
    return {
        (story, name): {column: counts[column] / once[story][name][column] for column in counts if once[story][name].get(column)}
        for story, rows in grown.items()
        for name, counts in rows.items()
        if name in once.get(story, {})
    }
