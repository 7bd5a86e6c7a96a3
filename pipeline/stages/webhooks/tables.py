"""The tables of a replay of webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from ...tables import Column, Table, listed
from .interception import Intercepted, NotCalled

LOWER_BOUND = (
    "a conflict, or a delete whose store read an old copy, asks webhooks again, which leaves no trace: the calls are a lower bound"
)
_UNASKED = "each webhook meets the requests as recorded: changes and refusals that other given webhooks would make are not in it"


def interception_tables(title: str, found: Sequence[Intercepted], not_called: Sequence[NotCalled]) -> list[Table]:
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
    reasons = [
        Column("decision"), Column("webhook"), Column("passes", number=True), Column("why", prose=True),
        Column("resource", "MOST FREQUENT"), Column("resources", wide=True, number=True), Column("example", "AUDIT ID", wide=True),
    ]  # fmt: skip
    return [
        listed("webhooks", columns, found, title, (LOWER_BOUND, _UNASKED)),
        listed("not_called", reasons, not_called, "Requests that do not call a webhook, and why"),
    ]
