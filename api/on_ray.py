"""The option `--on`: where a command does its units of work."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.errors import InputError

if TYPE_CHECKING:
    from pipeline.runs.executors import Executor

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ray[://HOST:PORT]",
        help="Do the work on Ray: ray starts it on this machine, ray://HOST:PORT or HOST:PORT connects to a running cluster.",
    ),
]
_LOCAL = "ray"
_CLIENT = "ray://"
_ANSWER_SECONDS_MAX = 10.0
_STORE_BYTES = 512 * 1024**2
_SHARED_MEMORY = "/dev/shm"
# Ray sends no usage statistics.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}
# Without its clusters of several machines, Ray takes 127.0.0.1 for the address of this one, and all its servers listen only there.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_TOKEN = "RAY_AUTH_TOKEN"


@contextmanager
def connected(on: str, workers: int | None) -> Iterator[Executor]:
    """The executor that a value of `--on` names, connected to Ray while the context lasts.

    `workers` bounds the units at a time; by default the cluster has one per core. Raises InputError.
    """
    address = check_place(on)
    logging.getLogger("ray").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        # Ray ends its workers at once, so what they write for themselves is in this folder. A token of this run keeps others out.
        own = {**_LOOPBACK, "TMPDIR": folder, "RAY_AUTH_MODE": "token", _TOKEN: os.environ.get(_TOKEN) or _own_token()}
        with _environment(_SETTINGS if address else {**_SETTINGS, **own}):
            import ray

            try:
                _start(ray, on, address, folder, workers)
                yield _executor(ray, on, workers)
            finally:
                ray.shutdown()


@cache
def _own_token() -> str:
    """The token of this process: Ray reads it once, and keeps it."""
    return secrets.token_hex(32)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def check_place(on: str) -> str:
    """The address in a value of `--on`, as Ray takes it; empty for a Ray of this machine.

    Raises InputError for another text, and without the extra.
    """
    if find_spec("ray") is None:
        raise InputError(f"--on {on}: the package ray is not installed", "install the extra: pip install 'kube-hindcast[ray]'")
    if on == _LOCAL:
        return ""
    host, _, port = on.removeprefix(_CLIENT).rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError(f"--on {on}: not a place for work", "give ray, ray://HOST:PORT or HOST:PORT")
    return on


def _start(ray: Any, on: str, address: str, folder: str, workers: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if not address:
        store = {"object_store_memory": _STORE_BYTES, "_plasma_directory": _store_folder(folder)}
        ray.init("local", num_cpus=workers, include_dashboard=False, _temp_dir=folder, **store, **quiet)
        return
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    hint = "start Ray there (ray start --head), correct the address, or use --on ray"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS_MAX).close()
    except OSError as error:
        raise InputError(f"--on {on}: no answer from {host}:{port}: {error.strerror or error}", hint) from error
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"--on {on}: Ray cannot be used there: {first}", hint) from error


def _store_folder(folder: str) -> str:
    """Where Ray's store lies: in shared memory, or in a folder of this run if that has no room, as in most containers."""
    try:
        return _SHARED_MEMORY if shutil.disk_usage(_SHARED_MEMORY).free >= _STORE_BYTES else folder
    except OSError:
        return folder


def _executor(ray: Any, on: str, workers: int | None) -> Executor:
    from pipeline.runs.on_ray import OnRay

    cores = int(ray.cluster_resources().get("CPU", 0))
    if cores < 1:
        raise InputError(f"--on {on}: this Ray has no CPU", "add a node with `ray start --address` and --num-cpus of at least 1")
    return OnRay(workers or cores)
