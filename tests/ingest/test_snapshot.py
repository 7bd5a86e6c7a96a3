"""Object lists become rows of the `objects` table, byte for byte, once."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources.snapshot import SnapshotSummary, ingest_snapshot
from pipeline.history.snapshots import lists_of
from queries import open_lake

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
NAMESPACE = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","uid":"u","resourceVersion":"7"},"n":1.0}'


def objects(lake: Lake) -> list[dict[str, Any]]:
    return [row for path in lake.files("objects") for row in pq.read_table(path, partitioning=None).to_pylist()]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("list.json", b'{"kind":"List","apiVersion":"v1","items":[\n  %s\n]}' % NAMESPACE.encode()),
        ("one.json", NAMESPACE.encode()),
        ("list.json.gz", gzip.compress(b'{"kind":"List","items":[%s]}' % NAMESPACE.encode(), mtime=0)),
        ("list.json.zst", zstandard.ZstdCompressor().compress(b'{"kind":"List","items":[%s]}' % NAMESPACE.encode())),
    ],
)
def test_objects_are_kept_byte_for_byte(lake: Lake, tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert ingest_snapshot(lake, [tmp_path / name], "c", AT) == SnapshotSummary(files=1, objects=1)
    (row,) = objects(lake)
    assert row == {
        "cluster": "c",
        "observed_ts": AT,
        "list_rv": None,
        "api_version": "v1",
        "kind": "Namespace",
        "namespace": None,
        "name": "a",
        "uid": "u",
        "resource_version": "7",
        "object": NAMESPACE,
        "source": "" if name == "one.json" else name,
    }


def test_items_of_an_api_list_get_their_kind(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text('{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p","namespace":"n"}}]}')
    ingest_snapshot(lake, [tmp_path], "c", AT)
    (row,) = objects(lake)
    assert (row["kind"], row["namespace"]) == ("Pod", "n")
    assert json.loads(row["object"]) == {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "n"}}


def test_yaml_documents(lake: Lake, tmp_path: Path) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    pods = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"
    text = f"{namespace}---\n---\n{pods}"
    (tmp_path / "x.yaml").write_text(text)
    assert ingest_snapshot(lake, [tmp_path / "x.yaml"], "c", AT).objects == 2
    assert sorted(row["kind"] for row in objects(lake)) == ["Namespace", "Pod"]


def test_the_same_snapshot_again_adds_nothing(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(NAMESPACE)
    (tmp_path / "copy.json").write_text(NAMESPACE)
    assert ingest_snapshot(lake, [tmp_path], "c", AT) == SnapshotSummary(files=2, objects=1, duplicate=1)
    assert ingest_snapshot(lake, [tmp_path], "c", AT) == SnapshotSummary(files=2, objects=0, duplicate=2)
    assert ingest_snapshot(lake, [tmp_path], "c", AT.replace(hour=13)).objects == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not: [json", "is not YAML"),
        ("at: 2026-99-99", "is not YAML: month must be in 1..12"),
        ("a: [" * 300, "nested deeper than 250 levels"),
        ('{"kind":"Status","apiVersion":"v1"}', "found Status without apiVersion, kind and metadata.name, wanted objects"),
        ('{"kind":"List","items":[1]}', "an item is not an object"),
        ('{"kind":"List","items":', "no list of objects"),
    ],
)
def test_nothing_is_stored_when_one_file_holds_no_objects(lake: Lake, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(NAMESPACE)
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(InputError, match=rf"b.json(:\d+)?: {message}"):
        ingest_snapshot(lake, [tmp_path], "c", AT)
    assert objects(lake) == []


def test_a_cut_snapshot_is_refused(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(NAMESPACE.encode() * 3)[:-9])
    with pytest.raises(InputError, match=r"the gzip stream breaks off.*; a snapshot is taken whole or not at all"):
        ingest_snapshot(lake, [tmp_path], "c", AT)


def test_paths_without_objects(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder has no object lists"):
        ingest_snapshot(lake, [tmp_path], "c", AT)
    with pytest.raises(InputError, match="gone: no such file or folder"):
        ingest_snapshot(lake, [tmp_path / "gone"], "c", AT)


@pytest.mark.parametrize(
    ("content", "kind", "notes"),
    [
        ('{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}', "Namespace", 0),
        ('{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":""},"items":[]}', "List", 1),
    ],
)
def test_an_empty_list_says_that_there_was_nothing(lake: Lake, tmp_path: Path, content: str, kind: str, notes: int) -> None:
    (tmp_path / "namespaces.json").write_text(content)
    summary = ingest_snapshot(lake, [tmp_path], "c", AT)
    assert (summary.files, summary.objects, len(summary.notes)) == (1, 0, notes)
    (row,) = objects(lake)
    assert (row["api_version"], row["kind"], row["name"], row["observed_ts"]) == ("v1", kind, "", AT)
    assert row["list_rv"] == (None if notes else "7")
    assert ingest_snapshot(lake, [tmp_path], "c", AT).objects == 0
    assert len(objects(lake)) == 1
    reader = open_lake(lake.path)
    assert reader.objects().fetchall() == []
    assert reader.sql("SELECT kind, objects FROM object_lists").fetchall() == [(kind, 0)]


def velero(*paths: str) -> bytes:
    """A backup as Velero writes it (velero.io, "Output file format"): one object a file, the same for each version of its group."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for path in ("metadata/version", *paths):
            name = path.rpartition("/")[2].removesuffix(".json")
            version = "apps/v1beta1" if "/v1beta1/" in path else "apps/v1"
            body = {"apiVersion": version, "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}}
            data = b"1.1.0" if path == "metadata/version" else json.dumps(body).encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


PLAIN, PREFERRED, OTHER = (
    f"resources/deployments.apps/{version}namespaces/shop" for version in ("", "v1-preferredversion/", "v1beta1/")
)


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([f"{PLAIN}/a.json", f"{PREFERRED}/a.json", f"{OTHER}/a.json", f"{PLAIN}/b.json", f"{PREFERRED}/b.json"], ["a", "b"]),
        ([f"{OTHER}/a.json", f"{PREFERRED}/a.json"], ["a"]),
    ],
)
@pytest.mark.parametrize("is_unpacked", [False, True])
def test_a_backup_of_velero_gives_each_object_once(
    lake: Lake, tmp_path: Path, paths: list[str], wanted: list[str], is_unpacked: bool
) -> None:
    (tmp_path / "backup.tar.gz").write_bytes(velero(*paths))
    if is_unpacked:
        with tarfile.open(tmp_path / "backup.tar.gz") as archive:
            for member in archive:
                if (file := archive.extractfile(member)) is not None:
                    place = tmp_path / "backup" / member.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(file.read())
    given = [tmp_path / ("backup" if is_unpacked else "backup.tar.gz")]
    assert ingest_snapshot(lake, given, "c", AT) == SnapshotSummary(files=len(wanted), objects=len(wanted))
    found = objects(lake)
    assert [(row["name"], row["api_version"], row["source"]) for row in found] == [(name, "apps/v1", "") for name in wanted]
    assert ingest_snapshot(lake, given, "c", AT).duplicate == len(wanted)


def test_objects_of_a_backup_do_not_say_that_there_were_no_others(lake: Lake, tmp_path: Path) -> None:
    """A backup may be of some namespaces or labels."""
    (tmp_path / "backup.tar.gz").write_bytes(velero(f"{PLAIN}/a.json"))
    ingest_snapshot(lake, [tmp_path / "backup.tar.gz"], "c", AT)
    assert lists_of(objects(lake)) == {}
    (tmp_path / "list.json").write_text(json.dumps({"kind": "List", "items": [json.loads(objects(lake)[0]["object"])]}))
    ingest_snapshot(lake, [tmp_path / "list.json"], "c", AT)
    ((only,),) = lists_of(objects(lake)).values()
    assert {key.name for key in only.keys} == {"a"}


def test_an_archive_without_objects_and_an_etcd_file_are_named(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "backup.tar.gz").write_bytes(velero())
    with pytest.raises(InputError, match="the archive has no object lists"):
        ingest_snapshot(lake, [tmp_path / "backup.tar.gz"], "c", AT)
    (tmp_path / "etcd.db").write_bytes(bytes(16) + b"\xed\xda\x0c\xed" + bytes(100))
    with pytest.raises(InputError, match="an etcd database") as refused:
        ingest_snapshot(lake, [tmp_path / "etcd.db"], "c", AT)
    assert "etcdutl snapshot restore" in refused.value.hint
