"""Credentials go in by the webhook and by files; then no byte that anything wrote or answered may hold one."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.settings import Settings
from ingest.lake import Lake
from pipeline.report.formats import TEXT_FORMATS
from tests.canaries import CANARY, EVENTS, ODD, PATHS, contents, raw
from tests.recording import START, recorded
from tests.serving import RunningServer

pytestmark = pytest.mark.server

_SECONDS_MAX = 120.0
TOKEN = "0123456789abcdef-one"
# A value that is no credential, at every place that the policies quote: the search must find it where it finds no canary.
SHOWN = "SHOWN51c9a3f7"
# What stands in the places of the canaries, for messages and audit annotations to quote.
QUOTED = (
    "object.data.k",
    "object.stringData.k",
    "object.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
    "object.spec.token",
    "object.spec.request",
    "object.spec.workload.manifests[0].data.k",
    "object.spec.containers[0].env[0].value",
    "object.spec.triggers[0].github.secret",
    "object.secret",
    "object.command.join(' ')",
    "request.name",
    "request.userInfo.extra['example.com/access-token'].join(' ')",
    "request.userInfo.username",
)
WIDGET = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "n", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SHOWN}},
    "data": {"k": SHOWN},
    "spec": {"token": SHOWN, "containers": [{"env": [{"name": "a", "value": SHOWN}]}]},
}
OF_RUN = ("/readiness", "/verdicts", "/plan")
RULES = {"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]}


def policies() -> list[dict[str, Any]]:
    """A policy that denies everything and quotes what it saw; and a Secret that stands in the same folder."""
    api, shown = "admissionregistration.k8s.io/v1", [f"'saw ' + {quoted}" for quoted in QUOTED]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": RULES,
        "validations": [{"expression": "false", "messageExpression": each} for each in shown],
        "auditAnnotations": [{"key": f"saw-{number}", "valueExpression": each} for number, each in enumerate(shown)],
    }
    binding = {"policyName": "quotes", "validationActions": ["Deny"]}
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "quotes"}, "spec": spec},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "quotes"}, "spec": binding},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": CANARY}},
    ]


class Asked:
    """Asks both ports, and keeps every answer with its head."""

    def __init__(self, server: RunningServer) -> None:
        self.ports = {"sink": server.port, "query": server.port_of("query_listening")}
        self.answers: list[tuple[str, bytes]] = []

    def ask(self, port: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=_SECONDS_MAX)
        try:
            names = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            response = connection.getresponse()
            found = response.read()
            self.answers.append((f"{method} {path}", str(response.getheaders()).encode() + found))
            return response.status, found
        finally:
            connection.close()

    def page(self, path: str) -> None:
        status, found = self.ask("query", "GET", path)
        assert status == 200, (path, found)


def wait_for_events(path: Path, wanted: int) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while stored(path) < wanted:
        assert time.monotonic() < deadline, f"the lake never held {wanted} events"
        time.sleep(0.05)


def stored(path: Path) -> int:
    if not (path / "manifest.sqlite").exists():
        return 0
    lake = Lake.open(path)
    try:
        return sum(file.rows for file in lake.manifest.files("events"))
    finally:
        lake.close()


def event_list(events: list[bytes]) -> bytes:
    return b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[%s]}' % b",".join(events)


def provoke(asked: Asked) -> None:
    """Mistakes of senders and of those who ask, each with a credential in it."""
    own, secret = {"Authorization": f"Bearer {TOKEN}"}, json.dumps({"apiVersion": "v1", "kind": "Secret", "data": CANARY})
    yaml, stranger, broken = {"Content_Type": "application/yaml"}, {"Authorization": f"Bearer {CANARY}"}, secret[:-1].encode()
    gate, empty = json.dumps({"policies": [["s.yaml", secret]]}).encode(), event_list([])
    for port, method, path, body, headers, status in (
        ("sink", "POST", "/audit/lab", empty, stranger, 401),
        ("sink", "POST", f"/audit/lab?token={CANARY}", empty, {}, 401),
        ("sink", "POST", "/audit/lab", empty[:-2] + broken, own, 400),
        ("sink", "POST", "/audit/lab", event_list([broken]), own, 400),
        ("sink", "POST", "/audit/lab", secret.encode(), own, 400),
        ("sink", "POST", "/audit/lab", b"[" + broken, own, 400),
        ("sink", "POST", "/audit/lab", broken, own | {"Content_Encoding": "gzip"}, 415),
        ("sink", "GET", "/audit/lab", b"", own | {"Cookie": CANARY}, 405),
        ("query", "GET", f"/api/v1/events?token={CANARY}", b"", stranger, 400),
        ("query", "POST", "/api/v1/replays", broken, yaml, 400),
        ("query", "POST", "/api/v1/gates", gate, {}, 400),
        ("query", "POST", "/api/v1/gates", broken, {}, 400),
    ):
        assert asked.ask(port, method, path, body, **headers)[0] == status, (path, body)


def replayed(asked: Asked, manifests: bytes) -> str:
    """The run of a replay that is posted, once it is finished."""
    _, body = asked.ask("query", "POST", "/api/v1/replays?exemptions=false", manifests, Content_Type="application/yaml")
    job, deadline = json.loads(body), time.monotonic() + _SECONDS_MAX
    while job["state"] != "finished":
        assert job["state"] != "failed", job
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
        job = json.loads(asked.ask("query", "GET", f"/api/v1/replays/{job['job_id']}")[1])
    return f"/runs/{job['run_id']}"


def test_no_byte_that_is_written_or_answered_holds_a_credential(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports stand outside of the lake, and are searched with it; what went in stands in a folder that is not."""
    lake, given, made = tmp_path / "made" / "lake", tmp_path / "given", tmp_path / "made"
    given.mkdir()
    made.mkdir()
    (given / "identities").write_text(f"lab token:{TOKEN}\n")
    manifests = given / "policies.yaml"
    manifests.write_text("---\n".join(json.dumps(each) + "\n" for each in policies()))
    events = [*EVENTS, recorded("shown", START, "create", WIDGET, user=SHOWN)]
    (given / "audit.log").write_bytes(b"".join(line + b"\n" for line in [*map(raw, EVENTS), *ODD]))
    settings = Settings(
        lake=lake,
        port=0,
        query_port=0,
        drain_interval_seconds=0.1,
        disk_free_bytes_min=0,
        identities=given / "identities",
        redact_paths=tuple(PATHS),
        log_level="debug",
    )
    with RunningServer(settings, made / "server.log") as server:
        asked = Asked(server)
        body = event_list([*map(raw, events), *ODD])
        assert asked.ask("sink", "POST", "/audit/lab", body, Authorization=f"Bearer {TOKEN}")[0] == 200
        provoke(asked)
        wait_for_events(lake, len(events))
        paths = [part for path in PATHS for part in ("--redact-paths", path)]
        assert run(["--lake", str(lake), "ingest", str(given / "audit.log"), "--cluster", "files", *paths]) == 0
        of_run = replayed(asked, manifests.read_bytes())
        for path in ("/", of_run, "/violations", "/evidence", f"{of_run}/requests", *(f"/api/v1{of_run}{each}" for each in OF_RUN)):
            asked.page(path)
        for path in ("/api/v1/events", "/api/v1/requests", "/api/v1/denials", "/api/v1/violations"):
            asked.page(path)
        for event in events:
            asked.page(f"/api/v1/requests/lab/{event['auditID']}")
        for event in (events[1], events[-1]):  # each explanation takes a process
            asked.page(f"{of_run}/request?cluster=lab&audit_id={event['auditID']}")
        assert server.stop() == 0
    for event in [*events[::13], events[-1]]:
        run(["--lake", str(lake), "explain", event["auditID"], "--cluster", "lab", "-f", str(manifests), "-o", "wide"])
    reports = [f"--report-file={made / 'report'}{form.endings[-1]}" for form in TEXT_FORMATS.values()]
    command = [
        "readiness",
        "-f",
        str(manifests),
        "--no-calibrate",
        "--no-exemptions",
        "--workers",
        "1",
        "--export",
        str(made / "tables"),
    ]
    assert run(["--lake", str(lake), *command, *reports]) == 0
    said = [*asked.answers, ("commands", "".join(capsys.readouterr()).encode())]
    written = [(str(path.relative_to(made)), data) for path, data in contents(made)]
    assert [name for name, data in (*said, *written) if CANARY.encode() in data] == []
    # The search sees the values that stay, in verdicts, answers, reports and explanations.
    seen = {name.split("/")[-1].split("?")[0] for name, data in (*said, *written) if SHOWN.encode() in data}
    assert seen >= {"shown", "request", "readiness", "verdicts.parquet", "report.html", "report.sarif.json", "commands"}, seen
