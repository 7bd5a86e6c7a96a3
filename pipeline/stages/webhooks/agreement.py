"""How far the replay of the recorded webhooks agrees with the traces of the log.

A mutating webhook leaves an annotation of each call, so that both a wrong call and a missing one show. A validating webhook leaves
a trace only where it denies, fails or annotates: such a trace of a webhook that the replay does not call is a disagreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...request import Grade, GroupVersionResource
from ...runs.window import Window
from ..kept_agreement import kept_agreement
from ..readiness import Agreed
from .calling import Call, Called
from .model import Phase
from .sql import statement
from .trace import Trace
from .walk import Walk

_NOT_CALLED = (Called.NOMATCH, Called.UNREACHED)


def recorded_agreement(
    reader: LakeReader, window: Window, version: tuple[int, int], others: Mapping[str, OtherAuthorizers]
) -> list[Agreed]:
    """The agreement of each configuration by resource. It is found out once for the files of a lake."""
    asked = (window, version, sorted(others.items(), key=lambda entry: entry[0]))
    return kept_agreement(reader, "webhooks", asked, list[Agreed], lambda: _agreements(reader, window, version, others))


def _agreements(
    reader: LakeReader, window: Window, version: tuple[int, int], others: Mapping[str, OtherAuthorizers]
) -> list[Agreed]:
    walk = Walk(reader, window, None, version, others)
    counts: Counter[tuple[str, str, str]] = Counter()
    plain = [(each.number, each.subject.trace, each.calls, each.subject.request) for each in walk.plain()]
    requests = dict(reader.connection.execute(statement("plain_requests")).fetchall())
    for number, trace, calls, request in plain:
        resource = _label(request.resource, request.subresource)
        for configuration, result in _compared(trace, calls):
            counts[configuration, resource, result] += requests[number]
    for each in walk.by_record():
        resource = _label(each.event.resource, each.event.subresource)
        for configuration, result in _compared(each.trace, each.calls):
            counts[configuration, resource, result] += 1
    places = sorted({(configuration, resource) for configuration, resource, _ in counts})
    return [_agreed(place, counts) for place in places]


def _agreed(place: tuple[str, str], counts: Mapping[tuple[str, str, str], int]) -> Agreed:
    agreed, differs, unknown = (counts.get((*place, result), 0) for result in ("agrees", "differs", "unknown"))
    return Agreed(*place, agreed + differs, agreed, unknown)


def _compared(trace: Trace, calls: Sequence[Call]) -> Iterator[tuple[str, str]]:
    """Each configuration with a call or a trace, and whether both agree."""
    named = {(call.hook.configuration, call.hook.webhook.name) for call in calls if call.hook.phase is Phase.MUTATING}
    for attempt in trace.attempts:
        if attempt.round == 0 and (attempt.configuration, attempt.webhook) not in named:
            yield attempt.configuration, "differs"
    # A refusal names the webhook alone.
    if calls and trace.denied_by and trace.denied_by not in {call.hook.webhook.name for call in calls}:
        yield trace.denied_by, "differs"
    for call in calls:
        hook = call.hook
        traced = trace.of(hook.phase, hook.configuration, hook.webhook.name) is not None
        if call.decision is Called.UNKNOWN:
            yield hook.configuration, "unknown"
        elif call.decision is Called.CALLED and traced:
            yield hook.configuration, "agrees"
        elif call.decision in _NOT_CALLED and traced:
            yield hook.configuration, "differs"
        elif hook.phase is Phase.MUTATING and call.evidence == Grade.EXACT:
            yield hook.configuration, "differs" if call.decision is Called.CALLED else "agrees"


def _label(resource: GroupVersionResource, subresource: str) -> str:
    """The name of a resource, as the macro `resource_label` writes it."""
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.resource}{group}" + (f"/{subresource}" if subresource else "")
