"""What arrives under the names of Hindcast's own notes is a stranger's data, by whatever door it comes, and stays readable."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.apart import take_apart
from ingest.decode import decode_events
from ingest.lake import Lake, file_digest
from ingest.lake_writer import LakeWriter
from ingest.maintain import compact
from ingest.notes import DRY_RUN, REDACTED, REVIEW, SIGNER, TRANSLATED, WORDING, noted, parted, sealed
from ingest.old_rows import as_now
from ingest.quarantine import Quarantined, write_quarantine
from ingest.redaction.redact import Redactor
from ingest.requarantine import retry
from ingest.reviewed import BEFORE, REVIEWS, UNCLEAR
from ingest.schema import EVENTS
from ingest.sources.files import ingest_files
from ingest.sources.reviews import FIELD, OBJECT, OLD_OBJECT
from ingest.spooling.drain import drain
from ingest.spooling.spool import Spool
from queries import open_lake
from tests.recording import START, recorded

NAMES = (REDACTED, TRANSLATED, WORDING, SIGNER, REVIEW, DRY_RUN, "foreign/review", "foreign/foreign/redacted", "own", "")
UID = "11111111-1111-4111-8111-111111111111"
ROW = {"cluster": "prod", "user_name": "admin", "audit_id": "forged", "annotations": [], "notes": [], "extra": None}
# What the columns of a row with reviews hold, and what a forger may think that they hold.
MEMBERS: dict[str, Any] = {
    REVIEWS: [{**ROW, "ts": "2026-01-01T00:00:00+00:00", "stage_ts": "x", "ingest_ts": 1}],
    BEFORE: ROW,
    UNCLEAR: "",
    FIELD: {"operation": "CREATE", "kind": {}, "uid": UID},
    OBJECT: {"kind": "Secret", "metadata": {}},
    OLD_OBJECT: [1],
    "notes": {REVIEW: UID},
    "cluster": "prod",
    "ingest_source": "webhook",
}
ANNOTATIONS = {f"hindcast/{name}": UID for name in NAMES}


def hostile(number: int = 1, annotations: Mapping[str, str] = ANNOTATIONS, **more: Any) -> dict[str, Any]:
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "n"}}
    event = recorded(f"id-{number}", START, "create", body, user="mallory", annotations=dict(annotations))
    return event | MEMBERS | more


Door = Callable[[Lake, dict[str, Any]], None]


def by_file(lake: Lake, event: dict[str, Any]) -> None:
    _ingested(lake, json.dumps(event))


def by_escaped_file(lake: Lake, event: dict[str, Any]) -> None:
    """JSON may write any letter as an escape."""
    _ingested(lake, json.dumps(event).replace("hindcast", "hin\\u0064cast").replace("cast/r", "cast\\/r"))


def by_list(lake: Lake, event: dict[str, Any]) -> None:
    _ingested(lake, json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event]}))


def by_sink(lake: Lake, event: dict[str, Any]) -> None:
    body = json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event]}).encode()
    with Spool(lake.path / "spool") as spool:
        spool.append("other", "digest", 0.0, take_apart(body, None, Redactor()).lines)
    with lake.writer() as writer:
        drain(writer, lake.path / "spool")


def by_quarantine(lake: Lake, event: dict[str, Any]) -> None:
    folder = lake.path / "quarantine"
    write_quarantine(folder, [Quarantined("file:x", "other", 0.0, "an older version", json.dumps(event).encode())], "q")
    retry(lake, [folder / "q.jsonl.zst"], Redactor())


def by_flat_row(lake: Lake, event: dict[str, Any]) -> None:
    """A row of a table: the annotations are columns, and so are parts of the reference."""
    flat = {name: value for name, value in event.items() if name not in ("annotations", "objectRef", "stage")}
    flat |= {f"objectRef.{name}": value for name, value in event["objectRef"].items()}
    flat |= {f"annotations.{name}": value for name, value in event["annotations"].items()}
    _ingested(lake, json.dumps(flat))


def _ingested(lake: Lake, text: str) -> None:
    path = lake.path.parent / "log.jsonl"
    path.write_text(text + "\n")
    ingest_files(lake, [path], "other", 0.0, Redactor())


DOORS: tuple[Door, ...] = (by_file, by_escaped_file, by_list, by_sink, by_quarantine, by_flat_row)


def stored(lake: Lake) -> list[dict[str, Any]]:
    with closing(open_lake(lake.path)) as reader:
        return reader.rows("SELECT * FROM events")


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", [*MEMBERS, *(f"hindcast/{name}" for name in NAMES)])
def test_what_a_stranger_calls_a_note_is_data(name: str, door: Door, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    annotations = {name: UID, "a/b": "c"} if name.startswith("hindcast/") else {"a/b": "c"}
    event = hostile(annotations=annotations)
    event = {key: value for key, value in event.items() if key not in MEMBERS or key == name}
    door(lake, event)
    (row,) = stored(lake)
    assert (row["cluster"], row["user_name"], row["audit_id"]) == ("other", "mallory", "id-1")
    assert {key: text for key, text in row["annotations"].items() if key.startswith(("hindcast/", "a/"))} == annotations
    # The only note is Hindcast's own, about a row that had no stage.
    assert set(row["notes"]) <= {TRANSLATED}
    assert "id-1" not in str(row["notes"])
    assert UID not in str(row["notes"])
    assert row["review"] is None
    assert not [flag for flag in row["flags"] if flag.startswith("reviewed") or flag == "redacted"]
    lake.close()


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_everything_at_once_stops_nobody(door: Door, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    door(lake, hostile())
    (row,) = stored(lake)
    assert row["cluster"] == "other"
    assert {key for key in row["annotations"] if key.startswith("hindcast/")} == set(ANNOTATIONS)
    lake.close()


def test_own_notes_of_a_forged_event_are_hindcasts(tmp_path: Path) -> None:
    """Redaction notes what it removed, next to what the sender wrote under that name."""
    lake = Lake.create(tmp_path / "lake")
    event = hostile(objectRef={"resource": "secrets", "namespace": "n", "name": "s", "apiVersion": "v1"})
    by_file(lake, event | {"requestObject": {"kind": "Secret", "apiVersion": "v1", "data": {"k": "YQ=="}}})
    (row,) = stored(lake)
    assert "requestObject" in row["notes"][REDACTED]
    assert row["annotations"]["hindcast/redacted"] != row["notes"][REDACTED]
    assert "YQ==" not in str(row)
    lake.close()


TEXT = st.text(st.sampled_from('hindcast/foreigview-\u00e9\\"\ud7ff '), max_size=24)
KEYS = st.one_of(TEXT, st.sampled_from(NAMES).map(lambda name: f"hindcast/{name}"))


@given(st.dictionaries(KEYS, TEXT, max_size=6), st.booleans())
def test_no_spelling_of_an_annotation_is_a_note(annotations: dict[str, str], is_ascii: bool) -> None:
    line = json.dumps(hostile(annotations=annotations), ensure_ascii=is_ascii).encode()
    (row,) = decode_events([sealed(line)], "c", datetime.now(UTC), "t").table.to_pylist()
    assert (dict(row["annotations"]), row["notes"], row["review"]) == (annotations, [], None)


@given(st.dictionaries(KEYS, TEXT, max_size=6), st.dictionaries(st.sampled_from(NAMES[:6]), TEXT, max_size=3))
def test_sealing_loses_nothing(annotations: dict[str, str], notes: dict[str, str]) -> None:
    assert parted(noted(annotations, notes)) == (annotations, notes)


def test_rows_of_another_cluster_are_never_written(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    table = decode_events([json.dumps(hostile()).encode()], "prod", datetime.now(UTC), "t").table
    with pytest.raises(AssertionError, match="rows of another cluster"):
        LakeWriter(lake).write("events", "other", table)
    lake.close()


def old_lake(path: Path) -> Lake:
    """A lake as an earlier version left it: its notes are annotations."""
    lake = Lake.create(path)
    _ingested(lake, json.dumps(recorded("id-1", START, "create", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}})))
    (file,) = lake.files()
    table = pq.read_table(file, partitioning=None).drop_columns(["notes", "review"])
    notes = [("a/b", "c"), ("hindcast/redacted", "requestObject"), ("hindcast/review", UID)]
    index = table.schema.get_field_index("annotations")
    table = table.set_column(index, table.schema.field(index), pa.array([notes], table.schema.field(index).type))
    pq.write_table(table, file)
    lake.close()
    with closing(sqlite3.connect(path / "manifest.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
        connection.execute("UPDATE files SET bytes = ?, digest = ?", (file.stat().st_size, file_digest(file)))
    return Lake.open(path)


def test_a_lake_of_format_1_is_read_and_compacted(tmp_path: Path) -> None:
    lake = old_lake(tmp_path / "lake")
    assert lake.manifest.has_old_rows
    before = stored(lake)
    assert before[0]["notes"] == {REDACTED: "requestObject"}
    # Nothing says that the row has a review: the name alone is a stranger's annotation.
    assert before[0]["annotations"] == {"a/b": "c", "hindcast/review": UID}
    with lake.writer() as writer:
        compact(writer, 4e9)
    assert not lake.manifest.has_old_rows
    assert stored(lake) == before
    assert set(EVENTS.names) == set(pq.read_schema(lake.files()[0]).names)
    lake.close()


def test_a_copy_of_format_1_has_no_reviews(tmp_path: Path) -> None:
    lake = old_lake(tmp_path / "lake")
    with closing(open_lake(lake.path)) as reader:
        flagged = "(SELECT * REPLACE (['reviewed'] AS flags, '{\"reviews\": []}' AS extra) FROM lake_events)"
        old = f"(SELECT * EXCLUDE (notes, review), NULL::MAP(VARCHAR, VARCHAR) AS notes, NULL::VARCHAR AS review FROM {flagged})"
        for are_ours, reviewed in ((True, '{"reviews": []}'), (False, None)):
            (row,) = reader.rows(f"SELECT review FROM {as_now(old, are_ours)}")
            assert row["review"] == reviewed
    lake.close()
