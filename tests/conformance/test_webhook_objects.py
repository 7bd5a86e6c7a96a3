"""The objects that validating admission saw, with and without the recorded patches of mutating webhooks.

`../shared/data/webhooks-a` has every object that a validating webhook received. A log of level Request lacks the answers of the API
server, so these are withheld. The patches are withheld as well, to say what they are worth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from pipeline.history.event import Event
from pipeline.history.reconstruct import NotReplayed, attempted_requests
from pipeline.history.snapshots import snapshot_versions
from pipeline.history.versions import LogVersions
from pipeline.history.world import LogHistory
from pipeline.history.writes import record
from pipeline.request import Evidence, Grade, Unknown
from tests.conformance.test_webhook_truth import webhooks_lake
from tests.made_up import agrees, completed
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
__all__ = ["webhooks_lake"]

# How many objects of refused requests are sure; a change that makes it fewer must say why.
SURE_MIN = 224
_PATCH = "patch.webhook.admission.k8s.io/"
_ATTEMPT = "mutation.webhook.admission.k8s.io/"
_SURE, _DOUBTED, _UNKNOWN = "sure and equal", "doubted and equal", "unknown"
_FALSE, _WRONG = "sure and different", "doubted and different"


class Log(NamedTuple):
    """The rows of a lake with their history, and the objects that validating webhooks received."""

    rows: list[dict[str, Any]]
    versions: LogVersions
    history: LogHistory
    received: Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def log(shared: Path, webhooks_lake: Path) -> Log:
    lake = Lake.open(webhooks_lake)
    tables = {kind: [pq.read_table(file, partitioning=None) for file in lake.files(kind)] for kind in ("events", "objects")}
    lake.close()
    events, objects = ([row for table in found for row in table.to_pylist()] for found in tables.values())
    rows = sorted((row for row in events if row["stage"] == "ResponseComplete"), key=lambda row: row["stage_ts"])
    versions = LogVersions(snapshot_versions(objects))
    for row in rows:
        record(Event.from_row(row), versions)
    received: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for review in rows_of(shared / "data" / "webhooks-a" / "truth.jsonl.zst"):
        if (
            review["phase"] == "validating"
            and review["kind"] == review["requestKind"]
            and review["operation"] in ("CREATE", "UPDATE")
        ):
            received[review["auditID"]].append(review)
    return Log(rows, versions, LogHistory.from_rows(rows, objects), received)


def _plain(value: Any, evidence: Evidence[Any]) -> Any:
    """Without what the audit policy leaves out, and without a version that is said to be unknown."""
    if not isinstance(value, dict) or "metadata" not in value:
        return value
    unsaid = {"resourceVersion"} if not isinstance(evidence, Unknown) and evidence.source.endswith("not known") else set()
    return {**value, "metadata": {key: each for key, each in value["metadata"].items() if key not in {"managedFields", *unsaid}}}


def _shares(log: Log, refused: bool, with_patches: bool, with_answers: bool) -> tuple[Counter[str], list[str]]:
    """How many objects are known how well, and the auditIDs of those that are sure and different."""
    counts: Counter[str] = Counter()
    wrong = []
    for row in log.rows:
        reviews = log.received.get(row["audit_id"])
        if not reviews or (refused and row["code"] < 400) or row["request_object"] is None:
            continue
        annotations = [(key, value) for key, value in row["annotations"] if with_patches or not key.startswith((_PATCH, _ATTEMPT))]
        answer = {} if with_answers else {"response_object": None}
        found = attempted_requests(Event.from_row({**row, "annotations": annotations, **answer}), log.versions, log.history)
        evidence: Evidence[Any] = Unknown("not replayed") if isinstance(found, NotReplayed) else found[0].object
        if isinstance(evidence, Unknown) or isinstance(found, NotReplayed):
            counts[_UNKNOWN] += 1
            continue
        value = _plain(completed(found[0], evidence.value), evidence)
        equal = any(agrees(value, _plain(review["object"], evidence)) for review in reviews)
        is_sure = evidence.grade is not Grade.PARTIAL
        counts[(_SURE if is_sure else _DOUBTED) if equal else _FALSE if is_sure else _WRONG] += 1
        if is_sure and not equal:
            wrong.append(row["audit_id"])
    return counts, wrong


def test_recorded_patches_make_objects_exact(log: Log) -> None:
    """No object that is graded exact or inferred differs from the received one, and patches tell more objects than bodies alone."""
    shown = {}
    for refused, with_answers, title in (
        (True, True, "refused"),
        (False, True, "all, answers recorded"),
        (False, False, "all, answers withheld"),
    ):
        for with_patches in (False, True):
            counts, wrong = _shares(log, refused, with_patches, with_answers)
            name = f"{title}, {'with' if with_patches else 'without'} patches"
            shown[name] = counts
            total, equal = sum(counts.values()), counts[_SURE] + counts[_DOUBTED]
            print(f"{name}: {dict(counts)}; sure {counts[_SURE] / total:.1%}, equal {equal / total:.1%}")
            if with_patches:
                assert wrong == []
    refused, bare = shown["refused, with patches"], shown["refused, without patches"]
    assert refused[_WRONG] + refused[_UNKNOWN] == 0
    assert refused[_SURE] >= SURE_MIN
    assert bare[_FALSE] > 0, "without patches some objects are taken for exact and are not"
