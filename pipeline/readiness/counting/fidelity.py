"""How far the replay can be trusted on the resources of one policy: the share of recorded outcomes that it reproduces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...stages.readiness import Agreed
from ..model import Fidelity, ResourceAgreement


def fidelity_of(found: Iterable[Agreed]) -> dict[str, Fidelity]:
    """The agreement of a stage with the record, by the judged thing. One without a recorded outcome is not in it."""
    by_name: dict[str, list[ResourceAgreement]] = {}
    for each in found:
        row = ResourceAgreement(each.policy, each.resource, each.compared, each.agreed, each.unknown)
        by_name.setdefault(each.policy, []).append(row)
    return {name: _sum(rows, rows) for name, rows in by_name.items()}


# Stands for a comparison that was not made; it does not say whether the log recorded anything.
NOT_COMPARED = Fidelity(is_compared=False)


def fidelity_on(record: Mapping[str, Fidelity] | None, policy: str, resources: Iterable[str]) -> Fidelity:
    """The agreement of all policies on some resources, and of the one policy itself on every resource.

    `record` is None if the replay was not compared with the log.
    """
    if record is None:
        return NOT_COMPARED
    wanted = frozenset(resources)
    rows = [row for found in record.values() for row in found.by_resource if row.resource in wanted]
    own = record.get(policy, Fidelity())
    return _sum(sorted(rows, key=lambda row: (row.resource, row.policy)), own.by_resource)


def _sum(rows: Iterable[ResourceAgreement], own: Iterable[ResourceAgreement]) -> Fidelity:
    rows, own = tuple(rows), tuple(own)
    return Fidelity(
        compared=sum(row.compared for row in rows),
        agreed=sum(row.agreed for row in rows),
        own_compared=sum(row.compared for row in own),
        own_agreed=sum(row.agreed for row in own),
        unknown=sum(row.unknown for row in rows),
        by_resource=rows,
    )
