"""Credentials of tests/cases/ingest/credentials.yaml are sent by every way in; then every file of the lake is searched for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.decode import decode_events
from ingest.lake import Lake
from ingest.notes import PREFIX, REDACTED
from ingest.quarantine import read_quarantine
from ingest.redaction.redact import KEY_BYTES, Redactor
from ingest.sink import Accepted, Sink
from ingest.sink_limits import SinkLimits
from ingest.sources.files import ingest_files
from ingest.sources.follow import follow_files
from ingest.sources.snapshot import ingest_snapshot
from ingest.spooling.drain import drain
from ingest.spooling.segment import Batch, read_segment
from ingest.spooling.spool import Spool, sealed_segments
from pipeline.history.event import Event
from pipeline.history.outcome import outcome_of
from tests.canaries import CANARY, CASES, EVENTS, ODD, PATHS, assert_clean, build, contents, raw
from tests.drawing import MANY

# How a line carries the note.
ANNOTATION = PREFIX + REDACTED

DEMO_LOG = Path(__file__).parents[2] / "api/demo/audit.jsonl.zst"
AT = datetime(2026, 11, 1, tzinfo=UTC)


def redactor(hashes: bool = False) -> Redactor:
    return Redactor(paths=PATHS, mode="hash", key=bytes(KEY_BYTES)) if hashes else Redactor(paths=PATHS)


def rows(lake: Lake) -> dict[str, dict[str, Any]]:
    return {row["audit_id"]: row for path in lake.files() for row in pq.read_table(path, partitioning=None).to_pylist()}


@pytest.mark.parametrize("case", CASES["events"], ids=lambda case: case["name"])
@pytest.mark.parametrize("hashes", [False, True])
def test_no_place_of_an_event_keeps_a_credential(case: dict[str, Any], hashes: bool) -> None:
    before = raw(build(case))
    assert CANARY.encode() in before
    after = redactor(hashes).apply(before)
    assert CANARY.encode() not in after
    event = json.loads(after)
    assert ANNOTATION in event["annotations"]
    if hashes:
        return
    found = {
        **event["annotations"],
        "message": event.get("responseStatus", {}).get("message"),
        "requestURI": event.get("requestURI"),
    }
    assert {name: found[name] for name in case.get("keeps", {})} == case.get("keeps", {})


@pytest.mark.parametrize("case", CASES["events"], ids=lambda case: case["name"])
def test_the_order_of_fields_changes_nothing(case: dict[str, Any]) -> None:
    """An event in the API server's order may pass undecoded; one in another order is always decoded."""
    event = build(case)
    ordered, reversed_order = (
        json.loads(redactor().apply(raw(dict(fields)))) for fields in (event.items(), [*event.items()][::-1])
    )
    for found in (ordered, reversed_order):
        found["annotations"][ANNOTATION] = sorted(found["annotations"][ANNOTATION].split(","))
    assert ordered == reversed_order


def test_the_canaries_are_found_where_nothing_is_taken_out(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    (tmp_path / "audit.log").write_bytes(b"".join(raw(event) + b"\n" for event in EVENTS))
    ingest_files(lake, [tmp_path / "audit.log"], "c", 0.0)
    assert any(CANARY.encode() in data for path, data in contents(lake.path) if path.suffix == ".parquet")


def test_the_webhook_keeps_none(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    spool = Spool(lake.path / "spool")
    sink = Sink(spool, lake.path / "quarantine", redactor=redactor(), limits=SinkLimits(disk_free_bytes_min=0))
    body = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[%s]}' % b",".join([*map(raw, EVENTS), *ODD])
    assert sink.accept("c", body, 1.0) == Accepted(len(EVENTS) + 2, len(ODD) - 2)
    spool.seal()
    batches = [batch for path in sealed_segments(spool.directory) for batch in read_segment(path)]
    assert not any(CANARY.encode() in line for batch in batches if isinstance(batch, Batch) for line in batch.lines)
    assert_clean(lake.path)
    with lake.writer() as writer:
        assert drain(writer, spool.directory).stored == len(EVENTS)
    spool.close()
    assert_clean(lake.path)
    assert len(read_quarantine(lake.path / "quarantine")) == len(ODD)


def test_files_and_exports_keep_none(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    messages = [{"id": str(number), "timestamp": 1, "message": raw(event).decode()} for number, event in enumerate(EVENTS)]
    odd = [{"id": f"odd-{number}", "message": text.decode()} for number, text in enumerate(ODD)]
    eks = {"messageType": "DATA_MESSAGE", "logEvents": [*messages, *odd, {"message": {"secret": CANARY}}]}
    aks = {"records": [{"category": "kube-audit", "properties": {"log": raw(event).decode()}} for event in EVENTS]}
    files = {
        "audit.log": b"".join(line + b"\n" for line in [*map(raw, EVENTS), *ODD]),
        "eks.json": json.dumps(eks).encode(),
        "aks.json": json.dumps(aks).encode(),
        "gke.json": b"".join(raw(gke_entry(number, *entry)) + b"\n" for number, entry in enumerate(GKE)),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        # Each file is of another cluster, or its events would be known.
        counts = ingest_files(lake, [tmp_path / name], name.partition(".")[0], 0.0, redactor()).counts
        assert counts.stored == (len(GKE) if name == "gke.json" else len(EVENTS)), name
    assert_clean(lake.path)


GKE = [
    ("io.k8s.core.v1.secrets.create", "core/v1/namespaces/n/secrets/s", {"stringData": {"k": CANARY}}, "denied: " + CANARY),
    ("io.k8s.core.v1.secrets.create", "", {"kind": "Secret", "data": {"k": CANARY}}, ""),
    ("io.k8s.authentication.v1.tokenreviews.create", "", {"kind": "TokenReview", "spec": {"token": CANARY}}, ""),
    ("io.openshift.oauth.v1.oauthaccesstokens.delete", f"oauth.openshift.io/v1/oauthaccesstokens/sha256~{CANARY}", {}, ""),
    ("io.k8s.core.v1.pods.exec.create", "core/v1/namespaces/n/pods/p/exec", {"command": ["mysql", f"-p{CANARY}"]}, ""),
]


def gke_entry(number: int, method: str, name: str, body: dict[str, Any], message: str) -> dict[str, Any]:
    payload = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": "k8s.io",
        "methodName": method,
        "resourceName": name,
        "request": body,
        "response": body,
        "status": {"code": 7, "message": message},
    }
    labels = {"authorization.k8s.io/decision": "allow"}
    return {"insertId": f"g-{number}", "timestamp": "2026-11-01T00:00:00Z", "labels": labels, "protoPayload": payload}


def test_a_followed_log_keeps_none(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    log = tmp_path / "audit.log"
    log.write_bytes(b"".join(line + b"\n" for line in [*map(raw, EVENTS), *ODD]))
    stop = threading.Event()
    stop.set()
    summary = follow_files(lake, [str(log)], "c", lambda: 0.0, stop, redactor(), lambda summary, problem: None)
    assert summary.counts.stored == len(EVENTS)
    assert_clean(lake.path)


def test_a_snapshot_keeps_none(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    pod = {"containers": [{"env": [{"name": "a", "value": CANARY}]}]}
    manifest = {"kind": "Secret", "apiVersion": "v1", "data": {"k": CANARY}}
    objects = [
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"k": CANARY}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": pod},
        {"kind": "Work", "apiVersion": "work.example.com/v1", "metadata": {"name": "w"}, "spec": {"manifests": [manifest]}},
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    (tmp_path / "secrets.json").write_text(
        json.dumps({"kind": "SecretList", "apiVersion": "v1", "items": [{"metadata": {"name": "t"}, "data": {"k": CANARY}}]})
    )
    (tmp_path / "none.json").write_text(json.dumps({"kind": "SecretList", "apiVersion": "v1", "items": []}))
    summary = ingest_snapshot(lake, [tmp_path / "all.json", tmp_path / "secrets.json", tmp_path / "none.json"], "c", AT, redactor())
    assert summary.objects == 2
    assert [note.partition(": ")[2] for note in summary.notes] == [
        "1 object of kind Secret was not taken, as credentials; `--no-redact` takes them"
    ] * 2
    assert_clean(lake.path)
    kept = [row for path in lake.files("objects") for row in pq.read_table(path, partitioning=None).to_pylist()]
    # That there is no Secret at all is not a credential.
    assert sorted((row["kind"], row["name"]) for row in kept) == [("Pod", "p"), ("Secret", ""), ("Work", "w")]


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_event_is_withheld(odd: bytes) -> None:
    after = json.loads(redactor().apply(odd))
    assert list(after) == [ANNOTATION]
    assert "withheld: it may hold a credential" in after[ANNOTATION]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every text in an event that may come from its object."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))
    elif isinstance(value, str):
        yield path


SECRET_EVENT = build(
    {
        "of": "secrets",
        "event": {
            "requestObject": {"kind": "Secret", "metadata": {"labels": {"a": "b"}}, "data": {"k": "v"}, "l": [{"m": "n"}]},
            "responseObject": {"kind": "Secret", "data": {"k": "v"}},
            "responseStatus": {
                "message": "m",
                "reason": "r",
                "details": {"causes": [{"message": "m", "field": "f", "reason": "r"}]},
            },
            "annotations": {"patch.webhook.admission.k8s.io/round_0_index_0": "p", "p/k": "v"},
            "other": {"a": ["b"]},
        },
    }
)
PLACES = [
    place
    for place in _places(SECRET_EVENT)
    if place[0] in ("requestObject", "responseObject", "responseStatus", "annotations", "other")
    and not str(place[-1]).startswith("authorization.k8s.io/")
]
WORDS = [
    "",
    " ",
    "\n",
    "'",
    '"',
    "\\",
    "forbidden: ",
    "ValidatingAdmissionPolicy 'p' denied request: ",
    "' resulted in error: ",
    "é",
    "{",
]


@settings(max_examples=MANY, deadline=None)
@given(st.sampled_from(PLACES), st.lists(st.sampled_from(WORDS), max_size=4), st.lists(st.sampled_from(WORDS), max_size=4))
def test_no_byte_of_a_secret_is_kept_wherever_it_stands(place: tuple[Any, ...], before: list[str], after: list[str]) -> None:
    event = json.loads(json.dumps(SECRET_EVENT))
    target = event
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = "".join((*before, CANARY, *after))
    assert CANARY.encode() not in redactor().apply(raw(event))


# Credentials by their form, in the places of an event and next to the words that its fields begin or end with.
SHAPES = [
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2ln",
    "Bearer abcdefgh12345678",
    "bASIC am86cHc=",
    "ghp_" + "a1" * 12,
    "glpat-" + "a1" * 10,
    "xoxb-" + "1" * 12,
    "hvs." + "a1" * 12,
    "ya29." + "a1" * 12,
    "https://jo:pw12@host/x",
    "-----BEGIN PRIVATE KEY-----",
    '{"kind":"Secret","data":{"k":"v"}}',
    '{"kind": "SecretList", "items": [{"data": {"k": "v"}}]}',
    "?token=a&b=c",
    "/secrets/a",
]
BASES = [build(case, number) for number, case in enumerate([*CASES["events"], {"of": "deployments", "event": {}}])]
ANYWHERE = ["user", "impersonatedUser", "userAgent", "sourceIPs", "other", "\\", '"', "</>&", "é", "", "s3cret"]


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """An event in the API server's order, made of fields of several cases, with a credential at any text in it."""
    event = json.loads(json.dumps(draw(st.sampled_from(BASES))))
    for name in draw(st.lists(st.sampled_from(list(event)), max_size=3, unique=True)):
        other = draw(st.sampled_from(BASES))
        if name in other:
            event[name] = json.loads(json.dumps(other[name]))
        elif draw(st.booleans()):
            del event[name]
    if draw(st.booleans()):
        event[draw(st.sampled_from(ANYWHERE))] = draw(
            st.sampled_from([{"username": "jo", "extra": {"a/token": ["x"]}}, "x", ["x"]])
        )
    for place in draw(st.lists(st.sampled_from([*_places(event)]), max_size=2)):
        target = event
        for step in place[:-1]:
            target = target[step]
        words = draw(st.lists(st.sampled_from([*SHAPES, *ANYWHERE]), max_size=2))
        target[place[-1]] = "".join((*words, target[place[-1]] if draw(st.booleans()) else ""))
    line = raw(event) if draw(st.booleans()) else json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    # As Go's encoding/json does it.
    return line.replace(b"&", b"\\u0026").replace(b"<", b"\\u003c").replace(b">", b"\\u003e")


@settings(max_examples=MANY, deadline=None)
@given(st.lists(events(), min_size=1, max_size=4))
def test_nothing_that_would_change_passes_undecoded(lines: list[bytes]) -> None:
    """One redactor takes them all, because it remembers parts of those before."""
    for one in (redactor(), Redactor()):
        for line in lines:
            if one.apply(line) is line:
                assert one._apply_slowly(line) == line


def test_no_recorded_event_that_would_change_passes_undecoded() -> None:
    log = zstandard.ZstdDecompressor().decompressobj().decompress(DEMO_LOG.read_bytes())
    lines = log.splitlines()[::4]
    one = Redactor()
    passed = [line for line in lines if not one._needs_a_look(line)]
    assert len(passed) > 0.95 * len(lines)
    assert all(one._apply_slowly(line) == line for line in passed)


# Wordings of kubernetes/apiserver and kubernetes/apimachinery, for each rule of queries/reach_rules.py.
MESSAGES = [
    "",
    "Unauthorized",
    "Connection closed early",
    'secrets "s" already exists',
    'secrets "s" not found',
    'namespaces "n" not found',
    'secrets "s" is forbidden: User "system:node:a" cannot create resource "secrets" in API group "" in the namespace "n"',
    'secrets "s" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1',
    'secrets "s" is forbidden: not yet ready to handle request',
    'secrets "s" is forbidden: unable to create new content in namespace n because it is being terminated',
    "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: expression 'x' resulted in error: y",
    "policy 'p' with binding 'b' denied request: no",
    'admission webhook "v.example.com" denied the request: no',
    'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: Post "https://x": EOF',
    'Operation cannot be fulfilled on secrets "s": the object has been modified; please apply your changes to the latest version '
    "and try again",
    'Operation cannot be fulfilled on secrets "s": the UID in the precondition (a) does not match the UID in record (b)',
    'Apply failed with 1 conflict: conflict with "a": .data.k',
    "failed to create typed patch object (n/s; /v1, Kind=Secret): .x: field not declared in schema",
    'Secret "s" is invalid: data[k]: Invalid value: "v": bad',
    'pods "p" not found',
    'secrets "s" is forbidden: status unknown for quota: q, resources: count/secrets',
    ' "" is invalid: patch: Invalid value: "map[data:map[a:b]]": strict decoding error: unknown field "x"',
    "the server rejected our request due to an error in our request",
    "the server could not find the requested resource",
    'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Required value',
    "failed to create manager for existing fields: x",
    "secrets \"s\" is forbidden: expression 'object.data.k' resulted in error: no such key: k",
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("code", [200, 400, 403, 404, 409, 422, 500])
def test_how_far_a_request_came_is_told_from_what_is_left(message: str, code: int) -> None:
    case = {"of": "secrets", "event": {"responseStatus": {"code": code, "message": message, "reason": "Forbidden"}}}
    before = raw(build(case))
    outcomes = [outcome_of(Event.from_row(row_of(line))) for line in (before, Redactor().apply(before))]
    assert outcomes[0] == outcomes[1]


def test_only_what_is_missing_of_a_request_is_flagged() -> None:
    """A replay is careful with a flagged event; a failure without its text settles a verdict as before."""
    failure = {"validation.policy.admission.k8s.io/validation_failure": '[{"message":"m","policy":"p","expressionIndex":0}]'}
    texts = {"of": "secrets", "event": {"annotations": failure}}
    bodies = {"of": "secrets", "event": {"requestObject": {"kind": "Secret"}}}
    rows = [row_of(Redactor().apply(raw(build(case)))) for case in (texts, bodies)]
    assert [row["flags"] for row in rows] == [[], ["redacted"]]
    assert rows[0]["vap_failures"][0] | {"message": "m"} == row_of(raw(build(texts)))["vap_failures"][0]


def row_of(line: bytes) -> dict[str, Any]:
    (row,) = decode_events([line], "c", AT, "webhook").table.to_pylist()
    return dict(row)
