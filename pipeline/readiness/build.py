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

from ..requests.kept.whole import losses_of, mixed_names_of
from ..runs import RunStore, RunSummary
from ..runs.plan import RunPlan
from ..runs.window import Window
from ..stages.readiness import Place
from ..stages.stage import Stage
from .about_lake import evidence_of, extent_of, recorded_of
from .against import Base, judges_before, keep_before, keep_changes, with_changes
from .assess import Key, Row, assess, judge_units
from .change import Change
from .counting.figures import queries
from .counting.latent import find_latent
from .counting.owners import find_owners
from .gaps import with_gaps, with_unknown_reasons
from .model import Fidelity, Latent, PolicyReadiness
from .remedies import Tried, with_remedy
from .report import PolicySource, Report
from .rules import ReadinessRules
from .sql import statement
from .verdict import objected

OPEN_LOOP = "each request is judged against the history that really happened, not against one in which earlier requests were denied"


@dataclass(frozen=True)
class About:
    """A finished run of a stage to report on.

    `given` are the stage's rules, or None where the run took those of the log or did not keep them. `plan` is None for a run that
    was kept, of a stage whose reports need no plan.
    """

    stage: Stage[Any, Any]
    kubernetes_version: tuple[int, int]
    window: Window
    summary: RunSummary
    plan: RunPlan | None = None
    given: Any = None

    @property
    def replayed(self) -> dict[Key, tuple[str, ...]]:
        """The actions of each (policy, binding) that a report has an entry for."""
        return {
            (entry.policy, entry.binding): entry.actions
            for entry in self.summary.bindings
            if self.given is None or self.stage.readiness.asks_about(self.given, entry.policy, entry.binding)
        }


@dataclass(frozen=True)
class Judged:
    """The judged things of a run, and what only a report against a version before has."""

    entries: tuple[PolicyReadiness, ...]
    removed: tuple[Change, ...] = ()


def build_report(
    reader: LakeReader,
    lake: Path,
    about: About,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    tried: Tried | None = None,
    base: Base | None = None,
) -> Report:
    """The report on a finished run of any stage. Leaves tables in the reader's connection.

    A request counts as denied if the manifests newly deny it: what the cluster refused already is no reason against them.
    `fidelity` is the agreement with the record by judged thing; None: not compared. With a `base` the verdicts are on the change;
    every figure of the new version is the same with and without it.
    """
    kind, verdicts = about.stage.readiness, RunStore(lake).run(about.summary.run_id).verdicts
    extent = extent_of(reader)
    if base is not None:
        # A version before may refuse what the cluster refused, or allow it: whole outcomes are compared.
        keep_before(reader, base, rules, kind.counted)
        judge_units(reader, str(verdicts), rules, kind.counted)
        keep_changes(reader.connection, base.new_plan)
    if base is None or kind.has_flips:
        judge_units(reader, str(verdicts), rules, kind.counted, is_change=True)
    judged = _judged(reader, about, verdicts, fidelity, rules, tried, base, extent)
    report = _whole_report(reader, lake, about, rules, judged, extent, is_change=base is not None)
    return replace(report, over_time=tuple(kind.over_time(reader, verdicts, about.window, about.given)))


def _judged(
    reader: LakeReader,
    about: About,
    verdicts: Path,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    tried: Tried | None,
    base: Base | None,
    extent: Row,
) -> Judged:
    """The readiness of each judged thing. Needs the tables of judge_units, and with a `base` those of keep_changes."""
    kind, connection = about.stage.readiness, reader.connection
    judges = kind.judges(reader, about.plan) if about.plan is not None and extent["events"] else None
    latent: Mapping[Key, Latent] = {}
    if judges is not None and about.plan is not None:
        before = judges_before(reader, base, about.plan) if base is not None else None
        latent = find_latent(reader, judges, about.plan, about.window.until or extent["last_ts"], before)
    entries = assess(connection, about.replayed, fidelity, latent, find_owners(reader, rules, judges), rules)
    removed: tuple[Change, ...] = ()
    if base is not None:
        entries, removed = with_changes(connection, entries, base, rules)
    elif tried is not None:
        entries = tuple(with_remedy(entry, tried, rules) for entry in entries)
    if kind.tells_steps:
        steps = kind.steps_of(about.given) if about.given is not None else {}
        entries = with_gaps(connection, entries, steps, judges.history if judges else None)
    else:
        entries = with_unknown_reasons(entries)
    objections = kind.objections(reader, verdicts, about.given)
    return Judged(tuple(objected(entry, objections) for entry in entries), removed)


def _whole_report(
    reader: LakeReader, lake: Path, about: About, rules: ReadinessRules, judged: Judged, extent: Row, *, is_change: bool
) -> Report:
    """Everything that a renderer needs. `is_change`: it is against a version before."""
    kind = about.stage.readiness
    return Report(
        title=f"{kind.words.things.capitalize()} against the version before" if is_change else kind.words.title,
        clusters=tuple(extent["clusters"]),
        first_ts=extent["first_ts"],
        last_ts=extent["last_ts"],
        events=extent["events"],
        requests=extent["requests"],
        run_id=about.summary.run_id,
        kubernetes_version=".".join(map(str, about.kubernetes_version)),
        rules=rules,
        policies=tuple(replace(entry, stage=about.stage.name) for entry in judged.entries),
        recorded=recorded_of(reader) if kind.shows_recorded else (),
        evidence=evidence_of(reader),
        caveats=tuple(_caveats(reader, lake, about, extent)),
        queries=queries(),
        sources=tuple(map(_source, kind.places(about.given))) if about.given is not None else (),
        removed=judged.removed,
        things=kind.words.things,
        runs={about.stage.name: about.summary.run_id},
    )


def _source(place: Place) -> PolicySource:
    """Where a judged thing is written; a part without a line of its own stands at that of the whole."""
    file, _, line = place.source.rpartition(":")
    number = int(line) if file and line.isdigit() else 1
    return PolicySource(place.name, file or line, number, tuple(_line_of(part) or number for part in place.parts))


def _line_of(source: str) -> int | None:
    """The line of `file:line`."""
    line = source.rpartition(":")[2]
    return int(line) if line.isdigit() else None


def _caveats(reader: LakeReader, lake: Path, about: About, extent: Row) -> list[str]:
    """What a reader of any report on a run has to know of its evidence."""
    kind = about.stage.readiness
    mixed = [f"{sentence}; {REMEDY}" for sentence in mixed_names_of(reader).values()]
    caveats = [OPEN_LOOP, *kind.caveats, *mixed, *loss_caveats(losses_of(reader)), *lag_caveats(lake, about.window.until)]
    caveats += [
        f"{count:,} {'request was' if count == 1 else 'requests were'} not replayed: {reason}"
        for reason, count in about.summary.not_evaluated
    ]
    caveats += _dry_run_caveats(reader, RunStore(lake).run(about.summary.run_id).verdicts, kind.words.things)
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
