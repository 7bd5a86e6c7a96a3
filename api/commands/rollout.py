"""`hindcast rollout`: where Deny can begin today, what has to change before it can go on, and how to go back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.readiness.exempting.manifests import Manifests
    from pipeline.readiness.run import StageRun, StageWalk
    from pipeline.readiness.waves import Rollout, Wave
    from pipeline.request import Object
    from queries import LakeReader

_NOTHING = "no policy of these matched a recorded request without denying already, so there is no wave to begin with"


def command(
    context: typer.Context,
    policies: options.Policies = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    rules: options.Rules = None,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write the manifests of each wave, and those that go back, into this new folder.")
    ] = None,
    other_authorizers: options.OtherAuthorizersOption = None,
    workers: options.Workers = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Plan the way to Deny in waves of namespaces, prove the first wave in a replay, and print what the others wait for."""
    from api import asked_values
    from api.given import given_of, walk, warn_of
    from pipeline.readiness.assess import judge_units
    from pipeline.readiness.exempting.manifests import Manifests
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.readiness.run import run_stage
    from pipeline.readiness.sql import dry_runs_kept
    from pipeline.readiness.waves import plan_waves
    from pipeline.runs import RunKind
    from pipeline.runs.processes import start_processes
    from pipeline.runs.window import Window
    from pipeline.stages.registry import VALIDATING
    from pipeline.stages.stage import Asked
    from queries import open_lake

    from .parts.texts import read_texts
    from .parts.window import check_window

    own: Context = context.obj
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    texts, count = read_texts(policies), replay.workers_or_default(own, workers)
    given = given_of(texts, version, own.lake)
    warn_of(own, given)
    judged = given.needed(VALIDATING)
    manifests = Manifests.of(VALIDATING.readiness.exemptions.written(judged), VALIDATING.kinds)
    start_processes(own.lake, count)
    walked = walk(own, texts, count)
    run = run_stage(own.lake, VALIDATING, judged, Asked(window, version, other_authorizers), walked, RunKind.REPLAY)
    with closing(open_lake(own.lake, files=run.plan.files)) as reader, dry_runs_kept(reader.connection):
        judge_units(reader, str(run.verdicts(own.lake)), chosen)
        found = plan_waves(reader.connection, chosen, manifests, VALIDATING.readiness.actions)
        proofs = [_proved(own, reader, run, each, manifests, walked) for each in found]
    _print(found, proofs, Format(output), limit)
    if write is not None:
        _write(found, write, own)
    files = run.plan.files
    own.tell_window(window.words(files.newest_us if files else None))
    return 0


def _proved(own: Context, reader: LakeReader, run: StageRun, found: Rollout, manifests: Manifests, walked: StageWalk) -> int | None:
    """How many requests of the later half the manifests of wave 1 would deny; None without such a wave."""
    from pipeline.readiness.run import trial
    from pipeline.readiness.waves import CLEAN

    if found.waves[0].why != CLEAN:
        return None
    asked = replace(run.asked, window=replace(run.asked.window, since=found.tried.since))
    rules = run.stage.read(manifests.alone(found.policy, dict(found.waves[0].binding)).documents())
    denied = "SELECT count(DISTINCT (cluster, audit_id, ts)) FROM read_parquet(?) ANTI JOIN dry_runs USING (cluster, audit_id, ts)"
    with trial(own.lake, run.stage, run.stage.plan(reader, rules, asked), walked, own.note_defects) as verdicts:
        ((requests,),) = reader.connection.execute(f"{denied} WHERE effect = 'deny'", [str(verdicts)]).fetchall()
    count: int = requests
    return count


def _print(found: list[Rollout], proofs: list[int | None], output: Format, limit: int | None) -> None:
    from api.printing.output import render

    tables = [_waves_table(found), _tried_table(found, proofs), _needed_table(found)]
    render([table for table in tables if table.rows] or tables[:1], output, limit=limit)


def _waves_table(found: list[Rollout]) -> Table:
    from api.printing.output import Column, Table

    columns = [
        Column("policy", may_shorten=True), Column("binding", may_go=1), Column("wave", number=True),
        Column("namespaces", prose=True), Column("requests", number=True), Column("workloads", "TO CHANGE", number=True),
        Column("why", prose=True),
    ]  # fmt: skip
    rows = [
        [each.policy, each.binding, wave.number, _named(wave), wave.requests, len(wave.needed), wave.why]
        for each in found
        for wave in each.waves
    ]
    note = "`--write FOLDER` writes the manifests of each wave, and those that go back"
    return Table("waves", columns, rows, "The way to Deny", (note if rows else _NOTHING,))


def _named(wave: Wave) -> str:
    return ", ".join(wave.namespaces) or "all that the binding selects"


def _tried_table(found: list[Rollout], proofs: list[int | None]) -> Table:
    from api.printing.output import Column, Table
    from pipeline.readiness.words import percent

    columns = [
        Column("policy", may_shorten=True), Column("binding", may_go=2), Column("later_denied", "WAVE 1 DENIES", number=True),
        Column("chosen", "CHOSEN EARLIER", number=True), Column("denied", "DENIED LATER", number=True),
        Column("upper", "AT MOST", number=True), Column("since", "LATER HALF SINCE", may_go=1),
    ]  # fmt: skip
    rows = [
        [each.policy, each.binding, proof, each.tried.namespaces, each.tried.denied, percent(each.tried.upper), each.tried.since]
        for each, proof in zip(found, proofs, strict=True)
    ]
    notes = (
        "wave 1 denies: requests of the later half of the window, by a replay of the manifests of wave 1",
        "chosen earlier: namespaces without a denial in the earlier half; denied later: those with one in the later half",
        "at most: the share of such namespaces that have a denial later (95% confidence)",
    )
    return Table("tried", columns, rows, "Tried on the later half of the window", notes)


def _needed_table(found: list[Rollout]) -> Table:
    from api.printing.output import Column, Table

    columns = [
        Column("policy", may_shorten=True, may_go=2), Column("wave", number=True), Column("namespace"), Column("unit", "WORKLOAD"),
        Column("requests", number=True), Column("user", "LAST USER", may_go=1), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    needed = [(each.policy, wave.number, need) for each in found for wave in each.waves for need in wave.needed]
    rows = [[policy, wave, each.namespace, each.unit, each.requests, each.user, each.example] for policy, wave, each in needed]
    return Table("needed", columns, rows, "What has to change first", ("`hindcast explain AUDIT_ID -f POLICIES` says why",))


def _write(found: list[Rollout], folder: Path, own: Context) -> None:
    """The manifests of each wave, `BINDING-wave-N.yaml`, and `BINDING-back-N.yaml`, which undo it. Raises InputError."""
    from pipeline.manifests.writing import to_yaml

    try:
        folder.mkdir(parents=True)
        for each in found:
            name = each.binding or each.policy
            for wave, undo in _ways_back(each):
                (folder / f"{name}-wave-{wave.number}.yaml").write_text(to_yaml([dict(wave.binding)]), encoding="utf-8")
                (folder / f"{name}-back-{wave.number}.yaml").write_text(undo, encoding="utf-8")
            own.say(f"{folder}: {2 * len(each.waves)} files of {name}; `kubectl apply -f` takes each wave")
    except OSError as error:
        hint = "name a folder that is not there yet"
        raise InputError(f"--write: {folder} cannot be written: {error.strerror}", hint) from error


def _ways_back(found: Rollout) -> Iterator[tuple[Wave, str]]:
    """Each wave, and what undoes it: the manifests of before, and the command that removes a binding that the wave creates."""
    from pipeline.manifests.shell import command_line
    from pipeline.manifests.writing import comment, to_yaml

    before: list[Object] = []
    for wave in found.waves:
        is_last = not wave.namespaces
        back = [*before, *([found.before] if is_last and found.before is not None else ())]
        is_new = found.before is None if is_last else not before
        removal = command_line(["kubectl", "delete", "validatingadmissionpolicybinding", wave.binding["metadata"]["name"]])
        yield wave, (comment(removal) if is_new else "") + (to_yaml(back) if back else "")
        before = before if is_last else [dict(wave.binding)]
