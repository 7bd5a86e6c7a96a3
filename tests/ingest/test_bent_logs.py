"""Logs that shippers, stores and crashes changed: ingest reads what it can, and the quarantine holds the rest with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.quarantine import quarantine_files, read_records
from ingest.sources.files import ingest_files
from ingest.sources.rotated import WITHOUT_BEGINNING
from tests.recording import START, deployment, recorded

Ids = Callable[[Lake], list[str]]


def events(count: int = 3) -> list[bytes]:
    told = (recorded(f"id-{number}", START, "create", deployment(f"web-{number}", 1)) for number in range(count))
    return [json.dumps(each, separators=(",", ":")).encode() for each in told]


def refused(lake: Lake) -> list[str]:
    return [record.reason for file in quarantine_files(lake.path / "quarantine") for record in read_records(file)]


def take(lake: Lake, folder: Path, files: dict[str, bytes]) -> list[str]:
    """Ingest files of a folder; returns the notes on them."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [file.note for file in ingest_files(lake, [folder], "c", 0.0).files]


@pytest.mark.parametrize("cut", [60, 200, 400, -30, -1])
@pytest.mark.parametrize(
    ("prefix", "between"),
    [(b"", b""), (b"", b"\0" * 4096), (b"", b" "), (b"2026-01-01T00:00:00Z host kube-apiserver: ", b"")],
)
def test_an_event_that_was_cut_is_lost_with_a_reason(
    lake: Lake, ids: Ids, tmp_path: Path, cut: int, between: bytes, prefix: bytes
) -> None:
    first, torn, whole = events()
    line = prefix + torn[:cut] + between + prefix + whole
    take(lake, tmp_path, {"audit.log": b"\n".join([prefix + first, line, b""])})
    assert ids(lake) == ["id-0", "id-2"]
    (reason,) = refused(lake)
    assert "no JSON" in reason


def test_a_whole_event_after_another_one_loses_nothing(lake: Lake, ids: Ids, tmp_path: Path) -> None:
    take(lake, tmp_path, {"audit.log": b"".join(events()) + b"\n"})
    assert ids(lake) == ["id-0", "id-1", "id-2"]
    assert refused(lake) == []


@pytest.mark.parametrize("size_bytes", [8, 4096, 3 << 20])
def test_nuls_before_the_first_event_are_passed_over(lake: Lake, ids: Ids, tmp_path: Path, size_bytes: int) -> None:
    log = b"\0" * size_bytes + b"\n".join([*events(2), b""])
    assert take(lake, tmp_path, {"audit.log": log}) == [""]
    take(lake, tmp_path, {"audit.log": log + events()[2] + b"\n"})
    assert ids(lake) == ["id-0", "id-1", "id-2"]


def cri(text: bytes, tag: bytes = b"F") -> bytes:
    return b"2026-01-01T00:00:00.000000001Z stdout " + tag + b" " + text + b"\n"


def docker(text: bytes, tag: bytes = b"F") -> bytes:
    told = text.decode() + ("\n" if tag == b"F" else "")
    return json.dumps({"log": told, "stream": "stdout", "time": "2026-01-01T00:00:00Z"}).encode() + b"\n"


@pytest.mark.parametrize("record", [cri, docker])
@pytest.mark.parametrize("names", [("0.log.20260101-000000", "0.log"), ("a.log", "b.log")])
@pytest.mark.parametrize("cut", [100, -60])
def test_an_event_that_rotation_cut_is_put_together(
    lake: Lake, ids: Ids, tmp_path: Path, record: Callable[..., bytes], names: Sequence[str], cut: int
) -> None:
    first, torn, last = events()
    earlier = record(first) + record(torn[:cut], b"P")
    later = record(torn[cut:]) + record(last)
    for _ in range(2):  # a second ingest adds nothing
        notes = take(lake, tmp_path, dict(zip(names, (earlier, later), strict=True)))
        assert ids(lake) == ["id-0", "id-1", "id-2"]
        assert refused(lake) == []
        assert all("reading stopped" not in note for note in notes)


@pytest.mark.parametrize("record", [cri, docker])
def test_the_end_of_an_event_alone_is_lost_with_a_reason(
    lake: Lake, ids: Ids, tmp_path: Path, record: Callable[..., bytes]
) -> None:
    first, torn, last = events()
    take(lake, tmp_path, {"x/a.log": record(first) + record(torn[:100], b"P"), "y/b.log": record(torn[100:]) + record(last)})
    assert ids(lake) == ["id-0", "id-2"]  # two folders are two containers
    (reason,) = refused(lake)
    assert WITHOUT_BEGINNING in reason


@pytest.mark.parametrize("is_indented", [False, True])
def test_the_names_of_go_are_those_of_an_event(lake: Lake, tmp_path: Path, is_indented: bool, rows: Callable[[Lake], Any]) -> None:
    told = {
        "Level": "Metadata",
        "AuditID": "go-1",
        "Stage": "ResponseComplete",
        "RequestURI": "/api/v1/namespaces/orchard/pods",
        "Verb": "create",
        "User": {"Username": "wren", "UID": "", "Groups": ["system:authenticated"], "Extra": None},
        "ImpersonatedUser": None,
        "ObjectRef": {"Resource": "pods", "Namespace": "orchard", "Name": "alpha", "APIGroup": "", "APIVersion": "v1"},
        "ResponseStatus": {"metadata": {}, "Code": 201},
        "RequestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
        "StageTimestamp": "2026-01-01T00:00:00.000002Z",
        "Annotations": {"authorization.k8s.io/decision": "allow"},
    }
    take(lake, tmp_path, {"audit.json": json.dumps({"Items": [told]}, indent=2 if is_indented else None).encode()})
    (row,) = rows(lake)
    assert (row["user_name"], row["user_groups"], row["code"]) == ("wren", ["system:authenticated"], 201)
    assert [row[name] for name in ("resource", "namespace", "name", "api_group")] == ["pods", "orchard", "alpha", ""]


def test_bodies_may_be_json_in_texts(lake: Lake, tmp_path: Path, rows: Callable[[Lake], Any]) -> None:
    event = json.loads(events(1)[0])
    bodies = {name: json.dumps(event[name]) for name in ("requestObject", "responseObject")}
    odd = json.loads(events(2)[1]) | {"responseObject": "not json", "requestObject": "{"}
    take(lake, tmp_path, {"audit.log": b"".join(json.dumps(each).encode() + b"\n" for each in (event | bodies, odd))})
    whole, broken = rows(lake)
    assert (whole["request_object"], whole["response_object"]) == (bodies["requestObject"], bodies["responseObject"])
    assert (broken["request_object"], broken["response_object"]) == ('"{"', '"not json"')


def test_an_event_of_an_unknown_version_is_refused(lake: Lake, ids: Ids, tmp_path: Path) -> None:
    odd = events()[1].replace(b'"audit.k8s.io/v1"', b'"audit.k8s.io/v9"')
    take(lake, tmp_path, {"audit.log": b"\n".join([events()[0], odd, b""])})
    assert ids(lake) == ["id-0"]
    assert "an event of audit.k8s.io/v9, which this version does not know" in refused(lake)[0]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_an_event_without_an_audit_id_gets_one(lake: Lake, ids: Ids, tmp_path: Path, separators: tuple[str, str]) -> None:
    odd = {name: value for name, value in json.loads(events()[1]).items() if name != "auditID"}
    for _ in range(2):
        take(lake, tmp_path, {"audit.log": b"\n".join([events()[0], json.dumps(odd, separators=separators).encode(), b""])})
    assert [each.partition("-")[0] for each in ids(lake)] == ["content", "id"]
    assert refused(lake) == []
