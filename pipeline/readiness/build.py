"""One readiness report over one lake and one run of any stage. This file gathers the parts; the other files of this room decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.counted import counted
from ingest.lake import Lake
from ingest.spooling.drain import lag_of
from queries import LakeReader
from queries.identity import REMEDY
from queries.ledger import loss_caveats

from ..policies.model import PolicySet
from ..requests.kept.whole import losses_of, mixed_names_of, rows_about
from ..runs import RunStore, RunSummary
from ..runs.plan import RunPlan
from ..runs.window import Window
from ..stages.registry import stage_of
from ..stages.stage import Stage
from ..stages.validating.judges import Judges
from ..stages.validating.plan import ReplayPlan
from .against import PolicyBase, judges_before, keep_before, keep_changes, with_changes
from .assess import Key, Row, assess, judge_units
from .change import Change
from .counting.figures import queries
from .counting.latent import find_latent
from .counting.owners import find_owners
from .gaps import with_gaps
from .model import Fidelity, PolicyReadiness
from .report import EvidenceRow, PolicySource, RecordedPolicy, Report
from .rules import ReadinessRules
from .sql import statement
from .verdict import objected

OPEN_LOOP = "each request is judged against the history that really happened, not against one in which earlier requests were denied"


@dataclass(frozen=True)
class About:
    """What a report is about: a run of a stage. All of it is in the run's plan."""

    stage: Stage[Any, Any]
    kubernetes_version: tuple[int, int]
    window: Window

    @classmethod
    def of(cls, stage: Stage[Any, Any], plan: RunPlan) -> About:
        """The run of a plan."""
        return cls(stage, plan.kubernetes_version, plan.window)


@dataclass(frozen=True)
class Judged:
    """The judged things of a run, and what only a report on policies or against a version before has."""

    entries: tuple[PolicyReadiness, ...]
    recorded: tuple[RecordedPolicy, ...] = ()
    sources: tuple[PolicySource, ...] = ()
    removed: tuple[Change, ...] = ()


def build_report(
    reader: LakeReader,
    lake: Path,
    plan: ReplayPlan,
    summary: RunSummary,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    base: PolicyBase | None = None,
) -> Report:
    """The report on policies. `fidelity` maps policy names to their agreement with the record; None: not compared.

    With a `base` the verdicts are on the change; every figure of the new version is the same with and without it.
    """
    replayed: dict[Key, tuple[str, ...]] = {(entry.policy, entry.binding): entry.actions for entry in summary.bindings}
    connection = reader.connection
    extent = extent_of(reader)
    if base is not None:
        keep_before(connection, base, rules)
    judge_units(connection, str(RunStore(lake).run(summary.run_id).verdicts), rules)
    judges = Judges(reader, plan) if plan.policies is not None and extent["events"] else None
    before = judges_before(reader, base, plan) if base is not None and judges else None
    latent = find_latent(reader, judges, plan, plan.window.until or extent["last_ts"], before) if judges else {}
    owners = find_owners(reader, rules, judges)
    policies = assess(connection, replayed, fidelity, latent, owners, rules)
    removed: tuple[Change, ...] = ()
    if base is not None:
        keep_changes(connection, plan)
        policies, removed = with_changes(connection, policies, base, plan, rules)
    policies = with_gaps(connection, policies, plan.policies, judges.history if judges else None)
    stage = stage_of(plan.stage)
    objections = stage.readiness.objections(reader, RunStore(lake).run(summary.run_id).verdicts, plan.policies)
    policies = tuple(objected(entry, objections) for entry in policies)
    recorded = tuple(RecordedPolicy(**row) for row in rows_about(reader, "recorded", statement("recorded")))
    judged = Judged(policies, recorded, tuple(_sources(plan.policies)), removed)
    about = About.of(stage, plan)
    return whole_report(reader, lake, about, summary, rules, judged, extent, is_change=base is not None)


def extent_of(reader: LakeReader) -> Row:
    """What the lake holds: its events, requests, times and clusters."""
    return rows_about(reader, "extent", statement("extent"))[0]


def whole_report(
    reader: LakeReader,
    lake: Path,
    about: About,
    summary: RunSummary,
    rules: ReadinessRules,
    judged: Judged,
    extent: Row,
    *,
    is_change: bool,
) -> Report:
    """Everything that a renderer needs, of a run of any stage. `is_change`: it is against a version before."""
    words = about.stage.readiness.words
    return Report(
        title=f"{words.things.capitalize()} against the version before" if is_change else words.title,
        clusters=tuple(extent["clusters"]),
        first_ts=extent["first_ts"],
        last_ts=extent["last_ts"],
        events=extent["events"],
        requests=extent["requests"],
        run_id=summary.run_id,
        kubernetes_version=".".join(map(str, about.kubernetes_version)),
        rules=rules,
        policies=tuple(replace(entry, stage=about.stage.name) for entry in judged.entries),
        recorded=judged.recorded,
        evidence=tuple(EvidenceRow(**row) for row in rows_about(reader, "evidence", statement("evidence"))),
        caveats=tuple(_caveats(reader, lake, about, extent, summary)),
        queries=queries(),
        sources=judged.sources,
        removed=judged.removed,
        things=words.things,
        runs={about.stage.name: summary.run_id},
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


def _caveats(reader: LakeReader, lake: Path, about: About, extent: Row, summary: RunSummary) -> list[str]:
    """What a reader of any report on a run has to know of its evidence."""
    kind = about.stage.readiness
    mixed = [f"{sentence}; {REMEDY}" for sentence in mixed_names_of(reader).values()]
    caveats = [OPEN_LOOP, *kind.caveats, *mixed, *loss_caveats(losses_of(reader)), *lag_caveats(lake, about.window.until)]
    caveats += [
        f"{count:,} {'request was' if count == 1 else 'requests were'} not replayed: {reason}"
        for reason, count in summary.not_evaluated
    ]
    caveats += _dry_run_caveats(reader, RunStore(lake).run(summary.run_id).verdicts, kind.words.things)
    if not extent["events"]:
        caveats.append("the lake holds no events")
    return caveats


def _dry_run_caveats(reader: LakeReader, verdicts: Path, things: str) -> Iterator[str]:
    """A caveat if manifests matched dry runs, which no figure of a report counts, or requests that may have been some."""
    ((count, untold),) = reader.connection.execute(statement("dry_runs_judged"), {"verdicts": str(verdicts)}).fetchall()
    if count:
        yield f"{count:,} {'dry run does' if count == 1 else 'dry runs do'} not count, though {things} matched them"
    if untold:
        writes = counted(untold, "judged write has", "judged writes have")
        yield f"{writes} no recorded URI: a dry run among them counts"


def lag_caveats(lake: Path, until: datetime | None) -> Iterator[str]:
    """A caveat if the sink acknowledged events that are not in the lake yet, unless all were received at `until` or later.

    All other caveats follow from the run and the files of its plan.
    """
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
