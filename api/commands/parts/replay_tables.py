"""The tables of `hindcast replay`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from api.printing.output import Column, Table
from ingest.counted import counted
from pipeline.replay import ExpressionDifference, ReplayPlan, RequestDifference
from pipeline.runs import RunSummary
from pipeline.runs.flips import Flipped, count_flips
from pipeline.runs.summary import UNBOUND, VACUOUS, BindingSummary
from pipeline.runs.verdict import Flip

# The worst first.
_FLIPS = [Flip.NEWLY_DENIED, Flip.NEWLY_ALLOWED, Flip.CHANGED, Flip.UNKNOWN, Flip.STILL_DENIED, Flip.SAME]
_CHANGES = (Flip.NEWLY_DENIED, Flip.NEWLY_ALLOWED, Flip.CHANGED)


def plan_tables(plan: ReplayPlan) -> list[Table]:
    """Requests that each (policy, binding) may match, their resources, and the requests left out."""
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


def request_difference_table(rows: Sequence[RequestDifference], notes: tuple[str, ...] = ()) -> Table:
    """One row per policy: requests newly denied, newly allowed, and so on. `notes` are printed below."""
    names = ("newly_denied", "newly_allowed", "still_denied", "still_allowed", "unknown")
    columns = [Column("policy"), *(Column(name, number=True) for name in names)]
    return Table(
        "requests", columns, [[getattr(row, column.key) for column in columns] for row in rows], "Requests by change", notes
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


def flips_tables(stage: str, summary: RunSummary, found: Sequence[Flipped]) -> list[Table]:
    """The tables of a stage: requests by change against the record, who is affected, and the reasons of unknown requests."""
    counts: Counter[str] = count_flips(found)
    totals = [(name, counts[name]) for name in _FLIPS if counts[name]]
    title = f"Run {summary.run_id}, stage {stage}: {counted(summary.evaluated, 'request')} replayed"
    tables = [Table("flips", [Column("flip", "AGAINST THE RECORD"), Column("requests", number=True)], totals, title)]
    for flip in _CHANGES:
        if counts[flip]:
            rows = [each for each in found if each.flip == flip]
            tables.append(_affected(flip.replace("-", "_"), f"{flip.capitalize().replace('-', ' ')}: who is affected", rows))
    unknown = Counter[str]()
    for each in found:
        if each.flip == Flip.UNKNOWN:
            unknown[each.why or ""] += each.requests
    if unknown:
        columns = [Column("why", "WHY UNKNOWN", prose=True), Column("requests", number=True)]
        tables.append(Table("unknown", columns, unknown.most_common(), "Requests whose outcome is unknown"))
    return tables


def _affected(name: str, title: str, found: Sequence[Flipped]) -> Table:
    """One row per user, resource, namespace and rule, with the verbs; the most requests first."""
    columns = [
        Column("requests", number=True),
        Column("user_name", "USER", may_shorten=True),
        Column("verbs"),
        Column("resource", may_shorten=True),
        Column("namespace", may_shorten=True, may_go=1),
        Column("rule_ref", "RULE", wide=True),
        Column("why", wide=True, prose=True),
        Column("first_ts", "FIRST", wide=True),
        Column("last_ts", "LAST", wide=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    groups: dict[tuple[str | None, ...], list[Flipped]] = {}
    for each in found:
        groups.setdefault((each.user_name, each.resource, each.namespace, each.rule_ref), []).append(each)
    rows = [
        [
            sum(each.requests for each in rows),
            user,
            sorted({each.verb for each in rows}),
            resource,
            namespace,
            rule,
            rows[0].why,
            min(each.first_ts for each in rows),
            max(each.last_ts for each in rows),
            max(rows, key=lambda each: each.last_ts).example,
        ]
        for (user, resource, namespace, rule), rows in groups.items()
    ]
    return Table(name, columns, sorted(rows, key=lambda row: -int(str(row[0]))), title)
