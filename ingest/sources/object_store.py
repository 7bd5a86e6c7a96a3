"""Audit logs in an S3-compatible object store: `s3://BUCKET/PREFIX`, read by pyarrow.

Credentials and region come from the places that the AWS tools use (AWS_ACCESS_KEY_ID, AWS_REGION, ~/.aws). For a store other than
AWS, give its endpoint, or the URL as pyarrow understands it: `s3://bucket/logs?endpoint_override=HOST:9000&scheme=http`.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from ..errors import InputError
from .content import Source

_SCHEME = "s3://"
_BUFFER_BYTES = 8 << 20
_TIMEOUT_SECONDS = 20
_ATTEMPTS = 3
# Stores that are not AWS mostly have no regions, and pyarrow would ask AWS for one.
_ANY_REGION = "us-east-1"
_OPTIONS = ("scheme", "endpoint_override", "region", "allow_bucket_creation")
# Words in the text of pyarrow's errors, and their meaning here.
_FAILURES = (
    ("ACCESS_DENIED", "access is denied", "see which credentials are set, such as AWS_ACCESS_KEY_ID, and what they may read"),
    ("INVALID_ACCESS_KEY_ID", "the access key is not known", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("SIGNATURE", "the secret key is wrong", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("NETWORK_CONNECTION", "the object store cannot be reached", "is the endpoint the right one?"),
)


def is_url(text: str) -> bool:
    """Whether a path is an object store's URL."""
    return text.startswith(_SCHEME)


def object_sources(url: str, endpoint: str = "") -> list[Source]:
    """The object of this name, or else all objects below this prefix, in the order of their keys; `endpoint` is a URL.

    Raises InputError when there are no such objects, or the store does not answer.
    """
    store, path = _store(url, endpoint)
    try:
        info = store.get_file_info(path)
        if info.type is fs.FileType.File:
            return [_source(store, info, optional=False)]
        found = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        has_bucket = found or store.get_file_info(path.partition("/")[0]).type is fs.FileType.Directory
    except OSError as error:
        raise _failure(url, error) from error
    if not has_bucket:
        raise InputError(f"{url}: there is no such bucket", "is the endpoint the right one?")
    objects = sorted((entry for entry in found if entry.type is fs.FileType.File), key=lambda entry: str(entry.path))
    if not objects:
        raise InputError(f"{url}: there is no object of this name or below it", "write s3://BUCKET/PREFIX")
    return [_source(store, entry, optional=True) for entry in objects]


def _store(url: str, endpoint: str) -> tuple[Any, str]:
    parts = urlsplit(url)
    path = f"{parts.netloc}{parts.path}".strip("/")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    anonymous = options.pop("anonymous", "") == "true"
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise InputError(f"{url}: has the option {unknown[0]}", f"there are {', '.join((*_OPTIONS, 'anonymous'))}")
    if not parts.netloc or "@" in parts.netloc:
        raise InputError(f"{url}: names no bucket", "write s3://BUCKET/PREFIX; credentials come from the environment")
    if endpoint:
        there = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        if there.scheme not in ("http", "https") or not there.netloc:
            raise InputError(f"{endpoint!r} is not an endpoint of an object store", "write https://HOST:9000")
        options |= {"scheme": there.scheme, "endpoint_override": there.netloc}
    if "endpoint_override" in options:
        options.setdefault("region", os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _ANY_REGION)
    try:
        store = fs.S3FileSystem(
            anonymous=anonymous,
            request_timeout=_TIMEOUT_SECONDS,
            connect_timeout=_TIMEOUT_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            **options,
        )
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{url}: no object store: {error}", "write s3://BUCKET/PREFIX") from error
    return store, path


def _source(store: Any, info: fs.FileInfo, *, optional: bool) -> Source:
    name = f"{_SCHEME}{info.path}"
    return Source(
        name,
        partial(_Object, store, str(info.path), name),
        info.size,
        version=partial(_version, store, str(info.path), name),
        optional=optional,
    )


def _version(store: Any, path: str, name: str) -> str:
    """The object's ETag, which changes with its content; costs one request without the content."""
    try:
        with store.open_input_stream(path, compression=None) as stream:
            return bytes((stream.metadata() or {}).get("ETag", b"")).decode("latin-1")
    except OSError as error:
        raise _failure(name, error) from error


class _Object:
    """An object that is being read, as a file with a position."""

    def __init__(self, store: Any, path: str, name: str) -> None:
        self._position = 0
        try:
            # The content tells its compression, also where it has several parts.
            self._stream = store.open_input_stream(path, compression=None, buffer_size=_BUFFER_BYTES)
        except OSError as error:
            raise _failure(name, error) from error

    def read(self, size: int, /) -> bytes:
        data = bytes(self._stream.read(size))
        self._position += len(data)
        return data

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._stream.close()


def _failure(name: str, error: OSError) -> InputError:
    text = str(error)
    for sign, meaning, hint in _FAILURES:
        if sign in text:
            return InputError(f"{name}: cannot be read: {meaning}", hint)
    # AWS: "When listing objects ...: AWS Error CODE during X operation: words"
    return InputError(f"{name}: cannot be read: {re.sub(r'^.*?AWS Error ', '', text.splitlines()[0])}", "see the store's own log")
