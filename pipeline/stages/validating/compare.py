"""Agreement between the replay of the policies in force and the log's record: it measures how good predictions are here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import duckdb

from ingest.counted import counted
from queries import LakeReader

from ...cel.minors import DEFAULT
from .sql import statement

# From here on the API server records all failures of a request (kubernetes/apiserver commit e5e88b808).
_RECORDS_ALL_FAILURES = (1, 37)


@dataclass(frozen=True, slots=True)
class Agreement:
    """One (policy, binding): requests whose record could be compared, and how they compare.

    `unknown` are requests without a replayed outcome, `silent` those whose outcome the log could not have recorded.
    Audit annotations are compared by policy; their counts are repeated for each of its bindings.
    """

    policy: str
    binding: str | None
    agreed: int
    disagreed: int
    unknown: int
    silent: int
    annotations_compared: int = 0
    annotations_agreed: int = 0

    @property
    def compared(self) -> int:
        """Requests with both a recorded and a replayed outcome."""
        return self.agreed + self.disagreed


class Outcome(StrEnum):
    """The outcome of one binding in one request."""

    DENY = "deny"  # it rejected the request
    FAILURE = "failure"  # a validation failed, and the request was not rejected for it
    NONE = "none"  # nothing failed
    UNKNOWN = "unknown"  # the log cannot have recorded it, or the replay could not judge


@dataclass(frozen=True, slots=True)
class Confusion:
    """One (policy, resource): requests by the recorded and the replayed outcome of each binding.

    A cluster reports one denial per request. If a second binding denied it too, the record has its failure, or nothing.
    """

    policy: str
    resource: str
    requests: Mapping[tuple[Outcome, Outcome], int]  # by (recorded, replayed)


def compare_with_log(reader: LakeReader, verdicts: Path, kubernetes_version: tuple[int, int] = DEFAULT) -> tuple[Agreement, ...]:
    """Compare a run of plan_replay_from_log with recorded denials, failures and audit annotations, by policy and binding.

    Leaves a table `compared` in the reader's connection, one row per (request, policy, binding), which `disagreements` and
    `confusion` read.
    """
    connection = reader.connection
    parameters = {"verdicts": str(verdicts), "records_all": kubernetes_version >= _RECORDS_ALL_FAILURES}
    connection.execute(statement("compared"), parameters)
    annotations: dict[str, tuple[int, int]] = {}
    for policy, compared, agreed in connection.execute(statement("annotations"), {"verdicts": str(verdicts)}).fetchall():
        annotations[policy] = (compared, agreed)
    return tuple(_agreement(row, annotations) for row in connection.execute(statement("agreement")).fetchall())


def version_hint(reader: LakeReader, kubernetes_version: tuple[int, int]) -> str:
    """Why the record of the last comparison seems to be from another version of Kubernetes; empty if it does not."""
    several, missing = reader.connection.execute(statement("failures_per_request")).fetchall()[0]
    if several and kubernetes_version < _RECORDS_ALL_FAILURES:
        return (
            f"{counted(several, 'request has', 'requests have')} several failures in the record, as only 1.37 and later write: "
            "try --kubernetes-version 1.37"
        )
    if missing and not several and kubernetes_version >= _RECORDS_ALL_FAILURES:
        return (
            f"no request has more than one failure in the record, though {missing:,} are replayed with more: up to 1.36 only the "
            "first is written; try --kubernetes-version 1.36"
        )
    return ""


def _agreement(row: tuple[Any, ...], annotations: Mapping[str, tuple[int, int]]) -> Agreement:
    policy, binding, agreed, disagreed, unknown, silent = row
    compared, annotations_agreed = annotations.get(policy, (0, 0))
    return Agreement(policy, binding, agreed, disagreed, unknown, silent, compared, annotations_agreed)


def confusion(reader: LakeReader) -> tuple[Confusion, ...]:
    """The last comparison by policy and resource: how often each recorded outcome had each replayed one."""
    rows = reader.connection.execute(statement("confusion")).fetchall()
    counts = {(row[0], row[1]): dict.fromkeys(product(Outcome, Outcome), 0) for row in rows}
    for policy, resource, recorded, replayed, requests in rows:
        counts[policy, resource][Outcome(recorded), Outcome(replayed)] = requests
    return tuple(Confusion(*place, found) for place, found in counts.items())


def disagreements(reader: LakeReader) -> duckdb.DuckDBPyRelation:
    """The rows of the last comparison that disagree, with the replayed and the recorded outcome."""
    return reader.sql("SELECT * EXCLUDE (result) FROM compared WHERE result = 'disagreed' ORDER BY policy, binding, ts, audit_id")
