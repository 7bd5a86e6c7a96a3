"""The tables of `hindcast replay` for policies: counts by binding, requests without a verdict, and changes by expression."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.counted import counted

from ...runs.summary import UNBOUND, VACUOUS, BindingSummary, RunSummary
from ...tables import Column, Table
from .difference import ExpressionDifference
from .plan import ReplayPlan


def summary_table(summary: RunSummary) -> Table:
    """One row per (policy, binding)."""
    counts = ("matched", "admit", "deny", "error", "unknown")
    columns = [
        Column("policy"),
        Column("binding"),
        *(Column(name, number=True) for name in counts),
        Column("nomatch", "NO MATCH", wide=True, number=True),
        Column("actions"),
        Column("remark", wide=True, prose=True),
    ]
    rows = [
        [entry.policy, entry.binding, *(getattr(entry, name) for name in counts), entry.nomatch, entry.actions, _remark(entry)]
        for entry in summary.bindings
    ]
    notes = ["an error that failurePolicy Fail turns into a denial counts as deny"]
    notes += [f"{entry.policy}: {remark}" for entry in summary.bindings if (remark := _remark(entry))]
    return Table("bindings", columns, rows, f"Run {summary.run_id}: {counted(summary.evaluated, 'request')} replayed", tuple(notes))


def _remark(entry: BindingSummary) -> str:
    """What a reader of the counts has to know of a (policy, binding)."""
    said = [UNBOUND] if entry.binding is None else []
    return "; ".join([*said, *([VACUOUS] if entry.matched == 0 else [])])


def not_evaluated_table(plan: ReplayPlan, summary: RunSummary) -> Table:
    """Requests without a verdict, by reason."""
    reasons = [*summary.not_evaluated, *plan.excluded]
    rows = sorted(((reason, count) for reason, count in reasons), key=lambda row: (-row[1], row[0]))
    return Table(
        "not_evaluated", [Column("reason"), Column("requests", number=True)], rows, "Requests that were not replayed, and why"
    )


def difference_table(rows: Sequence[ExpressionDifference]) -> Table:
    """One row per expression: the changes from the old policies to the new."""
    names = ("newly_denied", "newly_allowed", "message_changed", "unchanged", "unknown")
    columns = [
        Column("policy"),
        Column("binding"),
        Column("expression_index", "EXPRESSION", number=True),
        *(Column(name, number=True) for name in names),
        Column("denied_message", "EXAMPLE OF A NEW DENIAL", prose=True),
        Column("denied_example", "AUDIT ID", wide=True),
    ]
    cells = [[getattr(row, column.key) for column in columns] for row in rows]
    notes = ("unknown: either version could not be judged", "a row without an expression stands for all of them")
    return Table(
        "difference", columns, cells, "Changes by expression", notes[: 1 + any(row.expression_index is None for row in rows)]
    )
