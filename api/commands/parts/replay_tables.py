"""The tables of `hindcast replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.runs import RunSummary
    from pipeline.runs.summary import BindingSummary
    from pipeline.stages.validating.difference import ExpressionDifference, RequestDifference
    from pipeline.stages.validating.plan import ReplayPlan


def plan_tables(plan: ReplayPlan) -> list[Table]:
    """Requests that each (policy, binding) may match, their resources, and the requests left out."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    bindings = [Column("policy"), Column("binding"), Column("requests", number=True), Column("actions")]
    classes = [Column("operation"), Column("resource"), Column("requests", number=True)]
    rows = [(operation, resource, count) for (operation, resource), count in plan.by_resource().most_common()]
    if others := plan.requests - plan.by_resource().total():
        rows.append(("", "requests of these resources and verbs that no policy matches", others))
    title = f"Run {plan.run_id}: {counted(plan.requests, 'request')} to replay"
    return [
        Table("bindings", bindings, [(item.policy, item.binding, item.requests, item.actions) for item in plan.bindings], title),
        Table("requests", classes, rows, "Requests to replay"),
        Table(
            "excluded",
            [Column("reason"), Column("requests", number=True)],
            plan.excluded,
            "Requests that are not replayed, and why",
        ),
    ]


def summary_table(summary: RunSummary) -> Table:
    """One row per (policy, binding)."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

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
    from pipeline.runs.summary import UNBOUND, VACUOUS

    said = [UNBOUND] if entry.binding is None else []
    return "; ".join([*said, *([VACUOUS] if entry.matched == 0 else [])])


def not_evaluated_table(plan: ReplayPlan, summary: RunSummary) -> Table:
    """Requests without a verdict, by reason."""
    from api.printing.output import Column, Table

    reasons = [*summary.not_evaluated, *plan.excluded]
    rows = sorted(((reason, count) for reason, count in reasons), key=lambda row: (-row[1], row[0]))
    return Table(
        "not_evaluated", [Column("reason"), Column("requests", number=True)], rows, "Requests that were not replayed, and why"
    )


def request_difference_table(rows: Sequence[RequestDifference], notes: tuple[str, ...] = ()) -> Table:
    """One row per policy: requests newly denied, newly allowed, and so on. `notes` are printed below."""
    from api.printing.output import Column, Table

    names = ("newly_denied", "newly_allowed", "still_denied", "still_allowed", "unknown")
    columns = [Column("policy"), *(Column(name, number=True) for name in names)]
    return Table(
        "requests", columns, [[getattr(row, column.key) for column in columns] for row in rows], "Requests by change", notes
    )


def difference_table(rows: Sequence[ExpressionDifference]) -> Table:
    """One row per expression: the changes from the old policies to the new."""
    from api.printing.output import Column, Table

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
