"""Runs what a StatefulSet names on loopback: its arguments, environment, probes and volumes, without a container engine.

The process gets a root of its own that cannot be written, and the user of the Pod, in a mount namespace (container.sh). Only ports
and addresses are changed. What is left out: the image, limits of memory and CPU, seccomp, and the network of a cluster.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.yaml_text import load_yaml

from .rendering import ROOT, Manifest

_SCRIPT = Path(__file__).parent / "container.sh"
_START_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Containerfile: `word` is FROM, RUN, ..., and `text` the rest with joined lines."""

    word: str
    text: str


def instructions(file: Path) -> list[Instruction]:
    """The instructions of a Containerfile."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines()]


def free_port() -> int:
    """A port of loopback that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Started:
    """A running container: its process, its ports by name, its log, and the folder with its volumes."""

    process: subprocess.Popen[bytes]
    ports: Mapping[str, int]
    log: Path
    container: Mapping[str, Any]
    volumes: Path

    def probe(self, name: str) -> int:
        """The status that a kubelet gets from a probe. It checks no certificate, and names the address of the Pod."""
        asked = self.container[name]["httpGet"]
        assert asked["scheme"] == "HTTPS"
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.ports[asked["port"]], timeout=120, context=context)
        try:
            connection.request("GET", asked["path"], headers={"Host": "10.244.3.7:7443", "User-Agent": "kube-probe/1.36"})
            return connection.getresponse().status
        finally:
            connection.close()


@contextmanager
def running(workload: Manifest, secrets: Mapping[str, Manifest], folder: Path, ports: Mapping[str, int]) -> Iterator[Started]:
    """Start the one container of a StatefulSet with these Secrets and ports, by name; wait until its startup probe passes."""
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user = pod["securityContext"]["runAsUser"]
    volumes = _volumes(pod, container, secrets, folder / "volumes", user)
    entry = [each.text for each in instructions(ROOT / "deploy" / "Containerfile") if each.word == "ENTRYPOINT"]
    assert entry == ['["/opt/hindcast/bin/hindcast"]']
    program = volumes / "opt" / "hindcast" / "bin"
    program.mkdir(parents=True)
    (program / ".volume").touch()
    (program / "hindcast").symlink_to(Path(sys.prefix) / "bin" / "hindcast")
    root = folder / "root"
    root.mkdir()
    environment = [f"{each['name']}={each['value']}" for each in container["env"]]
    needed = dict.fromkeys((str(ROOT), str(Path(sys.base_prefix).resolve()), sys.prefix))
    command = ["unshare", "--mount", "--propagation", "private", "sh", str(_SCRIPT), str(root), str(volumes), str(user)]
    command += [each for each in needed if not each.startswith("/usr")]
    command += ["--", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", *environment]
    command += ["/opt/hindcast/bin/hindcast", *_on_loopback(container, ports)]
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    started = Started(process, ports, log, container, volumes)
    try:
        _wait(started)
        yield started
    finally:
        process.kill()
        process.wait(timeout=20)


def secret(command: str, kubectl: str, folder: Path) -> Manifest:
    """The Secret that a `kubectl create secret` command makes, run in a folder without a cluster."""

    words = [*shlex.split(command)[1:], "--dry-run=client", "-o", "yaml"]
    done = subprocess.run(
        [kubectl, *words], cwd=folder, env={"HOME": str(folder)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    made: Manifest = load_yaml(done.stdout)
    return made


def _volumes(pod: Manifest, container: Manifest, secrets: Mapping[str, Manifest], folder: Path, user: int) -> Path:
    """One folder for each mounted path, with a mark that container.sh looks for; Secrets lie there as a kubelet writes them."""
    kinds = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        place = folder / mount["mountPath"].lstrip("/")
        place.mkdir(parents=True)
        (place / ".volume").touch()
        os.chown(place, user, user)
        if "secret" in kinds.get(mount["name"], {}):
            made = secrets[kinds[mount["name"]]["secret"]["secretName"]]
            (place / "..data_1").mkdir(mode=0o755)
            (place / "..data").symlink_to("..data_1")
            for key, value in made["data"].items():
                file = place / "..data_1" / key
                file.write_bytes(base64.b64decode(value))
                os.chown(file, 0, user)
                file.chmod(kinds[mount["name"]]["secret"]["defaultMode"])
                (place / key).symlink_to(Path("..data") / key)
    return folder


def _on_loopback(container: Manifest, ports: Mapping[str, int]) -> list[str]:
    """The arguments with loopback in place of every address, and other ports."""
    named = {str(port["containerPort"]): str(ports[port["name"]]) for port in container["ports"]}
    found = []
    for argument in container["args"]:
        option, _, value = argument.partition("=")
        if option in ("--host", "--query-host"):
            assert value == "0.0.0.0"
            value = "127.0.0.1"
        elif option in ("--port", "--query-port"):
            value = named[value]
        found.append(f"{option}={value}" if value else option)
    return found


def _wait(started: Started) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline and started.process.poll() is None:
        try:
            if started.probe("startupProbe") == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"the server did not start: {started.log.read_text()[-3000:]}")
