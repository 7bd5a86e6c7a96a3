"""Why Pod Security admits or refuses one recorded request, mode by mode: the label that decided, and each check that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import ExplainedPolicy, Explanation, Fact, NotExplained
from ...explaining.missing import explained
from ...explaining.shown import Shown, framed, missing_of
from ...history.reconstruct import NotReplayed
from ...request import AdmissionRequest
from ...requests.met import Met
from ..first import changed_first
from .checks.changes import CHANGES
from .given import Given
from .ruling import NAME, Ruling, row_of
from .subject import NAMESPACES, Told
from .walk import Walk


def explain_levels(reader: LakeReader, given: Given, asked: Asked) -> list[Explanation | NotExplained]:
    """The explanation of a request under given labels, or under those that the log shows at its time."""
    changed = changed_first(given.mutating, reader, asked).get(0)
    walk = Walk(reader, given, asked.moment, asked.version[1], meets_ignored=True)

    def told(met: Met, rulings: Sequence[Ruling]) -> Explanation | NotExplained:
        if isinstance(changed, str):
            rulings = [each._replace(decision="unknown", message="", why=changed, failed=()) for each in rulings]
        elif changed is not None and met.event.resource.resource != NAMESPACES[1]:
            return _explanation(met, walk.rulings_on(met.event, changed), asked, changed)
        return _explanation(met, rulings, asked)

    return [
        told(met, rulings)
        for met, rulings in walk.rulings()
        if (met.event.cluster, met.event.audit_id) == (asked.cluster, asked.audit_id)
    ]


def _explanation(
    met: Met, rulings: Sequence[Ruling], asked: Asked, changed: AdmissionRequest | None = None
) -> Explanation | NotExplained:
    requests = met.requests()
    if isinstance(requests, NotReplayed):
        return NotExplained(asked.cluster, asked.audit_id, met.event.ts, requests.reason, explained(requests.reason).remedy)
    request = changed or requests[-1]
    shown = Shown(asked.redaction, request)
    pieces = [shown.piece("object", request.object), shown.piece("oldObject", request.old_object)]
    entries = [_entry(each, met, shown) for each in rulings if asked.wants(str(each.policy), str(each.mode))]
    return framed(met.event, request, 1, shown, pieces, entries, NAME)


def _entry(ruling: Ruling, met: Met, shown: Shown) -> ExplainedPolicy:
    row = row_of(ruling, Told.of(met.event))
    return ExplainedPolicy(
        policy=row.policy,
        binding=row.binding,
        actions=tuple(row.actions),
        decision=ruling.decision,
        effect=row.effect or "",
        rejects=row.effect == "deny",
        message=shown.text(ruling.message),
        why=shown.text(ruling.why),
        evidence=row.evidence,
        fields=tuple(CHANGES[each.check].field for each in ruling.failed),
        missing=missing_of([ruling.why] if ruling.decision == "unknown" else []),
        nearest="; ".join(f"{CHANGES[each.check].field}: {CHANGES[each.check].change}" for each in ruling.failed),
        facts=tuple(_facts(ruling, row.recorded, shown)),
    )


def _facts(ruling: Ruling, recorded: str | None, shown: Shown) -> Iterator[Fact]:
    if ruling.place:
        yield Fact("rule", ruling.place)
    for each in ruling.failed:
        yield Fact("check", f"{each.check}: {shown.text(str(each.failure))}")
    if recorded:
        yield Fact("log", f"the log says: {recorded}")
