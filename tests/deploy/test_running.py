"""The StatefulSet's container runs on loopback with a read-only root, and its probes, Secrets and Services fit the server."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import re
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from api.cli import run
from tests.serving import send
from tests.yaml_text import load_yaml

from .container import free_port, running, secret
from .rendering import ROOT, by_name, chart
from .tools import program

pytestmark = pytest.mark.server

PAGE = (ROOT / "docs" / "clusters" / "index.md").read_text(encoding="utf-8")
TOKEN = "0123456789abcdef-of-alice"


def commands(text: str, start: str) -> list[str]:
    """The commands of a page that begin with this, each on one line."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [" ".join(line.split()) for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith(start)]


def recorded_events(count: int) -> list[dict[str, Any]]:
    """The first events of the bundled log."""
    with (ROOT / "api" / "demo" / "audit.jsonl.zst").open("rb") as stream:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(stream), encoding="utf-8")
        return [json.loads(next(lines)) for _ in range(count)]


def can_isolate() -> bool:
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and done.returncode == 0


@pytest.mark.skipif(
    not can_isolate() and not os.environ.get("HINDCAST_REQUIRE_SHARED"), reason="only root may make a namespace for mounts"
)
def test_the_container_of_the_page_serves_with_a_read_only_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ports = {"sink": free_port(), "pages": free_port()}
    values = load_yaml(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    objects = by_name(chart(tmp_path, values))
    workload = objects["StatefulSet", "hindcast"]
    # The page's own commands, for a server on loopback.
    (init,) = commands(PAGE, "hindcast init")
    here = init.replace("10.96.7.43:7443", f"127.0.0.1:{ports['sink']}")
    assert here != init
    assert run(["-q", *here.split()[1:]]) == 0
    (tmp_path / "readers").write_text(f"alice token:{TOKEN}\n")
    made = [secret(line, str(program("kubectl")), tmp_path) for line in commands(PAGE, "kubectl -n hindcast create secret")]
    secrets = {each["metadata"]["name"]: each for each in made}
    assert {each["metadata"]["namespace"] for each in made} == {"hindcast"}

    with running(workload, secrets, tmp_path, ports) as pod:
        assert [pod.probe(name) for name in ("startupProbe", "livenessProbe", "readinessProbe")] == [200, 200, 200]
        # The API server's side: its kubeconfig names the address, the authority and the token.
        given = load_yaml((tmp_path / "prod-1" / "audit-webhook.kubeconfig").read_text())
        sink, user = given["clusters"][0]["cluster"], given["users"][0]["user"]
        assert sink["server"] == f"https://127.0.0.1:{ports['sink']}/audit/prod-1"
        authority = base64.b64decode(sink["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)

        def connect(port: str) -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection("127.0.0.1", ports[port], timeout=120, context=context)

        body = json.dumps(
            {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": recorded_events(5)}
        ).encode()
        bearer = {"Authorization": f"Bearer {user['token']}"}
        assert send(connect("sink"), "POST", "/audit/prod-1", body, **bearer) == (
            200,
            {"events": 5, "quarantined": 0, "duplicate": False},
        )
        assert send(connect("sink"), "POST", "/audit/prod-1", body)[0] == 401
        # The ServiceMonitor's side: the file of the certificate is the authority.
        trusted = ssl.create_default_context(cafile=str(tmp_path / "prod-1" / "sink.crt"))
        metrics = http.client.HTTPSConnection("127.0.0.1", ports["sink"], timeout=120, context=trusted)
        metrics.request("GET", "/metrics")
        assert b"hindcast_sink_ready 1.0" in metrics.getresponse().read()
        metrics.close()
        # The pages' side.
        reader = {"Authorization": f"Bearer {TOKEN}"}
        deadline = time.monotonic() + 300
        while (found := send(connect("pages"), "GET", "/api/v1/sources", b"", **reader))[0] != 200 or not found[1]["rows"]:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        assert [row["cluster"] for row in found[1]["rows"]] == ["prod-1"]
        assert send(connect("pages"), "GET", "/api/v1/sources", b"")[0] == 401
        # Nothing but the volume and /tmp can be written, and the process is not root.
        process = Path(f"/proc/{pod.process.pid}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        assert set(status["Uid"].split()) == {"65532"}
        assert (status["NoNewPrivs"], int(status["CapBnd"], 16)) == ("1", 0)
        mounts = [line.split() for line in (process / "mounts").read_text().splitlines()]
        places = {each[1]: each[3].split(",") for each in mounts}
        assert "ro" in places["/"]
        writable = {place for place, options in places.items() if "rw" in options}
        assert {place for place in writable if not place.startswith(("/proc", "/dev"))} <= {
            "/var/lib/hindcast",
            "/tmp",
            "/opt/hindcast/bin",
            *(mount["mountPath"] for mount in pod.container["volumeMounts"]),
        }
        assert (pod.volumes / "var" / "lib" / "hindcast" / "lake").is_dir()
        pod.process.terminate()
        grace = workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert pod.process.wait(timeout=grace) == 0
        assert "Traceback" not in pod.log.read_text()
