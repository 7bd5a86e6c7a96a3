"""The tables about webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from api.printing.output import Column, Table
from ingest.counted import counted
from pipeline.runs import RunSummary
from pipeline.stages.webhooks.behaviour import Behaviour, Traced
from pipeline.stages.webhooks.interception import Intercepted, NotCalled
from pipeline.stages.webhooks.latency import Latency

from .webhook_load import LOWER_BOUND

_UNASKED = "each webhook meets the requests as recorded: changes and refusals that other given webhooks would make are not in it"


def interception_tables(summary: RunSummary, found: Sequence[Intercepted], not_called: Sequence[NotCalled]) -> list[Table]:
    """What each webhook meets, then why it is not called."""
    names = ("called", "calls", "nomatch", "unreached", "rejected", "skipped", "unknown", "traced")
    wide = ("unreached", "skipped", "traced")
    headings = {"nomatch": "NO MATCH", "unreached": "NOT REACHED", "rejected": "REJECTED WITHOUT CALL"}
    columns = [
        Column("webhook"),
        Column("configuration", wide=True),
        Column("phase"),
        *(Column(name, headings.get(name, ""), number=True, wide=name in wide) for name in names),
        Column("again", "SECOND ROUND UNKNOWN", number=True, wide=True),
    ]
    rows = [[getattr(each, column.key) for column in columns] for each in found]
    title = f"Run {summary.run_id}, stage webhooks: {counted(summary.evaluated, 'request')} replayed"
    reasons = [
        Column("decision"), Column("webhook"), Column("passes", number=True), Column("why", prose=True),
        Column("resource", "MOST FREQUENT"), Column("resources", wide=True, number=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    why = [[getattr(each, column.key) for column in reasons] for each in not_called]
    return [
        Table("webhooks", columns, rows, title, (LOWER_BOUND, _UNASKED)),
        Table("not_called", reasons, why, "Requests that do not call a webhook, and why"),
    ]


def behaviour_table(found: Sequence[Behaviour], traces: Traced) -> Table:
    """What each webhook did, as far as it left a trace."""
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
    columns = [Column(name, number=name != "phase") for name in ("phase", "requests", "p50_ms", "p99_ms", "most_ms")]
    notes = ("the server notes these times only on requests of more than 500 ms: a biased sample of slow requests",)
    return Table("latency", columns, [list(each) for each in found], "Time in all webhooks of a phase, where recorded", notes)
