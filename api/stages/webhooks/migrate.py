"""`hindcast webhooks migrate`: a webhook compared with the policy that shall replace it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.policies.model import PolicySet
    from pipeline.runs.plan import RunPlan
    from pipeline.stages.stage import Asked
    from pipeline.stages.webhooks import Configuration
    from pipeline.stages.webhooks.migration import Comparison
    from pipeline.stages.webhooks.steps import Seen, Step
    from queries import LakeReader


def migrate(own: Context, name: str, files: Sequence[Path], asked: Asked) -> list[Table]:
    """The matrix of agreement, its witnesses, and the steps that are done. `name` is WEBHOOK or CONFIGURATION/WEBHOOK."""
    from api.stages.webhooks.policies import replayed_policies
    from pipeline.runs import RunStore
    from pipeline.stages.webhooks.migration import compare
    from queries import open_lake

    configuration, _, webhook = name.rpartition("/")
    run = replayed_policies(own, files, asked)
    hooks = replay_recorded(own, webhook, asked)
    store = RunStore(own.lake)
    reader = open_lake(own.lake, files=hooks.files)
    try:
        runs = (store.run(hooks.run_id).verdicts, run.verdicts(own.lake))
        found = compare(reader, *runs, webhook, configuration or None)
        names = frozenset(policy.name for policy in run.rules.policies)
        seen = _seen(reader, webhook, names, found)
    finally:
        reader.close()
    return [*_tables(webhook, found), _steps_table(seen)]


def replay_recorded(own: Context, webhook: str, asked: Asked) -> RunPlan:
    """Replay the webhooks that the log shows. Raises InputError if none has this name."""
    from pipeline.runs import RunKind
    from pipeline.stages.registry import WEBHOOKS
    from pipeline.stages.webhooks.model import AsRecorded
    from queries import open_lake

    reader = open_lake(own.lake)
    try:
        hooks = WEBHOOKS.plan(reader, AsRecorded.RULES, asked)
    finally:
        reader.close()
    known = sorted({each.binding for each in hooks.bindings if each.binding})
    if webhook not in known:
        raise InputError(f"the log shows no webhook {webhook!r}", f"choose of {', '.join(known[:8])}" if known else "name another")
    with own.progress("replaying webhooks") as step:
        WEBHOOKS.run(hooks, own.lake, 1, step, RunKind.REPLAY)
    return hooks


def _seen(reader: LakeReader, webhook: str, names: frozenset[str], found: Comparison) -> Seen:
    from pipeline.stages.validating.recorded import policies_as_of
    from pipeline.stages.webhooks.as_of import configurations_as_of
    from pipeline.stages.webhooks.migration import denials_since
    from pipeline.stages.webhooks.steps import seen_at

    cluster, last = _end(reader)
    hooks: Sequence[Configuration] = ()
    policies: PolicySet | None = None
    try:
        hooks = configurations_as_of(reader, cluster, last).rules
    except EvidenceError:
        hooks = ()
    try:
        policies = policies_as_of(reader, cluster, last)
    except EvidenceError:
        policies = None
    seen = seen_at(hooks, policies, webhook, names)
    disagreements = found.requests("policy stricter", "policy looser", "only the policy matches, and denies")
    return seen._replace(denials=denials_since(reader, webhook, sorted(names)), disagreements=disagreements)


def _end(reader: LakeReader) -> tuple[str, datetime]:
    from ingest.counted import counted

    rows = reader.connection.execute("SELECT cluster, max(ts) FROM events GROUP BY cluster ORDER BY cluster").fetchall()
    if len(rows) != 1:
        raise InputError(f"the lake has {counted(len(rows), 'cluster')}", "use a lake with one cluster for this question")
    return rows[0][0], rows[0][1]


def _tables(webhook: str, found: Comparison) -> list[Table]:
    from api.printing.output import Column, Table
    from ingest.counted import counted
    from pipeline.readiness.counting.bounds import upper_bound
    from pipeline.stages.webhooks.migration import BOTH_DENY, claim

    columns = [
        Column("cell"), Column("operation"), Column("resource"), Column("requests", number=True),
        Column("same_message", "SAME MESSAGE", number=True), Column("units", number=True, wide=True),
        Column("message", prose=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    rows = [
        [each.same_message if column.key == "same_message" and each.cell == BOTH_DENY else
         None if column.key == "same_message" else getattr(each, column.key) for column in columns]
        for each in found.witnesses
    ]  # fmt: skip
    bound = upper_bound(found.disagreeing, found.units) if found.units else 1.0
    notes = [
        *claim(found, bound),
        f"messages equal in {found.same_message:,} of {counted(found.requests(BOTH_DENY), 'request')} that both deny",
    ]
    pairs = [
        Column("resource"), Column("namespace"), Column("name"), Column("user"), Column("allowed"), Column("denied"),
        Column("requests", number=True),
    ]  # fmt: skip
    return [
        Table("agreement", columns, rows, f"Webhook {webhook} and the policy, over recorded requests", notes),
        Table("pairs", pairs, [list(each) for each in found.pairs], "Equal requests that the webhook answered differently"),
    ]


def _steps_table(seen: Seen) -> Table:
    from api.printing.output import Column, Table
    from pipeline.stages.webhooks.steps import steps

    number, found = steps(seen)
    columns = [Column("number", "STEP", number=True), Column("name"), Column("done"), Column("missing", prose=True)]
    rows = [list(_step(each)) for each in found]
    return Table("steps", columns, rows, f"From webhook to policy: the cluster is in step {number} of {len(found)}")


def _step(each: Step) -> tuple[int, str, bool, str]:
    return each.number, each.name, each.done, each.missing
