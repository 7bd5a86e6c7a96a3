"""`hindcast webhooks without`: what recorded requests would have met had a webhook not been there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.stage import Asked
    from pipeline.stages.webhooks.without import Without


def without_webhook(own: Context, name: str, files: Sequence[Path], asked: Asked) -> list[Table]:
    """What a recorded webhook did to requests, and what follows without it. `name` is WEBHOOK or CONFIGURATION/WEBHOOK."""
    from api.stages.webhooks.migrate import replay_recorded
    from api.stages.webhooks.policies import replayed_policies
    from pipeline.runs import RunStore
    from pipeline.stages.webhooks.without import GivenPolicies, without
    from queries import open_lake

    configuration, _, webhook = name.rpartition("/")
    store = RunStore(own.lake)
    policies = None
    if files:
        run = replayed_policies(own, files, asked)
        policies = GivenPolicies(run.rules, run.verdicts(own.lake))
    hooks = replay_recorded(own, webhook, asked)
    reader = open_lake(own.lake, files=hooks.files)
    try:
        found = without(reader, hooks, store.run(hooks.run_id).verdicts, webhook, configuration or None, policies)
    finally:
        reader.close()
    return _tables(webhook, found, policies is not None)


def _tables(webhook: str, found: Without, has_policies: bool) -> list[Table]:
    from api.printing.output import Column, Table
    from pipeline.stages.webhooks.without import answer, sentences

    effects = [
        Column("fact", prose=True), Column("consequence", prose=True), Column("requests", number=True),
        Column("calls", number=True), Column("mostly", wide=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    rows = [[each.fact, each.consequence, each.requests, each.calls, each.mostly, each.example] for each in found.effects]
    patches = [Column("op"), Column("path"), Column("requests", number=True), Column("example", "AUDIT ID", wide=True)]
    title = f"Recorded requests without webhook {webhook}"
    sums = ("newly allowed", "newly denied", "still denied", "unknown", "the same")
    columns = [Column("answer", prose=True), *(Column(each.replace(" ", "_"), each.upper(), number=True) for each in sums)]
    return [
        Table("answer", columns, [[answer(found), *map(found.requests, sums)]], f"May webhook {webhook} go?"),
        Table("without", effects, rows, title, list(sentences(found, has_policies))),
        Table("patches", patches, [list(each) for each in found.patches], "What it changed and later stages would not have seen"),
    ]
