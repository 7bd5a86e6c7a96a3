"""Given manifests that need each other, or that break each other: verdicts that mutating policies of the same folder turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ingest.counted import counted
from queries import LakeReader

from ..readiness import Objection
from .sql import statement


def interplay(reader: LakeReader, verdicts: Path) -> Sequence[Objection]:
    """What a reader of a report has to know of each pair, from the verdicts of a run; see `first` in runs/revision.py."""
    rows = reader.connection.execute(statement("interplay"), {"verdicts": str(verdicts)}).fetchall()
    return [Objection(policy, binding, _words(*rest), False) for policy, binding, *rest in rows]


def _words(kind: str, by: str, requests: int, example: str) -> str:
    many = f"{counted(requests, 'request')} (for instance {example})"
    if kind == "needs":
        return f"needs {by}: it admits {many} only because {by} changes them first; put {by} into force before it"
    return f"broken by {by}: it refuses {many} only because {by} changes them first"
