"""What a report says of a whole lake, whatever manifests it is about. It is kept as long as the lake has the same files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from queries import LakeReader

from ..requests.kept.whole import losses_of, mixed_names_of, rows_about
from .report import EvidenceRow, RecordedPolicy
from .sql import statement


def extent_of(reader: LakeReader) -> Mapping[str, Any]:
    """What the lake holds: its events, requests, times and clusters."""
    return rows_about(reader, "extent", statement("extent"))[0]


def recorded_of(reader: LakeReader) -> tuple[RecordedPolicy, ...]:
    """The policies with a failure or a denial that a cluster recorded."""
    return tuple(RecordedPolicy(**row) for row in rows_about(reader, "recorded", statement("recorded")))


def evidence_of(reader: LakeReader) -> tuple[EvidenceRow, ...]:
    """The writes of each resource, and how many of them have bodies."""
    return tuple(EvidenceRow(**row) for row in rows_about(reader, "evidence", statement("evidence")))


# In this order; each reads the lake once.
QUESTIONS: tuple[Callable[[LakeReader], object], ...] = (extent_of, recorded_of, evidence_of, mixed_names_of, losses_of)
