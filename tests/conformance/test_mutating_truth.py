"""What recorded mutating policies made of recorded requests, predicted from the log and the policies of that time.

`../shared/data/mutating-policies-a` holds the audit log of a kube-apiserver 1.36.2 with 158 mutating policies. It also has every
object after the policies of each round, and every object as validating admission received it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.history.event import Event
from pipeline.history.patch import apply_json_patch
from pipeline.request import AdmissionRequest, Known, Object, Unknown
from pipeline.runs.window import Window
from pipeline.stages.mutating.afterwards import prepared
from pipeline.stages.mutating.changes import changes
from pipeline.stages.mutating.invocation import Outcome
from pipeline.stages.mutating.orders import outcomes_of
from pipeline.stages.mutating.walk import Met, Walk, is_refusal
from pipeline.stages.webhooks import trace_of
from queries import open_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance

SNAPSHOTS = ("1-policies", "2-changed", "3-end")
# The smallest counts that this suite has reached; a change that lowers one must say why.
ANSWERS_MIN, AFTER_POLICIES_MIN, AFTER_MIN = 333, 848, 1_319
# Built-in plugins set these fields of pods before mutating policies; the log shows them in the answer to a create at most.
BY_PLUGINS = ("spec.priority", "spec.preemptionPolicy", "spec.tolerations", "spec.serviceAccount", "spec.volumes")
# The store sets these after mutating admission; a conflict may give an update another version.
BY_STORE = ("metadata.uid", "metadata.managedFields", "metadata.creationTimestamp")
# Allocated before validating admission.
ADDRESSES = ("spec.clusterIP", "spec.ipFamil")


@dataclass
class Predicted:
    """One request, as it came to the policies and as they left it; `why` says why this is not known."""

    request: AdmissionRequest | None
    met: Met
    outcomes: Sequence[Outcome]
    why: str = ""


@pytest.fixture(scope="module")
def mutating_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = shared / "data" / "mutating-policies-a"
    lake = Lake.create(tmp_path_factory.mktemp("mutating") / "lake")
    ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
    for name in SNAPSHOTS:
        taken = next(rows_of(source / "snapshots" / name / "namespaces.json.zst"))["metadata"]["takenAt"]
        ingest_snapshot(lake, [source / "snapshots" / name], "lab", datetime.fromtimestamp(float(taken), UTC))
    lake.close()
    return lake.path


def with_webhooks(event: Event, number: int, value: Object) -> Object:
    """An object with the recorded patches of webhooks of one round, which come after policies."""
    for patch in trace_of(event.annotations, "").patches:
        if patch.round == number:
            value = apply_json_patch(value, patch.operations)
    return value


def judge(met: Met) -> Predicted:
    """Every outcome that an order of the policies can have."""
    if isinstance(met.request, Unknown):
        return Predicted(None, met, (), met.request.reason)
    if isinstance(met.chains, Unknown):
        return Predicted(None, met, (), met.chains.reason)
    if met.unreached:
        return Predicted(None, met, (), f"whether it reached the policies: {met.unreached}")
    found: list[Outcome] = []
    for chain in met.chains:
        between = partial(with_webhooks, met.event)
        found += outcomes_of(chain, met.request, met.world, met.authorize, between).distinct
    return Predicted(met.request, met, found)


def differing(predicted: Object, recorded: Object, ignored: Sequence[str]) -> list[str]:
    """The paths at which two objects differ, but for those that something else than policies decides."""
    found = [change.path for change in changes(predicted, recorded)]
    # The ServiceAccount plugin mounts a volume in the containers of pods.
    mounts = "].volumeMounts" if "spec.volumes" in ignored else "\0"
    return [path for path in found if not path.startswith(tuple(ignored)) and mounts not in path]


def best_of(outcomes: Sequence[Outcome], measure: Callable[[Outcome], list[str]]) -> list[str] | str:
    """The smallest difference of any order, or why the object is unknown in every order."""
    known = [measure(each) for each in outcomes if each.refusal is None and isinstance(each.object, Known)]
    if known:
        return min(known, key=len)
    return next((each.object.reason for each in outcomes if isinstance(each.object, Unknown)), "refused")


def test_predicted_objects_and_answers_are_the_recorded_ones(shared: Path, mutating_lake: Path) -> None:
    """Field by field and word by word; unknown ones are counted by reason."""
    source = shared / "data" / "mutating-policies-a"
    truth = {row["auditID"]: row for row in rows_of(source / "truth.jsonl.zst")}
    table: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    wrong: list[tuple[object, ...]] = []
    with closing(open_lake(mutating_lake)) as reader:
        for found in Walk(reader, Window()).judged(judge):
            event, predicted = found.event, found.verdict
            row = truth.get(event.audit_id)
            if row is None:
                table["left out: the recorder has no row of it"] += 1
                continue
            if predicted.why:
                table["request unknown"] += 1
                reasons[predicted.why] += 1
                continue
            for what, outcome in compared(event, row, predicted):
                if isinstance(outcome, str):
                    table[f"{what}: {'left out: ' + outcome if outcome.startswith('a conflict') else 'unknown'}"] += 1
                    reasons[outcome] += not outcome.startswith("a conflict")
                elif outcome:
                    table[f"{what}: WRONG"] += 1
                    wrong.append((what, row["case"], event.audit_id, event.verb, event.resource.resource, *outcome))
                else:
                    orders = " (one of several orders)" if len(predicted.outcomes) > 1 else ""
                    table[f"{what}: agreed{orders}"] += 1
    for name, count in (*sorted(table.items()), *((f"  unknown: {why}", count) for why, count in reasons.most_common())):
        print(f"{count:>8,}  {name}")
    assert not wrong, wrong[:20]
    agreed = Counter({name.partition(":")[0]: 0 for name in table})
    for name, count in table.items():
        agreed[name.partition(":")[0]] += count if "agreed" in name else 0
    assert agreed["answer"] >= ANSWERS_MIN
    assert agreed["object after policies"] >= AFTER_POLICIES_MIN
    assert agreed["object before validating admission"] >= AFTER_MIN


def compared(event: Event, row: dict[str, Any], predicted: Predicted) -> list[tuple[str, list[str] | str]]:
    """Each thing that was recorded of a request: empty lists where it is as predicted, texts where it is unknown."""
    refusals = [(each.refusal.code, each.refusal.message) if each.refusal else None for each in predicted.outcomes]
    if is_refusal(event):
        real = (event.code, event.message)
        unknown = next((each.object.reason for each in predicted.outcomes if isinstance(each.object, Unknown)), None)
        agreed = real in refusals
        return [("answer", [] if agreed else unknown if unknown and None in refusals else [f"{real}, not {refusals}"])]
    if refusals and None not in refusals:
        return [("answer", [f"{event.code} {event.message}, not {refusals[0]}"])]
    is_pod = event.resource.resource == "pods" and not event.subresource
    ignored = (*BY_STORE, *(BY_PLUGINS if is_pod else ()), *(ADDRESSES if event.resource.resource == "services" else ()))
    found: list[tuple[str, list[str] | str]] = []
    if "afterPolicies" in row:
        found.append(("object after policies", after_policies(event, row, predicted, ignored)))
    if "after" in row:
        found.append(("object before validating admission", before_validating(event, row, predicted, ignored)))
    return found


def after_policies(event: Event, row: dict[str, Any], predicted: Predicted, ignored: Sequence[str]) -> list[str] | str:
    """The rounds as the mutating recorder saw them. Of a conflict only the first pass is in the log."""
    recorded = row["afterPolicies"]
    if row.get("passes", 1) > 1 and event.verb == "patch":
        return "a conflict made the store ask again with another version"

    def measure(outcome: Outcome) -> list[str]:
        if len(outcome.rounds) < len(recorded) and row.get("passes", 1) == 1:
            return [f"{len(outcome.rounds)} rounds, not {len(recorded)}"]
        return [
            path
            for number, each in enumerate(recorded[: len(outcome.rounds)])
            for path in differing(with_webhooks(event, number, outcome.rounds[number]), each, ignored)
        ]

    return best_of(predicted.outcomes, measure)


def before_validating(event: Event, row: dict[str, Any], predicted: Predicted, ignored: Sequence[str]) -> list[str] | str:
    """The object as the validating recorder saw it: prepared by the API server after all mutation."""
    request = predicted.request
    assert request is not None
    if row.get("passes", 1) > 1:
        return "a conflict made the store ask again with another version"

    def measure(outcome: Outcome) -> list[str]:
        assert isinstance(outcome.object, Known)
        value = prepared(replace(request, object=outcome.object), predicted.met.name, event, predicted.met.kind).object
        assert isinstance(value, Known)
        return differing(value.value or {}, row["after"], ignored)

    return best_of(predicted.outcomes, measure)
