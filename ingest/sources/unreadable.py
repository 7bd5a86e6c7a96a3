"""Forms that people have and that hold no readable audit events: their names, and the nearest way that works."""

from __future__ import annotations

import re

_SQL = rb"\s*(?:--[^\n]*\n\s*)*(?:INSERT INTO|COPY [^\n]* FROM|CREATE TABLE|BEGIN;|SET |/\*!)"
_DUMP, _ARROW, _OLD_ARCHIVE = "an SQL dump", "an Arrow file", "a cpio or ar archive"
_PYTHON = "a print of Python's objects, which is not JSON"
_EXPORT = "export it as JSON lines, CSV or Parquet, and give that"
_DECRYPT = "decrypt or unpack it, and give the files in it"
WORKBOOK = "a cell of a workbook holds 32,767 characters, so longer events are cut there: export CSV or JSON from the source"
_COMPRESSED = "data that is not compressed with gzip, zstd, bzip2 or xz"
_EVENTS = "give the file of --audit-log-path, or an export of the audit events"
_OBJECTS = (
    "take `kubectl get -A -o json` and give it with --snapshot; an etcd file needs `etcdutl snapshot restore` and a running etcd"
)
# (how the content begins, the name, the way). The magic number of bbolt stands behind the header of its first page.
_FORMS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), name, way)
    for pattern, name, way in (
        (rb".{16}\xed\xda\x0c\xed", "an etcd database", _OBJECTS),
        (rb"k8s\0", "protobuf of Kubernetes", "an API server writes audit events as JSON: " + _EVENTS),
        (rb"(?i:\s*<(?:!doctype html|html))", "an HTML page", "the download failed or wanted a login: download it again"),
        (rb"[IWEF]\d{4} \d\d:\d\d:\d\d", "klog text of a component", _EVENTS),
        (rb"Obj\x01", "Avro", _EXPORT),
        (rb"ORC", "ORC", _EXPORT),
        (rb"SQLite format 3\0", "an SQLite database", _EXPORT),
        (_SQL, _DUMP, _EXPORT),
        (rb"ARROW1\0\0|\xff\xff\xff\xff.\0\0\0", _ARROW, "write it as Parquet, and give that"),
        (rb"\xd0\xcf\x11\xe0", "an Office document", WORKBOOK),
        (rb"(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x0a\x0d\x0d\x0a)", "a capture of network packets", _EVENTS),
        (rb"7z\xbc\xaf\x27\x1c|Rar!", "a 7z or RAR archive", _DECRYPT),
        (rb"0707(?:0[127])|\xc7\x71|!<arch>\n", _OLD_ARCHIVE, _DECRYPT),
        (rb"\x04\x22\x4d\x18", "data compressed with lz4", _DECRYPT),
        (rb"\xff\x06\0\0sNaPpY|\x89LZO|\x1f\x9d|\x5d\0\0|LZIP|\x78[\x01\x9c\xda]", _COMPRESSED, _DECRYPT),
        (rb"[\[{]\s*'|\{u'", _PYTHON, "write it with json.dumps, and give that"),
        (rb"(?:[A-Za-z0-9+/]{60,76}\r?\n){3}", "base64", "decode it with `base64 -d`, and give the result"),
        (rb"age-encryption\.org/|-----BEGIN (?:PGP|AGE)|Salted__|\x85\x02|\x8c\x0d\x04", "encrypted data", _DECRYPT),
    )
)


def is_misleading(data: bytes) -> bool:
    """Whether some lines of a file that cannot be read would pass for events, and others not."""
    named = unreadable_form(data)
    return named is not None and named[0] in (_DUMP, _ARROW, _OLD_ARCHIVE, _PYTHON)


def unreadable_form(data: bytes) -> tuple[str, str] | None:
    """The name of a form that cannot be read, and the nearest way that works; None where the form is not one of these."""
    return next(((name, way) for pattern, name, way in _FORMS if pattern.match(data)), None)
