"""The calls of webhooks over time, and an outage of their servers over time, as rows of bars."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime

from ..over_time import Bars, OverTime, Tone, bars, over_time
from .load import Loads
from .outage import Outage

# More rows than this are no longer read at a glance; the table has every webhook.
WEBHOOKS_SHOWN = 6


def calls_over_time(found: Loads) -> OverTime | None:
    """All calls, then those of the webhooks with the most calls; None without a call."""
    rest = len({(each.configuration, each.webhook) for each in found.by_webhook}) - WEBHOOKS_SHOWN
    note = "A conflict or a delete may ask webhooks again, so this is a lower bound."
    if rest > 0:
        note += f" The {WEBHOOKS_SHOWN} webhooks with the most calls have a row each; the first row also counts {rest:,} more."
    rows = (bars("all webhooks", Tone.ADMITTED, ((each.start, each.calls) for each in found.slots)), *_by_webhook(found))
    return over_time("Calls over time", note, "calls", found.slot_seconds, rows)


def _by_webhook(found: Loads) -> Iterator[Bars]:
    """The webhooks with the most calls. The name of the configuration is added where two have a webhook of the same name."""
    counts: defaultdict[tuple[str, str], list[tuple[datetime, int]]] = defaultdict(list)
    for each in found.by_webhook:
        counts[each.configuration, each.webhook].append((each.start, each.calls))
    names = Counter(webhook for _, webhook in counts)
    if len(counts) < 2:
        return
    for key in sorted(counts, key=lambda key: (-sum(calls for _, calls in counts[key]), key))[:WEBHOOKS_SHOWN]:
        configuration, webhook = key
        name = webhook if names[webhook] == 1 else f"{webhook} of {configuration}"
        yield bars(name, Tone.ADMITTED, counts[key])


def outage_over_time(broken: Outage) -> OverTime | None:
    """Requests that an outage would refuse, those that it would let through unchecked, and those that wait if the servers hang."""
    rows = (
        bars("refused with code 500", Tone.DENIED, ((each.start, each.refused) for each in broken.spans)),
        bars("let through unchecked", Tone.UNKNOWN, ((each.start, each.unchecked) for each in broken.spans)),
        bars("waiting, if the servers hang", Tone.ADMITTED, ((each.start, each.waiting) for each in broken.spans)),
    )
    note = (
        "A server that is down refuses connections, and its calls fail at once. "
        "If it hangs, all these requests wait, also those that the cluster refused anyway."
    )
    return over_time("An outage over time", note, "requests", broken.span_seconds, rows)
