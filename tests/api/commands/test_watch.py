"""`hindcast watch` over a lake that grows under it: its lines, its exit code, its metrics, and where it goes on."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.cli import run
from pipeline.runs import Defect
from pipeline.stages.validating.execute import run_replay
from tests.recording import START, deployment, recorded, take_in

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5, message: too many}]
"""


def arrive(folder: Path, minute: int, replicas: int) -> None:
    """One more Deployment in the lake."""
    event = recorded(f"id-{minute}", START + timedelta(minutes=minute), "create", deployment(f"web-{minute}", replicas))
    take_in(folder / "lake", [event], f"{minute}.jsonl")


@pytest.fixture
def watch(tmp_path: Path) -> list[str]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "rules.yaml").write_text("{matched_units_min: 2, days_min: 0, weekdays_min: 1}")
    arrive(tmp_path, 0, 1)
    arrive(tmp_path, 1, 1)
    paths = ["-f", str(tmp_path / "policy.yaml"), "--rules", str(tmp_path / "rules.yaml")]
    return ["-q", "--lake", str(tmp_path / "lake"), "watch", *paths]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def samples(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert set(sample.labels) <= {"policy", "binding"}
            found[sample.name] = sample.value
    return found


def test_one_look_after_the_other(watch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = tmp_path / "hindcast.prom"
    look = [*watch, "--once", "--exit-on-denial", "-o", "json", "--metrics-file", str(metrics)]
    assert run(look) == 0
    (line,) = lines(capsys)
    assert (line["event"], line["status"]) == ("status", "READY")
    shown = samples(metrics.read_text())
    assert shown["hindcast_policy_status"] == 3
    assert shown["hindcast_policy_denied_units"] == shown["hindcast_policy_unknown_share"] == 0
    assert shown["hindcast_watch_last_run_timestamp_seconds"] > START.timestamp()
    # Nothing was recorded to compare with, so there is no agreement, rather than a perfect one.
    assert "hindcast_policy_agreement" not in shown
    arrive(tmp_path, 90, 9)
    assert run(look) == 1
    denial, status = lines(capsys)
    assert (denial["event"], denial["was"], denial["audit_id"], denial["message"]) == ("denial", "READY", "id-90", "too many")
    assert status["status"] == "NOT READY"
    assert samples(metrics.read_text())["hindcast_policy_status"] == 0
    # The next look goes on from there.
    assert run(look) == 0
    assert [line["event"] for line in lines(capsys)] == ["status"]
    assert len(list((tmp_path / "lake" / "watch").iterdir())) == 1


def test_a_wave_that_was_ready_is_not_any_more(watch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "waves"
    rollout = ["-q", "--lake", str(tmp_path / "lake"), "rollout", "-f", str(tmp_path / "policy.yaml"), "--write", str(folder)]
    assert run([*rollout, "--workers", "1"]) == 0
    capsys.readouterr()
    wave = [*watch[:4], "-f", str(folder / "limit-check-1.yaml"), *watch[6:], "--once", "-o", "json"]
    assert run(wave) == 0
    (line,) = lines(capsys)
    assert (line["binding"], line["status"]) == ("limit-deny-first", "READY")
    arrive(tmp_path, 90, 9)
    assert run(wave) == 0
    denial, status = lines(capsys)
    assert (denial["event"], denial["was"], status["status"]) == ("denial", "READY", "NOT READY")


class Taker(BaseHTTPRequestHandler):
    """A receiver that keeps what it gets, and answers with the codes that it was given before it takes all."""

    got: ClassVar[list[tuple[str, Any]]] = []
    codes: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = self.codes.pop(0) if self.codes else 200
        if code == 200:
            self.got.append((self.path, body))
        self.send_response(code)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    Taker.got.clear()
    Taker.codes.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_first_denials_are_sent_in_the_form_of_each_receiver(
    watch: list[str], tmp_path: Path, receiver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "slack-url"
    secret.write_text(f"{receiver}/hook\n")
    look = [*watch, "--once", "--notify", f"alertmanager={receiver}", "--notify", f"slack=@{secret}"]
    look += ["--notify", f"webhook={receiver}/any"]
    assert run(look) == 0
    assert Taker.got == []  # the first look tells nothing: these requests are not new
    arrive(tmp_path, 90, 9)
    assert run(look) == 0
    sent = dict(Taker.got)
    ((alert,), slack, plain) = sent["/api/v2/alerts"], sent["/hook"], sent["/any"]
    assert alert["labels"] == {"alertname": "HindcastDenial", "policy": "limit"}
    assert "first would-be denial of limit" in alert["annotations"]["summary"]
    assert "shop/Deployment/web-90 by alice: too many (id-90)" in slack["text"]
    assert (plain["event"], plain["audit_id"], plain["policy"]) == ("denial", "id-90", "limit")
    assert len(Taker.got) == 3
    assert run(look) == 0
    assert len(Taker.got) == 3


def test_news_that_a_receiver_did_not_take_is_sent_again(
    watch: list[str], tmp_path: Path, receiver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    look = [*watch, "--once", "--notify", f"webhook={receiver}/secret-path"]
    assert run(look) == 0
    arrive(tmp_path, 90, 9)
    Taker.codes.append(503)
    capsys.readouterr()
    assert run(look) == 2
    said = capsys.readouterr().err
    assert "webhook at 127.0.0.1 answered 503" in said
    assert "secret-path" not in said
    assert run(look) == 0
    assert [body["audit_id"] for _, body in Taker.got] == ["id-90"]


@pytest.mark.parametrize(
    "given", ["pager=https://x.example", "slack", "slack=ftp://x.example/", "slack=@/no/such/file", "webhook=http://["]
)
def test_a_receiver_that_cannot_be_is_named(watch: list[str], given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*watch, "--once", "--notify", given]) == 2
    assert "--notify: " in capsys.readouterr().err


def test_it_ends_at_the_first_denial_that_arrives(watch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*watch, "--once"]) == 0
    feeder = threading.Timer(0.2, arrive, (tmp_path, 60, 9))
    feeder.start()
    try:
        assert run([*watch, "--interval", "0.05", "--exit-on-denial"]) == 1
    finally:
        feeder.join()
    out = capsys.readouterr().out
    assert "first would-be denial of limit, which was READY: shop/Deployment/web-60 by alice: too many (id-60)" in out


def test_it_serves_metrics_and_can_be_interrupted(watch: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from api.cli import main; main()", *watch[1:], "--metrics-port", "0", "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        address = process.stderr.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        assert "limit: READY" in process.stdout.readline()
        while "hindcast_policy_status" not in (shown := samples(fetched(address))):
            time.sleep(0.05)
        assert shown["hindcast_policy_matched_requests"] == 2
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
        assert process.returncode == 130
        assert "interrupted" in complaint
        assert "Traceback" not in complaint


@pytest.mark.parametrize("trouble", ["full disk", "lake away"])
def test_it_goes_on_after_trouble_that_passes(watch: list[str], tmp_path: Path, trouble: str) -> None:
    command = [sys.executable, "-c", "from api.cli import main; main()", *watch, "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            assert "limit: READY" in process.stdout.readline()
            if trouble == "full disk":
                limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
                arrive(tmp_path, 60, 9)
                told = process.stderr.readline()
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
            else:
                away = tmp_path / "away"
                away.mkdir()
                (tmp_path / "lake").rename(away / "lake")
                arrive(away, 60, 9)
                told = process.stderr.readline()
                (away / "lake").rename(tmp_path / "lake")
            assert "it looks again" in told
            assert "first would-be denial of limit" in process.stdout.readline()
            assert "limit: NOT READY" in process.stdout.readline()
        finally:
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate()
        assert process.returncode == 130
        assert "Traceback" not in told + complaint


def fetched(address: str) -> str:
    with urllib.request.urlopen(address) as answer:
        text: str = answer.read().decode()
        return text


def test_a_policy_that_hindcast_fails_to_judge_is_no_success(
    watch: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No expression is known to fail in this way, so the summary of the run says it."""
    found = (Defect("limit", "a defect: ValueError: x", 2),)
    monkeypatch.setattr(
        "pipeline.stages.validating.stage.run_replay", lambda *given, **more: replace(run_replay(*given, **more), defects=found)
    )
    assert run([*watch, "--once", "--interval", "0.05"]) == 4
    assert capsys.readouterr().err.count("policy limit could not be judged in 2 requests: a defect: ValueError: x") == 1


def test_bad_places_are_named(watch: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "cursor.json"
    broken.write_text("{")
    assert run([*watch, "--once", "--cursor", str(broken)]) == 2
    assert "this is not a cursor of a watch" in capsys.readouterr().err
    assert run([*watch, "--once", "--metrics-file", str(tmp_path / "no" / "m.prom")]) == 2
    assert "--metrics-file" in capsys.readouterr().err
    assert run([*watch, "--once", "--cursor", "/dev/null/x.json"]) == 2
    assert "--cursor: /dev/null/x.json cannot be" in capsys.readouterr().err
