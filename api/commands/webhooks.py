"""`hindcast webhooks`: what recorded webhooks did."""

from __future__ import annotations

import typer

from api.context import Context
from api.output import Format, render
from pipeline.replay import Window
from pipeline.stages.webhooks.behaviour import behaviour, traced
from queries import open_lake

from . import options
from .webhook_tables import behaviour_table
from .window import check_window


def command(
    context: typer.Context,
    since: options.Since = None,
    until: options.Until = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Show what each admission webhook did, as far as it left a trace: calls, changes, denials and failures.

    A validating webhook that admits leaves no trace. `hindcast replay -f` predicts its calls.
    """
    own: Context = context.obj
    window = Window(*options.parse_window(since, until))
    check_window(own, window)
    reader = open_lake(own.lake)
    try:
        table = behaviour_table(behaviour(reader, window), traced(reader, window))
    finally:
        reader.close()
    render([table], output, limit=limit)
    return 0
