"""Counterexamples: recorded requests that a policy would deny, with the smallest part of the object that the denial depends on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from queries import LakeReader

from ...cel import ReadSet
from ...explaining.redaction import Redaction
from ...history.reconstruct import NotReplayed
from ...request import Known
from ...requests.recall import recall
from ..model import COUNTEREXAMPLES_MAX, Counterexample
from ..sql import statement

Found: TypeAlias = dict[tuple[str, str | None], tuple[Counterexample, ...]]


def find_counterexamples(
    reader: LakeReader,
    verdicts: Path,
    reads: Callable[[str, int | None], ReadSet] | None,
    redaction: Redaction,
    per_policy_max: int = COUNTEREXAMPLES_MAX,
    is_change: bool = False,
) -> Found:
    """For each (policy, binding) the latest would-be denials, of one workload and expression each, without credentials.

    `reads` say what expressions read (StageReadiness.expression_reads); without them, a denial is of one workload and user.
    When the report compares with a version before (table `changed`), only new or perhaps new denials are shown.
    """
    if reads is None:
        return _requests(reader, verdicts, redaction, per_policy_max, is_change)
    found: Found = {}
    for row in _chosen(reader, verdicts, per_policy_max, is_change, by_user=False):
        key, read = (row["policy"], row["binding"]), reads(row["policy"], row["expression_index"])
        found[key] = (*found.get(key, ()), _counterexample(row, _judged(reader, row), read, redaction))
    return found


def _requests(reader: LakeReader, verdicts: Path, redaction: Redaction, per_policy_max: int, is_change: bool) -> Found:
    """The same where no expression decides: requests with the messages, and no part of an object."""
    found: Found = {}
    for row in _chosen(reader, verdicts, per_policy_max, is_change, by_user=True):
        key = (row["policy"], row["binding"])
        found[key] = (*found.get(key, ()), _example(row, redaction.text(row["message"]), {}))
    return found


def _chosen(reader: LakeReader, verdicts: Path, per_policy_max: int, is_change: bool, *, by_user: bool) -> list[dict[str, Any]]:
    """The rows of the latest would-be denials, as many of each (policy, binding) as are shown; with `by_user` one for each user."""
    reader.connection.execute(statement("shown_new" if is_change else "shown"))
    counts: Counter[tuple[str, str | None]] = Counter()
    chosen: list[dict[str, Any]] = []
    for row in _rows(reader, verdicts, by_user):
        key = (row["policy"], row["binding"])
        if counts[key] < per_policy_max:
            counts[key] += 1
            chosen.append(row)
    return chosen


def _rows(reader: LakeReader, verdicts: Path, by_user: bool) -> Iterator[dict[str, Any]]:
    cursor = reader.connection.execute(statement("counterexamples"), {"verdicts": str(verdicts), "by_user": by_user})
    names = [column[0] for column in cursor.description]
    while row := cursor.fetchone():
        yield dict(zip(names, row, strict=True))


def _judged(reader: LakeReader, row: Mapping[str, Any]) -> Any:
    """The judged object. The body of a patch is not an object, and neither is the answer to a refused patch."""
    recorded = json.loads(row["object"]) if row["object"] else None
    if row["verb"] != "patch":
        return recorded
    for event, passes in recall(reader, row["cluster"], row["audit_id"]):
        if event.ts == row["ts"] and not isinstance(passes, NotReplayed):
            judged = next((found.object.value for found in passes if isinstance(found.object, Known)), None)
            return judged if judged is not None else recorded
    return recorded


def _counterexample(row: Mapping[str, Any], whole: Any, reads: ReadSet, redaction: Redaction) -> Counterexample:
    # Redact the whole object before cutting it: the field that marks a value as a secret may be one that the policy does not read.
    part = reads.of("object").project(redaction.object(whole)) if "object" in reads.variables() else {}
    return _example(row, redaction.text(row["message"], whole), part if isinstance(part, dict) else {})


def _example(row: Mapping[str, Any], message: str, part: Mapping[str, Any]) -> Counterexample:
    return Counterexample(
        ts=row["ts"],
        cluster=row["cluster"],
        audit_id=row["audit_id"],
        user=row["user_name"] or "",
        verb=row["verb"],
        namespace=row["namespace"],
        resource=row["resource"],
        name=row["name"],
        message=message,
        object=part,
    )
