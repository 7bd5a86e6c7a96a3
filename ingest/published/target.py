"""Where a lake is published: a bucket of an S3-compatible store, or a folder.

Credentials, region and endpoint come from the variables and files of the AWS tools alone, so that a machine that can use these
tools can also publish. Nothing here prints or keeps a credential.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import InputError, LakeError

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

_TIMEOUT_SECONDS = 20
_ATTEMPTS = 3
_URL = re.compile(r"(s3|file)://(.+)")
# pyarrow's words for an error of the store: `AWS Error CODE during OPERATION operation: TEXT`.
_STORE_ERROR = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status \d+\))? during (\w+) operation: (.*)", re.DOTALL)
_ADVICE = {
    "NO_SUCH_BUCKET": "make the bucket first, or choose another one",
    "ACCESS_DENIED": "check AWS_ACCESS_KEY_ID or AWS_PROFILE, and what its owner may do in this bucket",
    "INVALID_ACCESS_KEY_ID": "check AWS_ACCESS_KEY_ID or AWS_PROFILE",
    "SIGNATURE_DOES_NOT_MATCH": "check AWS_SECRET_ACCESS_KEY",
    "NETWORK_CONNECTION": "check AWS_ENDPOINT_URL, AWS_REGION and the network",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A place for a published lake. `url` has no slash at its end."""

    url: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that a URL names: s3://BUCKET/LAKE, or file:///FOLDER. Raises InputError."""
        found = _URL.fullmatch(text.rstrip("/"))
        if found is None:
            raise InputError(f"{text!r} does not name a published lake", "give s3://BUCKET/LAKE, or file:///FOLDER")
        scheme, place = found.groups()
        parts = place.strip("/").split("/")
        if scheme == "s3" and len(parts) < 2:
            raise InputError(f"{text!r} names a bucket and no lake in it", f"give a name for the lake: s3://{parts[0]}/NAME")
        if scheme == "file" and not place.startswith("/"):
            raise InputError(f"{text!r} is not an absolute path", "give file:///FOLDER")
        if any(part in ("", ".", "..") or set(part) & set("*?[]'\"\\") for part in parts):
            raise InputError(f"{text!r} holds an empty part, a dot part, or one of * ? [ ] ' \" \\", "choose a plain name")
        return cls(f"{scheme}://{place}")

    @property
    def is_bucket(self) -> bool:
        """Whether it lies in a bucket; otherwise it is a folder."""
        return self.url.startswith("s3://")

    @property
    def path(self) -> str:
        """The path as pyarrow's file systems write it: BUCKET/LAKE, or /FOLDER."""
        return path_of(self.url)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace of its tables in a catalog: the path in the bucket, or the name of the folder."""
        parts = self.path.strip("/").split("/")
        return tuple(parts[1:]) if self.is_bucket else (parts[-1],)

    def table(self, kind: str) -> str:
        """The location of the table of a kind (events, objects, repeats)."""
        return f"{self.url}/{kind}"

    def filesystem(self) -> fs.FileSystem:
        """pyarrow's file system for it. Raises LakeError when the store's address cannot be found."""
        return filesystem_of(self.url)

    def properties(self) -> dict[str, str]:
        """The address of the store, as pyiceberg names it; credentials are not in it."""
        if not self.is_bucket:
            return {}
        return {f"s3.{name}": value for name, value in _address(self.path.split("/")[0])}


def path_of(url: str) -> str:
    """A URL as a path of pyarrow's file systems."""
    return url.removeprefix("s3://").removeprefix("file://")


def is_url(path: str | Path) -> bool:
    """Whether a path is the URL of an object in a store; otherwise it is a local file."""
    return str(path).startswith("s3://")


def are_there(urls: Sequence[str]) -> bool:
    """Whether all of these objects exist. Raises LakeError when a store cannot be asked."""
    if not urls:
        return True
    with reaching(urls[0]):
        return all(info.is_file for info in filesystem_of(urls[0]).get_file_info([path_of(url) for url in urls]))


@lru_cache(maxsize=65_536)
def size_of(url: str) -> int:
    """The bytes of an object; its name holds a digest of them, so they never change. Raises LakeError."""
    with reaching(url):
        info = filesystem_of(url).get_file_info(path_of(url))
        if not info.is_file:
            raise FileNotFoundError(2, "the object does not exist")
        return int(info.size)


def open_object(url: str) -> NativeFile:
    """An object as a file. Raises OSError or LakeError."""
    return filesystem_of(url).open_input_file(path_of(url))


def filesystem_of(url: str) -> fs.FileSystem:
    """pyarrow's file system for a URL; one for each address and process. Raises LakeError when the address cannot be found."""
    from pyarrow import fs  # most commands ask for no file system, and start sooner without it

    if not url.startswith("s3://"):
        return fs.LocalFileSystem()
    return _s3(os.getpid(), _address(path_of(url).split("/")[0]))


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Turn errors of a store or a disk into a LakeError that names the place and the next step."""
    try:
        yield
    except OSError as error:
        text = str(error)
        if (found := _STORE_ERROR.search(text)) is not None:
            code, operation, reason = found.groups()
            words = " ".join(reason.split())[:200].rstrip(". ")
            raise LakeError(f"{place}: the store answers {code} to {operation}: {words}", _ADVICE.get(code, "")) from error
        raise LakeError(
            f"{place}: {error.strerror or text.splitlines()[0][:300]}", "is the store or the disk reachable?"
        ) from error


@lru_cache(maxsize=8)
def _s3(process: int, address: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """A client for each process: a forked one must not use the threads of its parent's client."""
    from pyarrow import fs

    known = dict(address)
    return fs.S3FileSystem(
        endpoint_override=known.get("endpoint"),
        region=known.get("region"),
        connect_timeout=_TIMEOUT_SECONDS,
        request_timeout=_TIMEOUT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _address(bucket: str) -> tuple[tuple[str, str], ...]:
    """The endpoint and the region of a bucket. pyarrow itself does not read AWS_ENDPOINT_URL."""
    profile = _profile()
    endpoint = _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    region = _first("AWS_REGION", "AWS_DEFAULT_REGION") or profile.get("region")
    if endpoint:
        return (("endpoint", endpoint), ("region", region or "us-east-1"))
    return (("region", region or _region_of(bucket)),)


@lru_cache(maxsize=8)
def _region_of(bucket: str) -> str:
    from pyarrow import fs

    with reaching(f"s3://{bucket}"):
        return fs.resolve_s3_region(bucket)


def store_settings() -> frozenset[tuple[str, str]]:
    """The names and values of the environment variables that say how stores are reached."""
    return frozenset((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))


def _first(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _profile() -> dict[str, str]:
    """The settings of the chosen profile in the AWS tools' configuration file."""
    path = Path(os.environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws" / "config")
    name = os.environ.get("AWS_PROFILE", "default")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise LakeError(f"{path}: cannot be read: {str(error).splitlines()[0]}", "correct it, or set AWS_CONFIG_FILE") from error
    section = name if name == "default" else f"profile {name}"
    return dict(parser[section]) if section in parser else {}
