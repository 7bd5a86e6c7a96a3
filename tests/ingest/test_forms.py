"""Audit events come out of every form in which people keep them, and are equal to those of the plain log."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources.compressed import DamagedError, blocks
from ingest.sources.encodings import utf8
from ingest.sources.envelopes import expand
from ingest.sources.files import IngestSummary, ingest_files
from ingest.sources.forms import form_of
from ingest.sources.yaml_events import yaml_lines
from tests.drawing import MANY

from .form_writers import WRITERS

LINES = (Path(__file__).parents[1] / "cases/ingest/exports/recorded.jsonl").read_bytes().splitlines()
# Columns that a form may spell otherwise: where the event came from, and the text of bodies.
_BODIES = ("request_object", "response_object", "user_extra", "impersonated_user")
_OURS = ("ingest_ts", "ingest_source", "cluster", "extra", "flags")


def _read(lake: Lake, path: Path, data: bytes) -> IngestSummary:
    path.write_bytes(data)
    return ingest_files(lake, [path], "", 0.0)


def _rows(lake: Lake) -> list[dict[str, Any]]:
    tables = [pq.read_table(lake.path / file.path, partitioning=None) for file in lake.manifest.files("events")]
    rows = sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: (row["audit_id"], row["stage"]))
    for row in rows:
        for name in _BODIES:
            row[name] = row[name] and json.loads(row[name])
        row["annotations"] = sorted(row["annotations"] or ())
    return [{name: value for name, value in row.items() if name not in _OURS} for row in rows]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("plain")
    lake = Lake.create(folder / "lake")
    try:
        _read(lake, folder / "audit.log", b"\n".join(LINES) + b"\n")
        return _rows(lake)
    finally:
        lake.close()


@pytest.mark.parametrize("name", WRITERS)
def test_a_form_is_read_whole(name: str, lake: Lake, tmp_path: Path, wanted: list[dict[str, Any]]) -> None:
    summary = _read(lake, tmp_path / "file", WRITERS[name](LINES))
    assert summary.counts.quarantined == 0, summary.counts.refusals
    assert [file.note for file in summary.files] == [""] * len(summary.files)
    assert _rows(lake) == wanted


def test_an_envelope_names_the_cluster_unless_the_user_does(lake: Lake, tmp_path: Path) -> None:
    for name, cluster in (("EKS subscription", "prod-1"), ("AKS, Event Hub", "prod-2"), ("Vector", "default")):
        path = tmp_path / "file"
        path.write_bytes(WRITERS[name](LINES[:1]))
        ingest_files(lake, [path], "", 0.0)
        assert lake.manifest.files("events", cluster)
    ingest_files(lake, [path], "mine", 0.0)
    assert {file.cluster for file in lake.manifest.files("events")} == {"prod-1", "prod-2", "default", "mine"}


def test_a_cut_event_in_a_record_is_kept_in_quarantine_and_another_log_is_not(lake: Lake, tmp_path: Path) -> None:
    whole, cut, other = LINES[0].decode(), LINES[1].decode()[:200], "starting the server"
    records = [{"@timestamp": "x", "message": text} for text in (whole, cut, other)]
    summary = _read(lake, tmp_path / "file", "".join(json.dumps(record) + "\n" for record in records).encode())
    assert (summary.counts.stored, summary.counts.quarantined, summary.files[0].passed_over) == (1, 1, 1)


@pytest.mark.parametrize(
    ("zone", "wanted"), [("UTC", "2022-11-29T00:09:04.380000Z"), ("Europe/Berlin", "2022-11-28T23:09:04.380000Z"), ("", None)]
)
def test_times_without_a_zone_are_read_in_the_given_one(zone: str, wanted: str | None, lake: Lake, tmp_path: Path) -> None:
    header, row = "auditId,stage,verb,requestUri,stageTimestamp", "1,ResponseComplete,get,/api,2022-11-29 00:09:04.38"
    (tmp_path / "file").write_text(f"{header}\n{row}\n")
    summary = ingest_files(lake, [tmp_path / "file"], "", 0.0, zone=ZoneInfo(zone) if zone else None)
    if wanted is None:
        assert "has no zone; give --zone" in summary.counts.refusals.commonest()
    else:
        assert [row["stage_ts"] for row in _rows(lake)] == [datetime.fromisoformat(wanted)]


def test_a_row_without_an_audit_id_has_the_identity_of_its_content(lake: Lake, tmp_path: Path) -> None:
    row = {
        "verb": "delete",
        "user.username": "ann",
        "objectRef.resource": "pods",
        "objectRef.name": "web",
        "responseStatus.code": "200",
    }
    rows = [row | {"stageTimestamp": f"2026-11-21T03:24:1{number}Z"} for number in (1, 2, 2)]
    for name in ("a", "b"):
        _read(lake, tmp_path / name, "".join(json.dumps(row) + "\n" for row in rows).encode())
    found = _rows(lake)
    assert len({row["audit_id"] for row in found}) == len(found) == 2
    assert all("auditID=content" in dict(row["notes"])["translated"] for row in found)
    assert {(row["user_name"], row["resource"], row["name"], row["code"]) for row in found} == {("ann", "pods", "web", 200)}


def test_a_body_in_columns_is_left_out_and_noted(lake: Lake, tmp_path: Path) -> None:
    """Labels have dots, so `labels.app.kubernetes.io/name` may be one key or four: such a body cannot be put together."""
    event = json.loads(next(line for line in LINES if b"requestObject" in line))
    bodies = [(field, event.pop(field)) for field in ("requestObject", "responseObject")]
    columns = {f"{field}.{name}": json.dumps(value) for field, body in bodies for name, value in body.items()}
    _read(lake, tmp_path / "file", json.dumps(event | columns).encode() + b"\n")
    (row,) = _rows(lake)
    assert (row["audit_id"], row["level"], row["request_object"]) == (event["auditID"], "Metadata", None)
    assert "requestObject=columns" in dict(row["notes"])["translated"]


def test_annotations_in_columns_keep_their_names(lake: Lake, tmp_path: Path) -> None:
    event = json.loads(LINES[0])
    marks = event.pop("annotations")
    flat = {f"annotations.{name.replace('.', '_')}": [value] for name, value in marks.items()}
    _read(lake, tmp_path / "file", json.dumps(event | flat).encode() + b"\n")
    assert dict(_rows(lake)[0]["annotations"]) == marks


def test_a_form_that_is_given_overrides_the_one_that_is_found(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no header of a table\n" + b"x\n")
    with pytest.raises(InputError, match="wanted audit events"):
        ingest_files(lake, [tmp_path / "file"], "", 0.0)
    assert ingest_files(lake, [tmp_path / "file"], "", 0.0, form="lines").counts.quarantined == 2


@given(st.sampled_from(sorted(WRITERS)), st.data())
@settings(max_examples=60)
def test_values_do_not_depend_on_where_blocks_end(name: str, data: st.DataObject) -> None:
    content = b"".join(utf8(blocks(io.BytesIO(WRITERS[name](LINES[:3])))))
    form = form_of(content)
    if form is None or form.translate is None:
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    parts = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    assert b"".join(form.translate(content)("FILE", iter(parts))) == b"".join(form.translate(content)("FILE", iter([content])))


@given(st.sampled_from(sorted(WRITERS)), st.integers(0, 10_000), st.binary(max_size=8))
@settings(max_examples=MANY)
def test_damage_ends_no_reading(name: str, at: int, junk: bytes) -> None:
    content = WRITERS[name](LINES[:3])
    content = content[: at % len(content)] + junk + content[at % len(content) + len(junk) :]
    with suppress(DamagedError, InputError):
        plain = b"".join(utf8(blocks(io.BytesIO(content))))
        if (form := form_of(plain)) is not None:
            lines = plain if form.translate is None else b"".join(form.translate(plain)("FILE", iter([plain])))
            for line in lines.split(b"\n"):
                expand(line)


def test_a_document_that_was_cut_between_two_events_is_noted(lake: Lake, tmp_path: Path) -> None:
    content = WRITERS["a printed EventList"](LINES)
    cut = content[: content.index(b"\n    },\n", len(content) // 2) + len(b"\n    },\n")]
    summary = _read(lake, tmp_path / "file", cut)
    assert 0 < summary.counts.stored < len(LINES)
    assert "breaks off" in summary.files[0].note


@pytest.mark.parametrize("shape", ["documents", "list", "EventList"])
@pytest.mark.parametrize("sorts", [False, True])
def test_a_cut_yaml_event_is_no_shorter_event(shape: str, sorts: bool) -> None:
    """Cut at any byte: without a note, each event is whole. Only Go's order ends with annotations, which may be fewer."""
    events = [json.loads(line) for line in LINES if b"requestObject" not in line][:2]
    whole: Any = {"items": events, "kind": "EventList"} if shape == "EventList" else events
    text = (yaml.safe_dump_all if shape == "documents" else yaml.safe_dump)(whole, sort_keys=sorts).encode()
    for end in range(text.index(events[1]["auditID"].encode()), len(text)):
        read: list[Any] = []
        with suppress(DamagedError):
            read += (json.loads(line) for line in yaml_lines("FILE", [text[:end]]))
            found = [each for value in read for each in (value if isinstance(value, list) else [value]) if "auditID" in each]
            if not sorts and len(found) == 2:
                found[1]["annotations"] = events[1]["annotations"]
            assert found in (events[:1], events), end


def test_an_array_larger_than_a_line_is_read_item_by_item() -> None:
    item = b'{"auditID":"%d","stage":"ResponseComplete","x":"' + b"x" * 1000 + b'"}'
    parts = [
        b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[',
        *(item % number + b"," for number in range(3000)),
        b"{}]}",
    ]
    probe = b"".join(parts[:1500])
    form = form_of(probe)
    assert form is not None
    assert form.translate is not None
    sizes = [len(block) for block in form.translate(probe)("FILE", iter(parts))]
    assert len(sizes) > 2900
    assert max(sizes) < 3000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "auditID: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"c{n}: &c{n} [*{'b' if not n else f'c{n - 1}'}]\n" for n in range(3)),
            "",
        ),
        (
            "auditID: &a0 [" + "x, " * 50 + "]\n" + "".join(f"a{n}: &a{n} [" + f"*a{n - 1}, " * 50 + "]\n" for n in range(1, 7)),
            "stands for",
        ),
        ("auditID: " + "[" * 300 + "]" * 300 + "\n", "nested deeper"),
        ("auditID: 1\nstage: [\n", "is not YAML"),
        ("auditID: 2026-99-99\nstage: .nan\n", ""),
    ],
)
def test_odd_yaml_is_damage_or_a_record(text: str, reason: str, lake: Lake, tmp_path: Path) -> None:
    (summary,) = _read(lake, tmp_path / "file", text.encode()).files
    assert reason in summary.note
    assert bool(summary.note) == bool(reason)
