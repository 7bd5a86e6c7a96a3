"""How far the replay can be trusted on the resources of one policy: the share of recorded outcomes that it reproduces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache

import duckdb
import msgspec

from queries import LakeReader
from queries.catalog import statements

from ...runs import StoredRun
from ...stages.validating.compare import compare_with_log
from ...stages.validating.sql import statement as replay_statement
from ..model import Fidelity, ResourceAgreement
from ..sql import rows_of, statement


def kept_agreement(reader: LakeReader, run: StoredRun, kubernetes_version: tuple[int, int]) -> dict[str, Fidelity]:
    """As `recorded_agreement`, of a run of the policies in force over what the reader shows.

    The first comparison of a run is kept next to it. A run is of one state of the lake, so a later one has nothing to add.
    """
    name = f"agreement-{_code_digest()}.json"
    kept = run.kept(name)
    with suppress(msgspec.DecodeError):
        if kept is not None:
            return msgspec.json.decode(kept, type=dict[str, Fidelity])
    compare_with_log(reader, run.verdicts, kubernetes_version)
    found = recorded_agreement(reader.connection)
    run.keep(name, msgspec.json.encode(found))
    return found


@cache
def _code_digest() -> str:
    """Of everything that decides what a comparison finds."""
    texts = (replay_statement("compared"), statement("agreement"), *map(repr, statements()), duckdb.__version__)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def recorded_agreement(connection: duckdb.DuckDBPyConnection) -> dict[str, Fidelity]:
    """The agreement of each policy with the record, by resource. `connection` holds the table `compared` of a comparison.

    A policy without a recorded outcome is not in it.
    """
    by_policy: dict[str, list[ResourceAgreement]] = {}
    for row in rows_of(connection, "agreement"):
        by_policy.setdefault(row["policy"], []).append(ResourceAgreement(**row))
    return {policy: _sum(rows, rows) for policy, rows in by_policy.items()}


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
