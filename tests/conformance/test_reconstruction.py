"""Reconstructed admission requests against what a live API server gave to admission.

`data/control-plane-a` holds an audit log, the AdmissionReviews that a webhook on everything received, and a trace of every pass of
validating admission. Everything that is graded exact or inferred must be equal, field by field, but for the listed cases; what is
graded partial or unknown is counted and printed. The log is also cut at the first snapshot and read with and without it.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake
from pipeline.history.event import Event
from pipeline.history.in_force import PolicyTimeline
from pipeline.history.reconstruct import NotReplayed, admission_requests
from pipeline.history.snapshots import snapshot_versions
from pipeline.history.versions import LogVersions
from pipeline.history.world import LogHistory
from pipeline.history.writes import record
from pipeline.request import AdmissionRequest, Evidence, Grade, Known, Unknown
from tests.made_up import agrees, completed
from tests.recorded_files import rows_of
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

LISTED = load_yaml(Path(__file__).with_name("reconstruction_disagreements.yaml").read_text(encoding="utf-8"))
_REVIEW_UID = "record.lab.example.com/review-uid"
_BODIES = ("object", "old_object", "options")
_RESULTS = ("equal", "partial, equal", "partial", "unknown", "differ")
TABLE = Path(__file__).with_name("reconstruction_table.yaml")


@dataclass(frozen=True)
class Recording:
    """What was logged, what was listed before the first policy, and what admission was given."""

    rows: Sequence[dict[str, Any]]
    snapshot: Sequence[dict[str, Any]]
    passes: Mapping[str, Sequence[Mapping[str, Any]]]
    reviews: Mapping[str, Mapping[str, Any]]


@cache
def _rows(path: Path, kind: str) -> list[dict[str, Any]]:
    lake = Lake.open(path)
    files = lake.files(kind)
    lake.close()
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


@pytest.fixture(scope="module")
def recording(shared: Path, recorded_lake: Path) -> Recording:
    source = shared / "data" / "control-plane-a"
    passes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in rows_of(source / "trace.jsonl.zst"):
        passes[line["auditID"]].append(line)
    reviews = {
        line["review"]["request"]["uid"]: line["review"]["request"] for line in rows_of(source / "admission_reviews.jsonl.zst")
    }
    final = [row for row in _rows(recorded_lake, "events") if row["stage"] == "ResponseComplete"]
    return Recording(sorted(final, key=lambda row: row["stage_ts"]), _rows(recorded_lake, "objects"), dict(passes), reviews)


# -- comparing one request with what admission was given ---------------------------------------------------------------------------


def _of_pass(given: Mapping[str, Any]) -> dict[str, Any]:
    """A pass of the trace in the fields of AdmissionRequest."""
    user = given["userInfo"]
    return {
        "operation": given["operation"],
        "kind": given["kind"].rpartition("Kind=")[2],
        "resource": (given["group"], given["version"], given["resource"]),
        "subresource": given.get("subResource", ""),
        "namespace": given.get("namespace", ""),
        "name": given.get("name", ""),
        "user": (user.get("username") or "", user.get("uid") or "", tuple(user.get("groups") or ()), user.get("extra") or {}),
        "dry_run": given["dryRun"],
        "options": given.get("options"),
        "object": given.get("object"),
        "old_object": given.get("oldObject"),
    }


def _of_review(given: Mapping[str, Any]) -> dict[str, Any]:
    """An AdmissionReview in the fields of AdmissionRequest, as the request was before any conversion for the webhook."""
    resource, kind = given["requestResource"], given["requestKind"]
    return _of_pass(
        {
            **{key: given.get(key) for key in ("operation", "options", "object", "oldObject", "userInfo", "dryRun")},
            **{key: given.get(key, "") for key in ("namespace", "name")},
            "kind": kind["kind"],
            "group": resource["group"],
            "version": resource["version"],
            "resource": resource["resource"],
            "subResource": given.get("requestSubResource", ""),
        }
    )


def _read(evidence: Evidence[Any]) -> Any:
    return evidence.value if isinstance(evidence, Known) else evidence


def _of_request(request: AdmissionRequest) -> dict[str, Any]:
    kind = _read(request.kind)
    user, resource = request.user, request.resource
    return {
        "operation": request.operation.value,
        "kind": kind if isinstance(kind, Unknown) else kind.kind,
        "resource": (resource.group, resource.version, resource.resource),
        "subresource": request.subresource,
        "namespace": request.namespace,
        "name": _read(request.name),
        "user": (user.username, user.uid, user.groups, dict(user.extra)),
        "dry_run": request.dry_run,
        **{name: _read(getattr(request, name)) for name in _BODIES},
    }


def _plain(value: Any, evidence: Any) -> Any:
    """A value without what the record cannot hold: managedFields, which its audit policy omits, and versions said to be unknown."""
    if not isinstance(value, dict) or "metadata" not in value:
        return value
    left_out = {"managedFields"}
    if isinstance(evidence, Known) and evidence.source.endswith("resourceVersion not known"):
        left_out.add("resourceVersion")
    return {**value, "metadata": {key: entry for key, entry in value["metadata"].items() if key not in left_out}}


def _compare(request: AdmissionRequest, candidates: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(field, result) for every field. The server asks again when a write races; any of the passes of one request will do."""
    found = _of_request(request)
    for name, value in found.items():
        evidence = getattr(request, name)
        if isinstance(value, Unknown):
            yield name, "unknown"
            continue
        whole = completed(request, value) if name == "object" else value
        equal = any(agrees(_plain(whole, evidence), _plain(given[name], evidence)) for given in candidates)
        grade = evidence.grade if isinstance(evidence, Known) else Grade.EXACT
        if grade is Grade.PARTIAL:
            yield name, "partial, equal" if equal else "partial"
        else:
            yield name, "equal" if equal else "differ"


def _candidates(row: Mapping[str, Any], request: AdmissionRequest, recording: Recording) -> list[dict[str, Any]]:
    passes = [_of_pass(given) for given in recording.passes.get(row["audit_id"], ())]
    if row["verb"] == "deletecollection":
        name = _read(request.old_object)["metadata"]["name"]
        return [given for given in passes if given["old_object"]["metadata"]["name"] == name]
    review = recording.reviews.get(dict(row["annotations"]).get(_REVIEW_UID, ""))
    return [*passes, _of_review(review)] if review else passes


def _result(recording: Recording, rows: Sequence[dict[str, Any]], snapshot: Sequence[dict[str, Any]]) -> Any:
    versions = LogVersions(snapshot_versions(snapshot))
    for row in rows:
        record(Event.from_row(row), versions)
    history = LogHistory.from_rows(rows, snapshot)
    table: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    differing: set[tuple[str, str]] = set()
    for row in rows:
        requests = admission_requests(row, versions, history)
        for request in [] if isinstance(requests, NotReplayed) else requests:
            candidates = _candidates(row, request, recording)
            if not candidates:
                continue  # of resources that policies never see, or traced from a later moment on
            for name, result in _compare(request, candidates):
                if name in _BODIES:
                    table[request.operation.value, request.subresource, name][result] += 1
                if result == "differ":
                    differing.add((row["audit_id"], name))
    return table, differing


def _show(title: str, table: Mapping[tuple[str, str, str], Counter[str]]) -> None:
    print(f"\n{title}\n{'operation':10}{'subresource':22}{'field':12}" + "".join(f"{name:>16}" for name in _RESULTS))
    for (operation, subresource, name), counts in sorted(table.items()):
        print(f"{operation:10}{subresource:22}{name:12}" + "".join(f"{counts[result]:16,}" for result in _RESULTS))


def _as_rows(table: Mapping[tuple[str, str, str], Counter[str]]) -> list[dict[str, Any]]:
    return [
        {"of": " ".join(filter(None, key)), **{result: counts[result] for result in _RESULTS if counts[result]}}
        for key, counts in sorted(table.items())
    ]


def _listed(name: str) -> set[tuple[str, str]]:
    return {(entry["audit_id"], entry["field"]) for entry in LISTED[name]}


def test_reconstructed_requests_are_what_admission_was_given(recording: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    """And as often as the table next to this file says: HINDCAST_UPDATE_GOLDEN=1 rewrites it, and the difference is the review."""
    table, differing = _result(recording, recording.rows, recording.snapshot)
    with capsys.disabled():
        _show("the whole log", table)
    assert differing == _listed("requests"), "unlisted differences, or listed ones that are gone"
    if os.environ.get("HINDCAST_UPDATE_GOLDEN"):
        TABLE.write_text("".join(f"- {json.dumps(row)}\n" for row in _as_rows(table)), encoding="utf-8")
    assert _as_rows(table) == load_yaml(TABLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("with_snapshot", [False, True], ids=["without snapshot", "with snapshot"])
def test_a_log_that_begins_later_claims_no_more_than_it_knows(
    recording: Recording, with_snapshot: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = max(row["observed_ts"] for row in recording.snapshot)
    rows = [row for row in recording.rows if row["ts"] >= begin]
    table, differing = _result(recording, rows, recording.snapshot if with_snapshot else [])
    with capsys.disabled():
        _show(f"the log from {begin:%H:%M:%S} on, {'with' if with_snapshot else 'without'} a snapshot of that moment", table)
    assert differing <= _listed("requests")


def test_policies_ran_where_the_record_says_so(recording: Recording) -> None:
    versions = LogVersions(snapshot_versions(recording.snapshot))
    for row in recording.rows:
        record(Event.from_row(row), versions)
    wrong: set[tuple[str, str]] = set()
    reasons: Counter[tuple[str, bool]] = Counter()
    for row in recording.rows:
        ran = row["audit_id"] in recording.passes
        found = admission_requests(row, versions)
        if isinstance(found, NotReplayed):
            reasons[f"{found.admission}: {found.reason}", ran] += 1
            if found.admission == "not reached" and ran:
                wrong.add((row["audit_id"], "ran"))
        elif not ran and _traced(row):
            wrong.add((row["audit_id"], "did not run"))
    for (reason, ran), count in sorted(reasons.items()):
        print(f"{count:7,}  {'ran' if ran else 'did not run':12} {reason}")
    assert wrong == _listed("admission"), "unlisted contradictions, or listed ones that are gone"


def _traced(row: Mapping[str, Any]) -> bool:
    """Policies are never asked about themselves and about reviews; Events are missing from the first minute of the trace."""
    if row["api_group"] in ("admissionregistration.k8s.io", "authorization.k8s.io") and "webhook" not in row["resource"]:
        return False
    return row["resource"] != "events" or row["ts"] > datetime(2026, 11, 21, 3, 25, tzinfo=UTC)


# -- the world ---------------------------------------------------------------------------------------------------------------------


def _version(evidence: Evidence[Any]) -> str | None:
    assert isinstance(evidence, Known), evidence
    return None if evidence.value is None else evidence.value["metadata"]["resourceVersion"]


def _param_kind(policy: Evidence[Any]) -> tuple[str, str]:
    assert isinstance(policy, Known)
    kind = policy.value["spec"]["paramKind"]
    return kind["apiVersion"], kind["kind"]


def test_the_world_is_the_one_that_policies_met(recording: Recording) -> None:
    """Versions of policies, bindings, params and namespaces of every pass. A version may be another one that says the same."""
    history = LogHistory.from_rows(recording.rows, recording.snapshot)
    timeline = PolicyTimeline(history, "lab")
    counts: Counter[str] = Counter()
    wrong: set[tuple[str, str]] = set()
    in_force: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    for row in recording.rows:
        for given in recording.passes.get(row["audit_id"], ()):
            epoch = timeline.epoch(row["ts"])
            if epoch not in in_force:
                found = (timeline.policies_at(row["ts"]), timeline.bindings_at(row["ts"]))
                in_force[epoch] = ({item.name: item for item in found[0]}, {item.name: item for item in found[1]})
            policies, bindings = in_force[epoch]
            for what in _contradictions(given, row["ts"], history, policies, bindings, counts):
                wrong.add((row["audit_id"], what))
    print(dict(counts))
    assert counts["binding"] > 15_000
    assert counts["param"] > 3_000
    assert wrong == _listed("world"), "unlisted contradictions, or listed ones that are gone"


def _contradictions(
    given: Mapping[str, Any],
    ts: datetime,
    history: LogHistory,
    policies: Mapping[str, Any],
    bindings: Mapping[str, Any],
    counts: Counter[str],
) -> Iterator[str]:
    world = history.at("lab", ts)
    for policy in given.get("policies", ()):
        counts["policy"] += 1
        item = policies.get(policy["policy"])
        if item is None or not _may_be(item, policy["rv"], history, "validatingadmissionpolicies"):
            yield f"policy {policy['policy']}"
            continue
        for binding in policy.get("bindings", ()):
            counts["binding"] += 1
            found = bindings.get(binding["binding"])
            if found is None or not _may_be(found, binding["rv"], history, "validatingadmissionpolicybindings"):
                yield f"binding {binding['binding']}"
            if binding.get("namespaceRV"):
                counts["namespace"] += 1
                if _version(world.namespace(given["namespace"])) != binding["namespaceRV"]:
                    yield f"namespace {given['namespace']}"
            for param in binding.get("params", ()):
                if "rv" in param:
                    counts["param"] += 1
                    kind = _param_kind(item.object)
                    if _version(world.param(*kind, param.get("namespace", ""), param["name"])) != param["rv"]:
                        yield f"param {param['name']}"


def _may_be(item: Any, version: str, history: LogHistory, resource: str) -> bool:
    """Whether the version in force is among those that the timeline allows, or says the same as one of them."""
    allowed = [evidence.value for evidence in (item.object, *item.others) if isinstance(evidence, Known) and evidence.value]
    if any(value["metadata"]["resourceVersion"] == version for value in allowed):
        return True
    key = next(key for key in history.versions.objects() if key.resource == resource and key.name == item.name)
    met = history.versions.at(key, version)
    found = history.object_of(met) if met else None
    return isinstance(found, Known) and found.value is not None and any(found.value["spec"] == value["spec"] for value in allowed)
