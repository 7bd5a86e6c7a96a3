"""`hindcast gate --server`: the server's answer is the answer that the command gives over the same lake."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from api.cli import run
from api.settings import Settings
from api.work.gating import GateQuestion
from api.work.remote import Server
from ingest.errors import InputError
from tests.api.http.test_readers import AUDIENCE, ISSUER, key_file, token
from tests.querying import QueryClient
from tests.recording import Log, deployment, take_in
from tests.serving import RunningServer

pytestmark = pytest.mark.server

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations:
    - expression: object.spec.replicas <= 5
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Audit]}
"""
FAILED = [{"policy": "replicas", "binding": "replicas", "message": "m", "expressionIndex": 0, "validationActions": ["Audit"]}]
TOKEN = "0123456789abcdef0123456789abcdef"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small log with a policy that only audits, whose failures are recorded."""
    log = Log()
    for number in range(40):
        failed = {"validation.policy.admission.k8s.io/validation_failure": json.dumps(FAILED)} if number % 10 > 5 else {}
        log.write("create", deployment(f"web-{number}", number % 10), annotations=failed)
    return take_in(tmp_path_factory.mktemp("gate-server") / "lake", log.lines)


@pytest.fixture(scope="module")
def served(lake: Path) -> Iterator[str]:
    """The URL of a server that asks for a token."""
    readers = lake.with_name("readers")
    readers.write_text(f"ci token:{TOKEN}\n")
    with RunningServer(Settings(lake=lake, sink=False, query_port=0, query_tokens=readers), lake.with_name("log")) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def policies(tmp_path: Path) -> tuple[Path, Path]:
    """The version before, which audits, and the new one, which denies."""
    base, new = tmp_path / "base.yaml", tmp_path / "new.yaml"
    base.write_text(POLICY)
    new.write_text(POLICY.replace("[Audit]", "[Deny]"))
    return base, new


@pytest.mark.parametrize(
    "asked", [["--against", "base.yaml"], ["--allow-exemptions", "--no-calibrate", "--redact", "spec.replicas"]]
)
def test_the_server_says_what_the_command_says(
    lake: Path,
    served: str,
    policies: tuple[Path, Path],
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINDCAST_TOKEN", TOKEN)
    found = []
    for where in (["--lake", str(lake), "--workers", "1"], ["--lake", "not-here", "--server", served]):
        files = [tmp_path / f"{len(found)}{ending}" for ending in (".md", ".xml", ".sarif", ".json")]
        written = [word for file in files for word in ("--report-file", str(file))]
        code = run(["gate", "-f", "new.yaml", *asked, *where, *written])
        told = capsys.readouterr()
        # Progress and names of files differ; the window and the verdict do not.
        said = [line for line in told.err.splitlines() if "%" not in line and not line.startswith("report: ")]
        found.append((code, told.out, said, [file.read_text() for file in files]))
    assert found[0] == found[1]
    assert found[0][0] == 1
    assert "new.yaml" in found[1][3][2]


def test_an_error_names_the_file_and_keeps_its_exit_code(
    served: str,
    policies: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HINDCAST_TOKEN", TOKEN)
    base, new = map(str, policies)
    broken = tmp_path / "broken.yaml"
    broken.write_text(POLICY.replace("expression:", "expression: object.nothing( #", 1))
    ask = ["-q", "gate", "--server", served, "--no-calibrate", "-f"]
    assert run([*ask, str(broken)]) == 2
    assert f"hindcast: {broken}:" in capsys.readouterr().err
    assert run([*ask, new, "--until", "2001-01-01"]) == 3
    assert "no request lies in the window" in capsys.readouterr().err
    assert run([*ask, new, "--against", base, "--renamed", "other=replicas"]) == 2
    assert "--against has no policy named 'other'" in capsys.readouterr().err


def test_who_asks_must_be_known(
    served: str,
    policies: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HINDCAST_TOKEN", raising=False)
    ask = ["-q", "gate", "--server", served, "-f", str(policies[1])]
    assert run(ask) == 2
    assert "does not know who asks (401): no token was shown; set HINDCAST_TOKEN" in capsys.readouterr().err
    wrong = tmp_path / "token"
    wrong.write_text("f" * 32)
    assert run([*ask, "--token-file", str(wrong)]) == 2
    assert "this token is not known" in capsys.readouterr().err
    wrong.write_text("two words")
    assert run([*ask, "--token-file", str(wrong)]) == 2
    assert "does not hold one token" in capsys.readouterr().err


def test_a_server_that_cannot_answer_is_named_with_the_reason(
    lake: Path, policies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HINDCAST_TOKEN", TOKEN)

    def refused(url: str) -> str:
        assert run(["-q", "gate", "-f", str(policies[1]), "--server", url]) == 2
        return capsys.readouterr().err

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        assert "cannot be reached: Connection refused" in refused(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "is not a URL" in refused("hindcast.example:7444")
    assert "everybody on the way could read the token" in refused("http://hindcast.example:7444")
    # The sink's port knows no gate, and neither does an older version.
    with RunningServer(Settings(lake=lake, port=0, query=False, drain=False), lake.with_name("sink-log")) as sink:
        assert "cannot answer a gate (404); give the address of the pages" in refused(f"http://127.0.0.1:{sink.port}")


def test_a_gate_over_a_limit_of_the_server_says_which(
    lake: Path, policies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HINDCAST_TOKEN", raising=False)
    settings = Settings(lake=lake, sink=False, query_port=0, replay_seconds_max=0.01)
    with RunningServer(settings, lake.with_name("limits-log")) as server:
        ask = ["-q", "gate", "-f", str(policies[1]), "--server", f"http://127.0.0.1:{server.port}", "--no-calibrate"]
        assert run(ask) == 2
    assert "it took longer than 0.01 s; give a shorter window" in capsys.readouterr().err


def test_over_tls_only_readers_of_a_trusted_server_get_an_answer(
    lake: Path, policies: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CI trusts the authority of the server, and the server lets in only a group of the issuer's users."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    settings = Settings(
        lake=lake,
        sink=False,
        query_port=0,
        tls_certificate=tmp_path / "cert.pem",
        tls_key=tmp_path / "key.pem",
        oidc_issuer=ISSUER,
        oidc_audience=AUDIENCE,
        oidc_jwks=str(key_file(tmp_path)),
        oidc_groups=("sre",),
    )
    with RunningServer(settings, tmp_path / "server-log") as server:
        ask = ["-q", "gate", "-f", str(policies[1]), "--no-calibrate", "--server", f"https://127.0.0.1:{server.port}"]
        monkeypatch.setenv("HINDCAST_TOKEN", token())
        assert run(ask) == 2
        assert "the certificate cannot be verified" in capsys.readouterr().err
        trusted = [*ask, "--server-ca", str(tmp_path / "ca.pem")]
        monkeypatch.setenv("HINDCAST_TOKEN", token(groups=["dev"]))
        assert run(trusted) == 2
        assert "does not allow this reader to ask" in capsys.readouterr().err
        monkeypatch.setenv("HINDCAST_TOKEN", token())
        assert run(trusted) == 1
        assert "NOT READY" in capsys.readouterr().out


def test_an_interrupted_gate_ends_the_replay_on_the_server(demo_lake: Path, policies: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(demo_lake, tmp_path / "lake")
    with RunningServer(Settings(lake=tmp_path / "lake", sink=False, query_port=0), tmp_path / "log") as server:
        url = f"http://127.0.0.1:{server.port}"

        def jobs() -> list[dict[str, Any]]:
            with urllib.request.urlopen(f"{url}/api/v1/replays", timeout=20) as answer:
                rows: list[dict[str, Any]] = json.load(answer)["rows"]
                return rows

        command = [sys.executable, "-c", "from api.cli import main; main()", "gate", "-f", str(policies[1]), "--server", url]
        environment = {name: value for name, value in os.environ.items() if name != "HINDCAST_TOKEN"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
            while not jobs():
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate()
        assert process.returncode == 130, complaint
        assert "Traceback" not in complaint
        while (state := jobs()[0]["state"]) not in ("cancelled", "finished", "failed"):
            time.sleep(0.05)
        assert state == "cancelled"


def test_a_policy_that_the_server_failed_to_judge_is_no_success(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No expression is known to fail in this way, so the answer says it."""
    answered = Server.answer
    defect = "policy replicas could not be judged in 2 requests: a defect: ValueError: x"
    monkeypatch.setattr(Server, "answer", lambda *given: replace(answered(*given), defects=(defect,)))
    monkeypatch.setenv("HINDCAST_TOKEN", TOKEN)
    (tmp_path / "all.yaml").write_text(POLICY.replace("<= 5", "<= 50"))
    ask = ["-q", "gate", "-f", str(tmp_path / "all.yaml"), "--server", served, "--no-calibrate", "--allow-insufficient"]
    assert run(ask) == 4
    assert defect in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"[]", "the question cannot be read: Expected `object`"),
        (b"{", "the question cannot be read"),
        (b'{"policies": [], "wokers": 3}', "the question has the unknown field 'wokers'; use the same version"),
        (b'{"policies": [["a.yaml"]]}', "the question cannot be read"),
    ],
)
def test_another_question_is_refused(body: bytes, found: str) -> None:
    with pytest.raises(InputError, match=r".") as error:
        GateQuestion.from_json(body)
    assert found in str(error.value)


def test_the_api_refuses_what_is_not_a_gate(lake: Path) -> None:
    with QueryClient(Settings(lake=lake)) as client:
        empty = client.send("POST", "/gates", headers=JSON, content=b'{"policies": []}')
        assert (empty.status_code, empty.json()["error"]["message"]) == (400, "the question has no policies")
        rules = {"policies": [["p.yaml", POLICY]], "rules": {"no_such": 1}, "calibrate": False}
        refused = client.send("POST", "/gates", headers=JSON, content=json.dumps(rules))
        assert refused.json()["error"]["message"] == "rules: no readiness rule is named 'no_such'"
        job_id = "0" * 32
        assert client.refused(f"/gates/{job_id}")[0] == 404
        bombs = {"policies": [["bomb.yaml", "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(120_000))]]}
        response = client.send("POST", "/gates", headers=JSON, content=json.dumps(bombs))
        assert "stands for more than" in response.json()["error"]["message"]
