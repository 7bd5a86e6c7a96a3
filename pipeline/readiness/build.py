"""One readiness report over one lake and one run. This file gathers the parts; the other files of this room decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.drain import lag_of
from ingest.lake import Lake
from queries import LakeReader
from queries.ledger import loss_caveats

from ..admission.policies import PolicySet
from ..replay import ReplayPlan
from ..runs import RunStore, RunSummary
from .against import Base, judges_before, keep_before, with_changes
from .assess import Key, assess, judge_units
from .change import Change
from .figures import queries
from .gaps import with_gaps
from .judge import Judges
from .latent import find_latent
from .model import Fidelity
from .owners import find_owners
from .report import EvidenceRow, PolicySource, RecordedPolicy, Report
from .rules import ReadinessRules
from .sql import rows_of

FIRST_FAILURE_ONLY = (
    "up to Kubernetes 1.36 the API server records only the first failure of a request: recorded counts are lower bounds, "
    "replayed ones are not"
)
OPEN_LOOP = "each request is judged against the history that really happened, not against one in which earlier requests were denied"


def build_report(
    reader: LakeReader,
    lake: Path,
    plan: ReplayPlan,
    summary: RunSummary,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    title: str = "Policy readiness",
    base: Base | None = None,
) -> Report:
    """Everything that a renderer needs. `fidelity` maps policy names to their agreement with the record; None: not compared.

    With a `base` the verdicts are on the change; every figure of the new version is the same with and without it.
    """
    replayed: dict[Key, tuple[str, ...]] = {(entry.policy, entry.binding): entry.actions for entry in summary.bindings}
    verdicts = RunStore(lake).run(summary.run_id).verdicts
    connection = reader.connection
    extent = rows_of(connection, "extent")[0]
    if base is not None:
        keep_before(connection, base, rules)
    judge_units(connection, str(verdicts), rules)
    judges = Judges(reader, plan) if plan.policies is not None and extent["events"] else None
    before = judges_before(reader, base, plan) if base is not None and judges else None
    latent = find_latent(reader, judges, plan, plan.window.until or extent["last_ts"], before) if judges else {}
    owners = find_owners(reader, rules, judges)
    policies = assess(connection, replayed, fidelity, latent, owners, rules)
    removed: tuple[Change, ...] = ()
    if base is not None:
        policies, removed = with_changes(connection, policies, base, plan, rules)
    policies = with_gaps(connection, policies, plan.policies, judges.history if judges else None)
    return Report(
        title=title,
        clusters=tuple(extent["clusters"]),
        first_ts=extent["first_ts"],
        last_ts=extent["last_ts"],
        events=extent["events"],
        requests=extent["requests"],
        run_id=summary.run_id,
        kubernetes_version=".".join(map(str, plan.kubernetes_version)),
        rules=rules,
        policies=policies,
        recorded=tuple(RecordedPolicy(**row) for row in rows_of(connection, "recorded")),
        evidence=tuple(EvidenceRow(**row) for row in rows_of(connection, "evidence")),
        caveats=tuple(caveats_of(reader, lake, extent, summary, plan.window.until)),
        queries=queries(),
        sources=tuple(_sources(plan.policies)),
        removed=removed,
    )


def _sources(policies: PolicySet | None) -> Iterator[PolicySource]:
    """Where the policies were written; those from the log or standard input have no file to point at."""
    for policy in policies.policies if policies else ():
        file, line = _place(policy.source)
        if line is not None and file != "standard input":
            lines = [_place(validation.source)[1] for validation in policy.validations]
            yield PolicySource(policy.name, file, line, tuple(each or line for each in lines))


def _place(source: str) -> tuple[str, int | None]:
    """The file and the line of `file:line`."""
    file, _, line = source.rpartition(":")
    return file, int(line) if line.isdigit() else None


def caveats_of(reader: LakeReader, lake: Path, extent: Mapping[str, Any], summary: RunSummary, until: datetime | None) -> list[str]:
    """What a reader of any report on a run has to know of its evidence."""
    caveats = [OPEN_LOOP, FIRST_FAILURE_ONLY, *loss_caveats(reader), *_lag_caveats(lake, until)]
    caveats += [
        f"{count:,} {'request was' if count == 1 else 'requests were'} not replayed: {reason}"
        for reason, count in summary.not_evaluated
    ]
    if not extent["events"]:
        caveats.append("the lake holds no events")
    return caveats


def _lag_caveats(lake: Path, until: datetime | None) -> Iterator[str]:
    """A caveat if the sink acknowledged events that are not in the lake yet, unless all were received at `until` or later."""
    try:
        with closing(Lake.open(lake)) as opened:
            lag = lag_of(opened)
    except OSError as error:
        yield f"it is unknown how many acknowledged events are not in the lake yet: the spool cannot be read ({error.strerror})"
        return
    if lag.oldest is not None and (until is None or until > lag.oldest):
        yield (
            f"{lag.events:,} acknowledged events are not in the lake yet, the oldest received at {lag.oldest:%Y-%m-%dT%H:%M:%SZ}: "
            "the newest requests are not counted"
        )
