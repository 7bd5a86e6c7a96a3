"""`hindcast webhooks migrate` with mutating policies: a mutating webhook compared with the policy that shall replace it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.mutating.migration import Migration
    from pipeline.stages.mutating.model import MutatingRules
    from pipeline.stages.stage import Asked


def mutating_rules(files: Sequence[Path], version: tuple[int, int]) -> MutatingRules | None:
    """The mutating policies of some files; None if they hold none. Raises InputError."""
    from api.commands.parts.texts import read_texts
    from api.given import given_of
    from pipeline.stages.registry import MUTATING

    given = given_of(read_texts(list(files)), version) if files else None
    return next((rules for stage, rules in given.stages if stage is MUTATING), None) if given else None


def migrate_mutating(own: Context, name: str, rules: MutatingRules, asked: Asked) -> list[Table]:
    """The matrix of agreement. `name` is WEBHOOK or CONFIGURATION/WEBHOOK. Raises InputError if the log does not show it."""
    from pipeline.stages.mutating.chain import Chain
    from pipeline.stages.mutating.migration import compare
    from queries import open_lake

    configuration, _, webhook = name.rpartition("/")
    reader = open_lake(own.lake)
    try:
        found = compare(reader, asked.window, Chain(rules, asked.kubernetes_version), webhook, configuration or None)
    finally:
        reader.close()
    if not found.called:
        raise InputError(
            f"the log shows no call of a mutating webhook {name!r}", "`hindcast webhooks` lists the webhooks that left a trace"
        )
    return [_table(webhook, found)]


def _table(webhook: str, found: Migration) -> Table:
    from api.printing.output import Column, Table
    from ingest.counted import counted
    from pipeline.stages.mutating.migration import CELLS

    columns = [
        Column("cell"), Column("operation"), Column("resource"), Column("requests", number=True),
        Column("why", "FIRST DIFFERENCE, OR WHY", prose=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    ordered = sorted(found.requests.items(), key=lambda each: (CELLS.index(each[0].cell), -each[1], each[0]))
    rows = [[cell.cell, cell.operation, cell.resource, number, cell.why, found.examples[cell]] for cell, number in ordered]
    notes = [f"the objects after defaulting are compared; the log shows {counted(found.called, 'request')} that called the webhook"]
    if found.decided and not found.disagreeing:
        notes.append(
            f"no disagreement in {found.decided:,} decided requests: with 95 % confidence the two differ "
            f"in less than {min(1.0, 3 / found.decided):.1%} of such requests"
        )
    else:
        notes.append(f"the two differ in {found.disagreeing:,} of {found.decided:,} decided requests")
    return Table("agreement", columns, rows, f"Webhook {webhook} and the mutating policies, over recorded requests", tuple(notes))
