"""A file in a form that cannot be read is refused with its name, and with the nearest way that works."""

from __future__ import annotations

import struct
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
