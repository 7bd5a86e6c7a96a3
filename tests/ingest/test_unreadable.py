"""A file in a form that cannot be read is refused with its name, and with the nearest way that works."""

from __future__ import annotations

import base64
import gzip
import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources.files import ingest_files

# The first page of bbolt: its header, and then the magic number of the meta page (go.etcd.io/bbolt internal/common/meta.go).
BBOLT = struct.pack("<QHHI", 0, 4, 0, 0) + struct.pack("<I", 0xED0CDAED) + bytes(100)
FORMS = {
    "an etcd database": (BBOLT, "kubectl get -A -o json"),
    "protobuf of Kubernetes": (b"k8s\0\n\x10\n\x02v1\x12\nEventList", "JSON"),
    "an HTML page": (b"<!DOCTYPE html><html><body>Sign in</body></html>", "download"),
    "klog text of a component": (b"I1121 03:24:15.866354       1 server.go:120] starting\n", "--audit-log-path"),
    "Avro": (b"Obj\x01\x04\x14avro.codec", "JSON lines"),
    "ORC": (b"ORC\x11\x00\x00", "JSON lines"),
    "a capture of network packets": (b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00", "--audit-log-path"),
    "a 7z or RAR archive": (b"7z\xbc\xaf\x27\x1c\x00\x04", "unpack"),
    "an SQL dump": (b'-- a dump\nINSERT INTO t VALUES (1, \'{"auditID":"1","stage":"Panic"}\');\n', "CSV"),
    "an Arrow file": (b'ARROW1\0\0\n{"auditID":"1","stage":"Panic"}\n', "Parquet"),
    "a cpio or ar archive": (b'!<arch>\nx\n{"auditID":"1","stage":"Panic"}\n', "unpack"),
    "data compressed with lz4": (b"\x04\x22\x4d\x18\x60\x40\x82", "unpack"),
    "data that is not compressed with gzip, zstd, bzip2 or xz": (zlib.compress(b"x" * 50), "unpack"),
    "a print of Python's objects, which is not JSON": (
        b"""{'m': '{"auditID":"1","stage":"Panic","requestReceivedTimestamp":"2026-01-01T00:00:00Z"}'}\n""",
        "json.dumps",
    ),
    "base64": (base64.encodebytes(bytes(range(256))), "base64 -d"),
    "encrypted data": (b"age-encryption.org/v1\n-> X25519 abc\n", "decrypt"),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_named_and_a_way_is_shown(lake: Lake, tmp_path: Path, name: str) -> None:
    content, way = FORMS[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        ingest_files(lake, [path], "c", 0.0)
    assert f"found {name}" in refused.value.message
    assert way in refused.value.hint


def test_a_workbook_is_named_and_its_limit_too(lake: Lake, tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    path = tmp_path / "export.xlsx"
    path.write_bytes(target.getvalue())
    with pytest.raises(InputError) as refused:
        ingest_files(lake, [path], "c", 0.0)
    assert "workbook" in refused.value.message
    assert "32,767 characters" in refused.value.hint


def test_an_empty_file_is_named(lake: Lake, tmp_path: Path) -> None:
    for name, content in (("empty.log", b""), ("empty.log.gz", gzip.compress(b""))):
        (tmp_path / name).write_bytes(content)
        assert [file.form for file in ingest_files(lake, [tmp_path / name], "c", 0.0).files] == ["an empty file"]
