"""Exports of managed clusters give the events that kube-apiserver wrote, and say what they do not know."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode import decode_events
from ingest.lake import Lake
from ingest.notes import PREFIX, TRANSLATED
from ingest.sources.envelopes import expand, looks_complete
from ingest.sources.exports import Found, joined
from ingest.sources.files import ingest_files
from ingest.sources.forms import form_of
from tests.ingest.reading import values_of
from tests.yaml_text import load_yaml

# How a line carries the note.
ANNOTATION = PREFIX + TRANSLATED

CASES = Path(__file__).parents[1] / "cases/ingest"
EXPORTS = CASES / "exports"
RECORDED = (EXPORTS / "recorded.jsonl").read_bytes().splitlines()
BY_ID = {json.loads(line)["auditID"]: json.loads(line) for line in RECORDED}


def read(name: str) -> Found:
    return joined(map(expand, values_of((EXPORTS / name).read_bytes())))


@pytest.mark.parametrize("case", load_yaml((CASES / "exports.yaml").read_text()), ids=lambda case: case["file"])
def test_the_events_of_an_export(case: dict[str, Any]) -> None:
    form = form_of((EXPORTS / case["file"]).read_bytes())
    assert form is not None
    assert form.name == case["layout"]
    found = read(case["file"])
    wanted = [RECORDED[number] for number in case["events"]]
    assert list(map(json.loads, found.events)) == list(map(json.loads, wanted))
    if case.get("bytes", True):
        assert found.events == wanted
    assert found.passed_over == case.get("passed_over", 0)


def test_all_exports_of_a_folder_are_the_same_events(lake: Lake, tmp_path: Path, ids: Callable[[Lake], list[str]]) -> None:
    for file in EXPORTS.iterdir():
        if file.name.startswith(("eks-", "aks-storage", "aks-event")):
            shutil.copy(file, tmp_path / file.name.removesuffix(".txt"))
    summary = ingest_files(lake, [tmp_path], "c", 0.0)
    assert ids(lake) == sorted(json.loads(line)["auditID"] for line in RECORDED[:5])
    assert summary.counts.quarantined == summary.counts.conflicting == 0
    assert sum(file.passed_over for file in summary.files) == 6


@pytest.mark.parametrize(("value", "is_dry_run"), [("true", True), ("All", True), ("", False), (None, False)])
def test_gke_marks_dry_runs(value: str | None, is_dry_run: bool) -> None:
    entry = json.loads((EXPORTS / "gke-gcloud.json").read_bytes())[0]
    if value is not None:
        entry["labels"]["command.gke.io/dryRun"] = value
    (event,) = expand(json.dumps(entry).encode()).events
    (row,) = decode_events([event], "c", NOW, "f").table.to_pylist()
    assert ("dry-run" in dict(row["notes"])) is is_dry_run


def test_a_message_that_was_cut_costs_only_itself() -> None:
    group = json.loads((EXPORTS / "eks-subscription.jsonl").read_bytes().splitlines()[1])
    group["logEvents"][1]["message"] = group["logEvents"][1]["message"][:300]
    group["logEvents"].append({"id": "no message"})
    found = expand(json.dumps(group).encode())
    assert [found.events[0], found.events[2]] == [RECORDED[0], RECORDED[2]]
    assert len(decode_events(found.events, "c", NOW, "f").rejected) == 2


def test_a_body_that_was_too_large_for_azure_is_a_truncated_event() -> None:
    (row,) = decode_events(read("aks-too-big.json").events, "c", NOW, "f").table.to_pylist()
    assert row["response_object"] is None
    assert row["request_object"] is not None
    assert row["flags"] == ["truncated"]


NOW = datetime(2026, 11, 21, tzinfo=UTC)
SAME = ("level", "stage", "verb", "objectRef", "userAgent", "requestObject", "responseObject", "requestReceivedTimestamp")


@pytest.mark.parametrize(("name", "passed_over"), [("gke-sink.json", 1), ("gke-gcloud.json", 0)])
def test_an_entry_of_gke_says_what_the_event_said(name: str, passed_over: int) -> None:
    found = read(name)
    assert found.passed_over == passed_over
    assert len(found.events) == (8 if passed_over else 3)
    for translated in map(json.loads, found.events):
        recorded = BY_ID[translated["auditID"]]
        assert {key: translated.get(key) for key in SAME} == {key: recorded.get(key) for key in SAME}
        assert translated["user"] == {"username": recorded["user"]["username"]}
        assert translated["sourceIPs"] == recorded["sourceIPs"][:1]
        assert translated["annotations"].items() > recorded["annotations"].items()
        assert "requestURI" not in translated
        said, was = translated["responseStatus"], recorded["responseStatus"]
        if said["code"] != was["code"]:
            # Only a success is told less exactly: the entry knows no difference between 200 and 201.
            assert (said["code"], was["code"]) == (200, 201)
        is_status = "code" in recorded.get("responseObject", {})
        assert ("google.rpc.Code" in translated["annotations"][ANNOTATION]) is not is_status
        assert said.get("message") == was.get("message")


@pytest.mark.parametrize(
    ("method", "name", "verb", "reference"),
    [
        ("io.k8s.core.v1.pods.exec.create", "core/v1/namespaces/a/pods/b/exec", "create", "v1//pods/exec a/b"),
        ("io.k8s.core.v1.nodes.proxy.get", "core/v1/nodes/n/proxy/metrics/cadvisor", "get", "v1//nodes/proxy /n"),
        (
            "io.k8s.authorization.rbac.v1.roles.list",
            "rbac.authorization.k8s.io/v1/namespaces/a/roles",
            "list",
            "v1/rbac.authorization.k8s.io/roles/ a/",
        ),
        ("io.k8s.core.v1.namespaces.finalize.update", "core/v1/namespaces/a/finalize", "update", "v1//namespaces/finalize a/a"),
        ("io.k8s.core.v1.namespaces.create", "core/v1/namespaces/a", "create", "v1//namespaces/ /a"),
        (
            "com.example.shop.v1beta1.widgets.delete",
            "shop.example.com/v1beta1/namespaces/a/widgets/w",
            "delete",
            "v1beta1/shop.example.com/widgets/ a/w",
        ),
        ("io.k8s.get", "healthz", "get", None),
        ("get", "", "get", None),
    ],
)
def test_the_names_of_gke(method: str, name: str, verb: str, reference: str | None) -> None:
    payload = {"serviceName": "k8s.io", "methodName": method, "resourceName": name}
    entry = {"insertId": "1", "timestamp": "2026-11-21T03:24:16Z", "protoPayload": payload}
    (event,) = map(json.loads, expand(json.dumps(entry).encode()).events)
    ref = event.get("objectRef")
    told = ref and (
        f"{ref['apiVersion']}/{ref.get('apiGroup', '')}/{ref['resource']}/{ref.get('subresource', '')}"
        f" {ref.get('namespace', '')}/{ref.get('name', '')}"
    )
    assert (event["verb"], told) == (verb, reference)
    assert event["level"] == "Metadata"


def test_rows_of_gke_are_flagged() -> None:
    table = decode_events(read("gke-sink.json").events, "c", NOW, "f").table
    assert {tuple(flags) for flags in table["flags"].to_pylist()} == {("translated",)}
    assert json.loads(table["extra"][0].as_py())["logEntry"]["resource"]["labels"]["cluster_name"] == "lab"


@given(st.lists(st.sampled_from(RECORDED), min_size=1, max_size=5), st.sampled_from([b"", b" ", b"\r"]))
def test_events_without_newlines_are_told_apart(events: list[bytes], between: bytes) -> None:
    value = between.join(events)
    assert [event.strip() for event in expand(value).events] == events
    assert looks_complete(value)
    assert not looks_complete(value[:-1])


@given(st.lists(st.sampled_from([*RECORDED, b'{"a":"}{"}', b"{}"]), min_size=1, max_size=5))
def test_values_without_anything_between_are_told_apart(values: list[bytes]) -> None:
    assert expand(b"".join(values)).events == values


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,logEvntsrcdpi ').map(str.encode))
def test_expand_takes_anything(value: bytes) -> None:
    expand(value)
    form_of(value)
