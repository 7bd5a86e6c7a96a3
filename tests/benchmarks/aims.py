"""The speeds that the replay is to reach, each with the figure of a run and whether it reaches the aim.

An aim names a row of bench_replay.py. Its figure is in the unit of that row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Aim(NamedTuple):
    """What a row must reach: at most or at least so much."""

    what: str
    row: str
    bound: float
    is_most: bool = False

    def is_reached(self, value: float) -> bool:
        """Whether a figure reaches the aim."""
        return value <= self.bound if self.is_most else value >= self.bound


AIMS = (
    Aim("12 policies, compacted and prepared, warm", "replay, grown, compacted, prepared, 12 policies, 1 worker, warm to Go", 10),
    Aim("1 policy, the same", "replay, grown, compacted, prepared, 1 policy, 1 worker, warm to Go", 10),
    Aim("12 policies, as ingested, share of the compacted rate", "replay, as ingested to compacted, 12 policies", 0.7),
    Aim("1 policy, the same", "replay, as ingested to compacted, 1 policy", 0.7),
    Aim("cold command, 1 policy, prepared", "replay, command, prepared, 1 policy", 6, True),
    Aim("an edited policy again", "replay, edited, 1 policy", 1, True),
    Aim("growth, 12 policies, as ingested", "replay, growth, as ingested, fresh, 12 policies, 1 worker", 6.5, True),
    Aim("growth, 1 policy, as ingested", "replay, growth, as ingested, fresh, 1 policy, 1 worker", 6.5, True),
    Aim("growth, 12 policies, compacted", "replay, growth, compacted, fresh, 12 policies, 1 worker", 6.5, True),
    Aim("growth, 1 policy, compacted", "replay, growth, compacted, fresh, 1 policy, 1 worker", 6.5, True),
    Aim("derived tables, added to ingest and compaction", "replay, prepare, cost", 40, True),
    Aim("derived tables, added to the disk", "replay, prepare, disk", 20, True),
    Aim("peak memory, 12 policies, fresh", "replay, grown, compacted, fresh, 12 policies, 1 worker, memory", 1000, True),
    Aim("peak memory, 12 policies, prepared", "replay, grown, compacted, prepared, 12 policies, 1 worker, memory", 1000, True),
    Aim("hindcast --help, wall", "replay, start, hindcast --help, wall", 0.4, True),
    Aim("hindcast --help, processor", "replay, start, hindcast --help", 0.8, True),
    Aim("violations on a small lake, wall", "replay, start, violations, wall", 0.4, True),
    Aim("violations on a small lake, processor", "replay, start, violations", 0.8, True),
    Aim("two workers, 12 policies, fresh", "replay, grown, compacted, fresh, 12 policies, two workers sooner", 1.6),
)


def with_aims(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and in those that have an aim the keys `aim`, `at_most` and `is_reached`."""
    by_row = {aim.row: aim for aim in AIMS}
    found = []
    for row in rows:
        aim = by_row.get(row["name"])
        told = {"aim": aim.bound, "at_most": aim.is_most, "is_reached": aim.is_reached(row["value"])} if aim else {}
        found.append({**row, **told})
    return found


def print_aims(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print every aim with its figure; a row that was not measured is said to be missing."""
    values = {row["name"]: row for row in rows}
    table = Table(box=None, title="aims of the replay")
    for heading in ("", "figure", "aim", "", "detail"):
        table.add_column(heading, justify="right" if heading == "figure" else "left")
    for aim in AIMS:
        row = values.get(aim.row)
        bound = f"{'at most' if aim.is_most else 'at least'} {aim.bound:g}"
        if row is None:
            table.add_row(aim.what, "", bound, "not measured")
        else:
            reached = "reached" if aim.is_reached(row["value"]) else "not reached"
            table.add_row(aim.what, f"{row['value']:.2f} {row['unit']}", bound, reached, str(row.get("detail", "")))
    Console(width=180, stderr=True).print(table)
