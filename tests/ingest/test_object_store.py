"""Objects of an S3-compatible store: a small one on loopback, which speaks what pyarrow asks for."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from ingest.errors import InputError
from ingest.lake import Lake
from ingest.sources import logfile
from ingest.sources.files import ingest_files
from ingest.store import Counts

Event = Callable[..., bytes]
MODIFIED = "<LastModified>2026-11-21T03:24:16.000Z</LastModified>"
LISTED = f"<Contents><Key>{{key}}</Key>{MODIFIED}<ETag>{{etag}}</ETag><Size>{{size}}</Size></Contents>"


class Store(ThreadingHTTPServer):
    """One bucket, `logs`. `read` are the keys whose content was fetched."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.read: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, *arguments: object) -> None:
        """Nothing on standard error."""

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        if "Credential=reader/" not in self.headers.get("Authorization", ""):
            self.send(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
        elif bucket != "logs":
            self.send(404, b"<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>")
        elif not key:
            self.send(200, self.listing(parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]))
        elif key not in self.server.objects:
            self.send(404, b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>")
        else:
            self.send_object(key, self.server.objects[key])

    def listing(self, prefix: str) -> bytes:
        found = sorted((key, value) for key, value in self.server.objects.items() if key.startswith(prefix))
        listed = "".join(LISTED.format(key=escape(key), etag=etag(value), size=len(value)) for key, value in found)
        return f"<ListBucketResult><Name>logs</Name><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode()

    def send_object(self, key: str, value: bytes) -> None:
        headers = {"ETag": etag(value), "Last-Modified": "Sat, 21 Nov 2026 03:24:16 GMT"}
        if self.command == "GET":
            self.server.read.append(key)
        asked = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self.send(200, value, headers)
            return
        start, end = int(asked[1]), min(int(asked[2]) + 1, len(value))
        self.send(206, value[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(value)}"})

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def etag(value: bytes) -> str:
    return f'"{hashlib.md5(value, usedforsecurity=False).hexdigest()}"'


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in (("AWS_ACCESS_KEY_ID", "reader"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(name, value)
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def lines(event: Event, *numbers: int) -> bytes:
    return b"".join(event(number) + b"\n" for number in numbers)


def test_objects_are_read_once_in_the_order_of_their_keys(
    store: Store, lake: Lake, event: Event, ids: Callable[[Lake], list[str]]
) -> None:
    store.objects = {
        "eks/2026/11/21/000000.gz": gzip.compress(lines(event, 1, 2)),
        "eks/2026/11/22/000000.gz": gzip.compress(lines(event, 3)) + gzip.compress(lines(event, 4)),
        "eks/aws-logs-write-test": b"Permission Check Successful",
        "other/audit.log": lines(event, 9),
    }
    first = ingest_files(lake, ["s3://logs/eks"], "c", 0.0, endpoint=store.url)
    assert first.counts == Counts(read=4, stored=4)
    assert [(file.path, file.note) for file in first.files if file.counts.read] == [
        ("s3://logs/eks/2026/11/21/000000.gz", ""),
        ("s3://logs/eks/2026/11/22/000000.gz", ""),
    ]
    assert ids(lake) == ["id-1", "id-2", "id-3", "id-4"]
    store.read.clear()
    store.objects["eks/2026/11/22/000000.gz"] = gzip.compress(lines(event, 3, 4, 5))
    second = ingest_files(lake, ["s3://logs/eks"], "c", 0.0, endpoint=store.url)
    assert second.counts == Counts(read=1, stored=1)
    # What has the same ETag as before is not fetched again.
    assert [file.known_lines for file in second.files] == [2, 2, 0]
    assert "eks/2026/11/21/000000.gz" not in store.read


def test_an_interrupted_object_goes_on(
    store: Store, lake: Lake, event: Event, ids: Callable[[Lake], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "UNIT_EVENTS_MAX", 2)
    # Several blocks, so that a unit ends before the object does.
    store.objects["a.log"] = b"".join(event(number, x="x" * 400_000) + b"\n" for number in range(9))

    def interrupt(done: int, total: int) -> None:
        assert 0 < done < total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_files(lake, ["s3://logs/a.log"], "c", 0.0, progress=interrupt, endpoint=store.url)
    stored = len(ids(lake))
    assert 0 < stored < 9
    assert ingest_files(lake, ["s3://logs/a.log"], "c", 0.0, endpoint=store.url).counts == Counts(9 - stored, 9 - stored)
    assert len(ids(lake)) == 9


def test_the_url_may_name_the_endpoint(store: Store, lake: Lake, event: Event) -> None:
    store.objects["audit.log"] = lines(event, 1)
    url = f"s3://logs/audit.log?scheme=http&endpoint_override=127.0.0.1:{store.server_port}"
    assert ingest_files(lake, [url], "c", 0.0).counts.stored == 1


@pytest.mark.parametrize(
    ("url", "user", "message"),
    [
        ("s3://nope/x", "reader", "s3://nope/x: there is no such bucket; is the endpoint"),
        ("s3://logs/none", "reader", "s3://logs/none: there is no object of this name or below it"),
        ("s3://logs/x", "stranger", "s3://logs/x: cannot be read: access is denied; see which credentials"),
        ("s3://logs/text.txt", "reader", r"s3://logs/text.txt: found text that is not JSON \('hello'\), wanted audit events"),
        ("s3:///x", "reader", "s3:///x: names no bucket"),
        ("s3://logs/x?foo=bar", "reader", "has the option foo; there are scheme"),
    ],
)
def test_what_is_wrong_is_said(
    store: Store, lake: Lake, monkeypatch: pytest.MonkeyPatch, url: str, user: str, message: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", user)
    store.objects["text.txt"] = b"hello"
    with pytest.raises(InputError, match=message):
        ingest_files(lake, [url], "c", 0.0, endpoint=store.url)


def test_a_store_that_is_not_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.sources.object_store._ATTEMPTS", 1)
    with pytest.raises(InputError, match="the object store cannot be reached; is the endpoint the right one"):
        ingest_files(lake, ["s3://logs/x"], "c", 0.0, endpoint="http://127.0.0.1:1")
    with pytest.raises(InputError, match="is not an endpoint of an object store"):
        ingest_files(lake, ["s3://logs/x"], "c", 0.0, endpoint="ftp://h")
