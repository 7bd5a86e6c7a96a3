"""Forms that people have and that hold no readable audit events: their names, and the nearest way that works."""

from __future__ import annotations

import re

_EXPORT = "export it as JSON lines, CSV or Parquet, and give that"
_DECRYPT = "decrypt or unpack it, and give the files in it"
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
        (rb"\xd0\xcf\x11\xe0", "an Office document", _EXPORT),
        (rb"(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x0a\x0d\x0d\x0a)", "a capture of network packets", _EVENTS),
        (rb"7z\xbc\xaf\x27\x1c|Rar!", "a 7z or RAR archive", _DECRYPT),
        (rb"age-encryption\.org/|-----BEGIN (?:PGP|AGE)|Salted__|\x85\x02|\x8c\x0d\x04", "encrypted data", _DECRYPT),
    )
)


def unreadable_form(data: bytes) -> tuple[str, str] | None:
    """The name of a form that cannot be read, and the nearest way that works; None where the form is not one of these."""
    return next(((name, way) for pattern, name, way in _FORMS if pattern.match(data)), None)
