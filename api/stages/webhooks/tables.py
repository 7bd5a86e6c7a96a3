"""The tables about webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.stages.webhooks.behaviour import Behaviour, Traced
    from pipeline.stages.webhooks.latency import Latency


def behaviour_table(found: Sequence[Behaviour], traces: Traced) -> Table:
    """What each webhook did, as far as it left a trace."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    columns = [
        Column("webhook", may_shorten=True),
        Column("configuration", wide=True),
        Column("phase"),
        Column("attempts", number=True),
        Column("second", "SECOND ROUND", number=True, wide=True),
        Column("mutated", number=True),
        Column("patches", number=True, wide=True),
        Column("operations", "PATCH OPERATIONS", number=True, wide=True),
        Column("denied", number=True),
        Column("failed_open", "FAILED OPEN", number=True),
        Column("failed_closed", "FAILED CLOSED", number=True),
        Column("annotated", "OWN ANNOTATIONS", number=True, wide=True),
        Column("requests", number=True, wide=True),
        Column("first_ts", "FIRST", wide=True),
        Column("last_ts", "LAST", wide=True),
    ]
    rows = [[getattr(each, column.key) for column in columns] for each in found]
    silent = traces.reached - traces.traced
    share = f" ({silent / traces.reached:.1%})" if traces.reached else ""
    notes = (
        f"{silent:,} of {counted(traces.reached, 'request')} that came to validating webhooks{share} show no trace of any webhook",
        "a validating webhook that admits leaves no trace: its attempts are those with a denial or a failure",
        "of several webhooks that deny one request, the answer names one",
    )
    return Table("webhooks", columns, rows, "What webhooks did, as far as the log shows", notes)


def latency_table(found: Sequence[Latency]) -> Table:
    """The recorded time in webhooks, by phase."""
    from api.printing.output import Column, Table

    columns = [Column(name, number=name != "phase") for name in ("phase", "requests", "p50_ms", "p99_ms", "most_ms")]
    notes = ("the server notes these times only on requests of more than 500 ms: a biased sample of slow requests",)
    return Table("latency", columns, [list(each) for each in found], "Time in all webhooks of a phase, where recorded", notes)
