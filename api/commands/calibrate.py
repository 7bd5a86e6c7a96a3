"""`hindcast calibrate`: how far the replay of the bound policies agrees with the recorded outcomes."""

from __future__ import annotations

import typer

from api.context import Context
from api.printing.output import Format

from . import replay
from .parts import options

_DISAGREEMENTS_SHOWN = 20


def command(
    context: typer.Context,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    other_authorizers: options.OtherAuthorizersOption = None,
    workers: options.Workers = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Replay the policies that were bound at the time, and compare with every recorded failure, denial and audit annotation.

    Also compare every recorded decision of the authorizers with the roles and bindings of that time. Compare every note of Pod
    Security with the labels of that time.
    """
    from api import asked_values
    from api.printing.output import render
    from api.stages.authorization.calibrate import authorization_tables
    from api.stages.pod_security.calibrate import level_tables
    from api.stages.validating.calibrate import agreement_table, calibrate, confusion_table, disagreement_table
    from pipeline.runs.window import Window

    from .parts.window import check_window

    own: Context = context.obj
    window = Window(*asked_values.parse_window(since, until))
    version = asked_values.parse_version(kubernetes_version)
    check_window(own, window)
    found = calibrate(own, window, version, replay.workers_or_default(own, workers), other_authorizers=other_authorizers)
    shown = None if output in (Format.JSON, Format.YAML) else _DISAGREEMENTS_SHOWN
    confused, agreed = confusion_table(found.confusion), agreement_table(found.agreements, found.hint)
    disagreeing = disagreement_table(found.disagreements, shown)
    decided = authorization_tables(own, window, version, other_authorizers, shown, output is not Format.TABLE, found.files)
    decided += level_tables(own, window, version, shown, found.files)
    if output is Format.TABLE:
        # A user calibrates to see disagreements; -o wide has every cell.
        render([disagreeing, agreed, *decided], output, limit=limit)
    else:
        render([confused, agreed, disagreeing, *decided], output, limit=limit)
    own.tell_window(found.window)
    return 0
