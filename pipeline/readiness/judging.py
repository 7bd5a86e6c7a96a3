"""One call from manifests of any stages to their report, for notebooks and scripts.

found = judge("lake", [Path("roles")])
print(found.report.policies[0].status, found.runs)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ingest.errors import InputError
from queries import LakeReader

from ..manifests.files import manifests_of, texts_of
from ..request import Object
from ..runs import RunKind, RunStore, RunSummary
from ..runs.plan import RunPlan
from ..stages.assign import assign
from ..stages.registry import STAGES
from ..stages.stage import Asked, Stage
from .flow import Made, Wanted, make_report
from .report import Report
from .rules import ReadinessRules
from .run import run_stage
from .together import joined_over

Given: TypeAlias = str | Sequence[Path]


@dataclass(frozen=True)
class Judgement:
    """The report on given manifests, and its runs by stage. `extra` would keep everybody working, where a stage found such.

    `parts` are the reports of the stages, in the order of `runs`.
    """

    lake: Path
    report: Report
    runs: Mapping[str, RunSummary]
    extra: tuple[Object, ...] = ()
    parts: tuple[Made, ...] = ()

    def verdicts(self, stage: str) -> Path:
        """The Parquet file with every verdict of the run of a stage."""
        return RunStore(self.lake).run(self.runs[stage].run_id).verdicts


@dataclass(frozen=True)
class Place:
    """Where manifests are judged: a lake, or some files of it, such as those of one cluster.

    `reader` sees those files; its database serves the reports. `step` gets the progress of each run, and `kind` is that of the run.
    """

    lake: Path
    workers: int = 1
    reader: LakeReader | None = None
    step: Callable[[int, int], None] | None = None
    kind: RunKind = RunKind.REPLAY

    def walk(self, stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        """Walk the plan of a stage, in this process and others."""
        return stage.run(plan, self.lake, self.workers, self.step, kind)


def judge(
    lake: str | Path,
    manifests: Given,
    *,
    against: Given | None = None,
    asked: Asked | None = None,
    rules: ReadinessRules | None = None,
    calibrate: bool = True,
    exemptions: bool = True,
    workers: int = 1,
) -> Judgement:
    """Replay manifests, as files and folders or as one text, and report on them; with `against` on the change from these.

    `asked` names the window and other options of the replay. `calibrate` compares with the record. `exemptions` looks for what
    would keep everybody working. Raises InputError for manifests that cannot be read or that no stage judges by, and LakeError.
    """
    place = Place(Path(lake), workers)
    return judge_there(place, manifests, asked or Asked(), wanted_of(rules, calibrate, exemptions), against)


def wanted_of(rules: ReadinessRules | None, calibrate: bool, exemptions: bool) -> Wanted:
    """The parts of a report."""
    return Wanted(rules or ReadinessRules(), calibrate, exemptions)


def judge_there(place: Place, manifests: Given, asked: Asked, wanted: Wanted, against: Given | None = None) -> Judgement:
    """The same for a place in a lake."""
    new, old = rules_of(manifests), rules_of(against) if against is not None else None
    made, runs = [], {}
    for stage in STAGES:
        if stage.name not in new and (old is None or stage.name not in old):
            continue
        before = None if old is None else old.get(stage.name, stage.read(()))
        own = new.get(stage.name, stage.read(()))
        if before is not None:
            own, before = stage.readiness.over(own, before), stage.readiness.over(before, before)
        found, summary = _of_stage(place, stage, (own, before), asked, wanted)
        made.append(found)
        runs[stage.name] = summary
    if not made:
        raise InputError("no stage judges by the given manifests", "give policies, roles or other manifests of an API server")
    extra = tuple(value for each in made for value in each.extra)
    files = place.reader.files if place.reader is not None else None
    report = joined_over(place.lake, files, [each.report for each in made])
    return Judgement(place.lake, report, runs, extra, tuple(made))


def rules_of(given: Given) -> dict[str, Any]:
    """The rules of each stage among manifests, by the name of the stage. Raises InputError for what cannot be read."""
    return {stage.name: rules for stage, rules in assign(manifests_of(_texts(given))).rules}


def _texts(given: Given) -> list[tuple[str, str]]:
    return [("manifests", given)] if isinstance(given, str) else list(texts_of(given))


def _of_stage(
    place: Place, stage: Stage[Any, Any], versions: tuple[Any, Any], asked: Asked, wanted: Wanted
) -> tuple[Made, RunSummary]:
    run = run_stage(place.lake, stage, versions[0], asked, place.walk, place.kind, reader=place.reader)
    base = None
    if versions[1] is not None:
        base = run_stage(place.lake, stage, versions[1], asked, place.walk, RunKind.BASE, run.plan.files)
    wanted = replace(
        wanted,
        remedies=wanted.remedies and base is None,
        shared=place.reader,
    )
    return make_report(place.lake, run, wanted, place.walk, base=base), run.summary
