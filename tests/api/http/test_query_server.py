"""The process that answers questions, next to a sink and alone: other rights, other port, and no harm to acknowledgements."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trustme

from api.cli import run
from api.settings import Settings
from tests.serving import RunningServer

pytestmark = pytest.mark.server

SENDER, READER = "0123456789abcdef-of-a-cluster", "0123456789abcdef-of-a-person"
BODY = json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": []}).encode()
_PATIENCE_SECONDS = 300.0


def ask(port: int, path: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, Any]:
    """The status and the JSON of an answer; status 0 while no server listens."""
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
        if context
        else http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    )
    with closing(connection):
        try:
            connection.request("GET", path, headers=headers)
        except ConnectionRefusedError:
            return 0, None
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body[:1] == b"{" else body


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def settings_for(folder: Path, **changes: Any) -> Settings:
    given = {"port": 0, "query_port": 0, "drain_interval_seconds": 0.3, "disk_free_bytes_min": 0}
    return Settings(**{"lake": folder / "lake", **given, **changes})


def test_senders_cannot_read_and_readers_cannot_send(tmp_path: Path) -> None:
    (tmp_path / "identities").write_text(f"lab token:{SENDER}\n")
    (tmp_path / "readers").write_text(f"alice token:{READER}\n")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = settings_for(
        tmp_path,
        identities=tmp_path / "identities",
        query_tokens=tmp_path / "readers",
        tls_certificate=tmp_path / "cert.pem",
        tls_key=tmp_path / "key.pem",
    )
    with RunningServer(settings, tmp_path / "server.log") as server:
        port = server.port_of("query_listening")
        assert port != server.port
        assert ask(port, "/api/v1/clusters", context, **bearer(READER)) == (200, {"rows": []})
        for headers in ({}, bearer(SENDER)):
            assert ask(port, "/api/v1/clusters", context, **headers)[0] == 401
        for token, status in ((SENDER, 200), (READER, 401)):
            assert server.post("lab", BODY, context=context, **bearer(token))[0] == status
        assert ask(port, "/audit/lab", context, **bearer(READER))[0] in (404, 405)
        assert ask(server.port, "/api/v1/clusters", context, **bearer(SENDER))[0] == 404


def test_the_sink_goes_on_when_whoever_answers_dies_and_both_end_together(tmp_path: Path) -> None:
    with RunningServer(settings_for(tmp_path), tmp_path / "server.log") as server:
        port = server.port_of("query_listening")
        assert ask(port, "/api/v1/clusters")[0] == 200
        pid = int(server.wait_for("query_started")["pid"])
        os.kill(pid, signal.SIGKILL)
        assert server.post("lab", BODY)[0] == 200
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(server.lines("query_listening")) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ask(server.port_of("query_listening"), "/api/v1/clusters")[0] == 200
        again = int(server.wait_for("query_started")["pid"])
        server.kill()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while Path(f"/proc/{again}").exists() and "Z" not in state_of(again) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{again}").exists() or "Z" in state_of(again)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_alone_it_answers_over_a_lake_and_ends_in_order(demo_lake: Path, tmp_path: Path) -> None:
    with RunningServer(Settings(lake=demo_lake, sink=False, query_port=0), tmp_path / "server.log") as server:
        assert ask(server.port, "/api/v1/clusters")[1]["rows"][0]["cluster"] == "demo"
        assert ask(server.port, "/")[0] == 200
        assert not server.lines("drain_started")
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--no-sink"], "no lake"),
        (["--query-tokens", "absent"], "the readers' tokens cannot be read"),
        (["--oidc-issuer", "https://issuer.example"], "both an issuer and an audience"),
        (["--oidc-issuer", "http://issuer.example", "--oidc-audience", "a"], "keys must come over https"),
        (["--query-host", "0.0.0.0"], "anybody there could read the lake"),
        (["--no-sink", "--no-query"], "nothing to serve"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], found: str
) -> None:
    assert run(["--lake", str(tmp_path / "lake"), "serve", "--port", "0", "--query-port", "0", *options]) == 2
    assert found in capsys.readouterr().err
