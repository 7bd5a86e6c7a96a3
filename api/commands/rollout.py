"""`hindcast rollout`: where manifests can be enforced today, what has to change before they go on, and how to go back."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.printing.output import Format
from api.stages.level import Level, LevelNamespaces

from . import replay
from .parts import options


def command(
    context: typer.Context,
    policies: options.Policies = None,
    level: Level = None,
    namespaces: LevelNamespaces = None,
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
    """Plan the way into force in waves of namespaces, prove the first wave in a replay, and print what the others wait for."""
    from api import asked_values
    from api.given import given_of, walk, warn_of
    from api.printing.output import render
    from api.printing.rollouts import rollout_tables
    from api.stages.level import check_namespaces, labels_of
    from pipeline.readiness.rolling import plan_rollouts
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.runs.processes import start_processes
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked
    from queries import open_lake

    from .parts.texts import read_texts
    from .parts.waves import check_folder, in_waves, write_waves
    from .parts.window import check_window

    own: Context = context.obj
    window, version = Window(*asked_values.parse_window(since, until)), asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    check_namespaces(own, namespaces)
    chosen = ReadinessRules.load(rules) if rules else ReadinessRules()
    labels = labels_of(level, namespaces)
    texts = [*(read_texts(policies) if policies or not labels else ()), *labels]
    count = replay.workers_or_default(own, workers)
    given = given_of(texts, version, own.lake)
    warn_of(own, given)
    judged = in_waves(own, given)
    if write is not None:
        check_folder(write)
    start_processes(own.lake, count)
    asked = Asked(window, version, other_authorizers)
    with closing(open_lake(own.lake)) as reader:
        newest_us = reader.files.newest_us
    found = plan_rollouts(own.lake, judged, asked, chosen, walk(own, texts, count), own.note_defects)
    render(rollout_tables(found), Format(output), limit=limit)
    if write is not None:
        newest = datetime.fromtimestamp(newest_us // 1_000_000, UTC) if newest_us is not None else None
        write_waves([each.rollout for each in found], write, own, window.until or newest)
    own.tell_window(window.words(newest_us))
    return 0
