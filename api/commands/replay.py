"""`hindcast replay`: what policies would have decided over the recorded requests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from ingest.errors import InputError
from pipeline.admission.policies import PolicySet, compile_policy, load_policy_set, parse_policy_set
from pipeline.replay import ReplayPlan, RunSummary, Window, plan_replay, run_replay
from queries import open_lake

from . import options

Workers = Annotated[int | None, typer.Option(help="Worker processes; default: one per core.")]
STDIN = Path("-")


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = "1.36",
    plan: Annotated[bool, typer.Option("--plan", help="Print and count what would be done, and stop.")] = False,
    workers: Workers = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay policies over the recorded requests, and print what each (policy, binding) would have decided."""
    own: Context = context.obj
    planned = make_plan(own, policies, since, until, kubernetes_version)
    if plan:
        sys.stdout.write(f"{planned}\n" if output in (Format.TABLE, Format.WIDE) else planned.to_json())
        return 0
    summary = run(own, planned, workers)
    render([summary_table(summary), not_evaluated_table(planned, summary)], output)
    own.say(f"verdicts: {own.lake / 'runs' / summary.run_id / 'verdicts.parquet'}")
    return 0


def make_plan(
    own: Context, policies: list[Path] | None, since: str | None, until: str | None, kubernetes_version: str
) -> ReplayPlan:
    """The plan of the policies of `-f` over the window. Raises InputError without policies."""
    window = Window(*options.parse_window(since, until))
    version = options.parse_version(kubernetes_version)
    policy_set = read_policies(policies)
    refuse_uncompilable(policy_set, version)
    reader = open_lake(own.lake)
    try:
        return plan_replay(reader, policy_set, window, version)
    finally:
        reader.close()


def read_policies(paths: list[Path] | None) -> PolicySet:
    """The policies of files, folders and standard input. Raises InputError where there is none."""
    if not paths:
        raise InputError("no policies are given", "give files or folders with -f")
    found = parse_policy_set([("standard input", sys.stdin.read())]) if STDIN in paths else load_policy_set(paths)
    if not found.policies:
        raise InputError(
            f"{', '.join(map(str, paths))}: found no ValidatingAdmissionPolicy",
            "policies are admissionregistration.k8s.io/v1 or v1beta1",
        )
    return found


def refuse_uncompilable(policies: PolicySet, version: tuple[int, int]) -> None:
    """Raise InputError with file and line of every expression that does not compile: an API server would not take such a policy."""
    errors = [item for policy in policies.policies for item in compile_policy(policy, version).errors]
    if errors:
        raise InputError("\n".join(f"{item.source}: {item.error}" for item in errors))


def run(own: Context, plan: ReplayPlan, workers: int | None) -> RunSummary:
    """Walk a plan with progress."""
    with own.progress("replaying") as step:
        return run_replay(plan, own.lake, workers_or_default(workers), step)


def workers_or_default(workers: int | None) -> int:
    """One worker process per core unless a number is asked for."""
    return workers or os.cpu_count() or 1


def summary_table(summary: RunSummary) -> Table:
    """One row per (policy, binding)."""
    counts = ("matched", "admit", "deny", "error", "unknown")
    columns = [
        Column("policy"),
        Column("binding"),
        *(Column(name, number=True) for name in counts),
        Column("nomatch", "NO MATCH", wide=True, number=True),
        Column("actions"),
    ]
    rows = [
        [entry.policy, entry.binding, *(getattr(entry, name) for name in counts), entry.nomatch, entry.actions]
        for entry in summary.bindings
    ]
    note = "deny is what failurePolicy makes of the facts; an error that failurePolicy turns into a denial counts as deny"
    return Table("bindings", columns, rows, f"Run {summary.run_id}: {summary.evaluated:,} requests replayed", (note,))


def not_evaluated_table(plan: ReplayPlan, summary: RunSummary) -> Table:
    """Requests that say nothing about the policies, by reason."""
    reasons = [*summary.not_evaluated, *plan.excluded]
    rows = sorted(((reason, count) for reason, count in reasons), key=lambda row: (-row[1], row[0]))
    return Table("not_evaluated", [Column("reason"), Column("requests", number=True)], rows, "Requests not replayed, and why")
