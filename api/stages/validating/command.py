"""`hindcast policy`: the CEL cost of policies over recorded requests, and the type-check warnings of their expressions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.validating.cost_figures import CostFigure, NearRequest, PolicyCost


class Question(StrEnum):
    """What to compute about policies."""

    COST = "cost"
    CHECK = "check"


def command(
    context: typer.Context,
    question: Annotated[
        Question,
        typer.Argument(
            help="cost: the CEL cost of each expression over recorded requests; check: type-check warnings, without a lake."
        ),
    ],
    files: Annotated[list[Path] | None, typer.Argument(help="The same as -f.", show_default=False)] = None,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    other_authorizers: options.OtherAuthorizersOption = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
    openapi: Annotated[
        list[Path] | None,
        typer.Option(help="With check: schemas of more kinds, as kubectl get --raw /openapi/v3/apis/GROUP/VERSION prints them."),
    ] = None,
    exit_code: bool = typer.Option(False, "--exit-code", help="Exit with 1 when a recorded request goes over a limit."),
) -> int:
    """Print the CEL cost of each expression over recorded requests, or the type-check warnings of a cluster."""
    from api import asked_values
    from api.commands.parts.texts import read_texts
    from api.commands.parts.window import check_window
    from api.given import given_of, warn_of
    from api.printing.output import render
    from api.stages.validating.check import check
    from pipeline.runs.window import Window
    from pipeline.stages.registry import VALIDATING
    from pipeline.stages.stage import Asked
    from pipeline.stages.validating.costs import policy_costs
    from queries import open_lake

    own: Context = context.obj
    policies = [*(files or ()), *(policies or ())]
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    if question is Question.CHECK:
        return check(own, policies, openapi or (), version, output, limit)
    if openapi:
        raise InputError("--openapi belongs to hindcast policy check", "leave it out")
    check_window(own, window)
    given = given_of(read_texts(policies), version, own.lake)
    warn_of(own, given)
    rules = given.needed(VALIDATING)
    with closing(open_lake(own.lake)) as reader:
        plan = VALIDATING.plan(reader, rules, Asked(window, version, other_authorizers))
    with own.progress("counting costs") as step:
        found = policy_costs(plan, own.lake, step)
    render([policies_table(found), figures_table(found), nearest_table(found)], output, limit=limit)
    return 1 if exit_code and any(each.over for each in found) else 0


def policies_table(found: Sequence[PolicyCost]) -> Table:
    """One row per policy: whether a limit was reached."""
    from api.printing.output import Column, Table

    columns = [Column("policy"), *(Column(name, number=True) for name in ("evaluations", "unknown", "over")), Column("verdict")]
    rows = [[each.policy, each.evaluations, each.unknown, each.over, _verdict(each)] for each in found]
    notes = [
        "an evaluation is one request with one param; bindings that share a param share it",
        "unknown: a value was not recorded, so the cost is unknown; the figures leave these evaluations out",
    ]
    return Table("policies", columns, rows, "CEL cost over recorded requests", notes)


def _verdict(cost: PolicyCost) -> str:
    if cost.over:
        return "NOT READY: over a cost limit"
    return "within the limits" if cost.evaluations > cost.unknown else "unknown"


def figures_table(found: Sequence[PolicyCost]) -> Table:
    """One row per expression and per budget that expressions share."""
    from api.printing.output import Column, Table
    from pipeline.stages.validating.cost_figures import GROWTH

    numbers = ("median", "p99", "most", "limit")
    columns = [
        Column("policy", may_shorten=True),
        Column("what", "EXPRESSION", may_shorten=True),
        *(Column(name, number=True, may_go=int(name == "p99")) for name in numbers),
        Column("grown", f"x{GROWTH}", number=True),
        Column("evaluations", wide=True, number=True),
        Column("over", wide=True, number=True),
    ]
    figures: list[CostFigure] = [figure for each in found for figure in each.figures]
    notes = (
        f"x{GROWTH} is an estimate: the requests below, evaluated again on copies of their objects in which each outermost list is "
        f"{GROWTH} times as long; texts and maps stay",
        "the API server ends an expression above its limit, so a cost above the limit is a lower bound",
    )
    return Table("expressions", columns, [[getattr(row, each.key) for each in columns] for row in figures], "By expression", notes)


def nearest_table(found: Sequence[PolicyCost]) -> Table:
    """The requests that come nearest to a limit, policy by policy."""
    from api.printing.output import Column, Table
    from pipeline.stages.validating.cost_figures import GROWTH

    columns = [
        Column("policy", may_shorten=True),
        Column("audit_id", "AUDIT ID"),
        Column("object", may_go=1),
        Column("cost", number=True, may_go=2),
        Column("share", "OF LIMIT", number=True),
        Column("grown_share", f"x{GROWTH}", number=True),
        Column("what", "EXPRESSION", wide=True),
        Column("limit", wide=True, number=True),
        Column("alike", wide=True, number=True),
        Column("cluster", wide=True),
        Column("grown_what", f"x{GROWTH} EXPRESSION", wide=True),
        Column("grown_cost", f"x{GROWTH} COST", wide=True, number=True),
    ]
    rows = [
        [
            row.policy,
            row.audit_id,
            _object(row),
            row.cost,
            _share(row.cost, row.limit),
            _share(row.grown_cost, row.grown_limit),
            row.what,
            row.limit,
            row.alike,
            row.cluster,
            row.grown_what,
            row.grown_cost,
        ]
        for each in found
        for row in each.nearest
    ]
    return Table("nearest", columns, rows, "Requests that come nearest to a limit, one for each cost")


def _object(row: NearRequest) -> str:
    return "/".join(part for part in (row.resource, row.namespace, row.name) if part)


def _share(cost: int, limit: int) -> str:
    """A percentage of the limit, with two figures."""
    return f"{100 * cost / limit:.2g} %" if cost < limit else f"{100 * cost / limit:.0f} %"
