"""Replays over HTTP: started, followed, cancelled, refused; what they finish is the command's run. Each is a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.posted import BYTES_MAX, check_posted
from api.settings import Settings
from api.work.jobs import CheckTime
from ingest.errors import InputError
from pipeline.runs import RunStore
from pipeline.runs.window import Window
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.querying import ORIGIN, QueryClient

POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
YAML = {"Content-Type": "application/yaml"}
# A few hundred requests: enough to run, little to wait for.
SHORT: dict[str, Any] = {"until": "2026-11-21T03:24:55Z", "exemptions": False}
_PATIENCE_SECONDS = 300.0


@pytest.fixture(scope="module")
def lake(calibrated_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replays") / "lake"
    shutil.copytree(calibrated_lake, path)
    return path


@pytest.fixture(scope="module")
def asked(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as client:
        yield client


def registry() -> str:
    return (POLICIES / "image-registry.yaml").read_text()


@pytest.fixture(scope="module")
def finished(asked: QueryClient) -> dict[str, Any]:
    response = asked.send("POST", "/replays", params={"calibrate": True}, headers=YAML, content=registry())
    assert response.status_code == 202, response.text
    assert response.headers["location"] == f"/api/v1/replays/{response.json()['job_id']}"
    return asked.ended(response.json()["job_id"])


def test_a_finished_replay_is_the_run_of_the_command(asked: QueryClient, lake: Path, finished: dict[str, Any]) -> None:
    assert finished["state"] == "finished"
    assert finished["done"] == finished["planned"] > 0
    reader = open_lake(lake)
    plan = plan_replay(reader, load_policy_set([POLICIES / "image-registry.yaml"]))
    reader.close()
    assert plan.run_id == finished["run_id"]
    run = asked.get(f"/runs/{plan.run_id}")
    summary = run_replay(plan, lake)
    assert run["summary"]["verdicts"] == summary.verdicts > 0
    assert run["policies"] == ["image-registry"]
    assert [row["run_id"] for row in asked.get("/runs")["rows"]].count(plan.run_id) == 1
    assert asked.get(f"/runs/{plan.run_id}/plan")["requests"] == plan.requests


ASKING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: may-read-nodes}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "authorizer.group('').resource('nodes').check('get').allowed()"}]
"""


def test_rules_and_authorizers_are_those_of_the_command(asked: QueryClient, lake: Path, tmp_path: Path) -> None:
    until = "2026-11-21T03:24:55Z"
    given = {"until": until, "calibrate": True, "rule": "days_min=5", "other_authorizers": "any"}
    response = asked.send("POST", "/replays", params=given, headers=YAML, content=ASKING)
    assert response.status_code == 202, response.text
    job = asked.ended(response.json()["job_id"])
    assert job["state"] == "finished", job
    over_http = asked.get(f"/runs/{job['run_id']}/readiness", rule="days_min=5")
    (tmp_path / "rules.yaml").write_text("days_min: 5")
    (tmp_path / "policy.yaml").write_text(ASKING)
    file = tmp_path / "report.json"
    files = ["-f", str(tmp_path / "policy.yaml"), "--rules", str(tmp_path / "rules.yaml"), "--report-file", str(file)]
    others = ["--until", until, "--other-authorizers", "any", "--workers", "1"]
    assert run(["--quiet", "--lake", str(lake), "readiness", *files, *others]) == 0
    by_command = json.loads(file.read_text())
    for report in (over_http, by_command):
        for entry in report["policies"]:
            entry.pop("source", None)
    assert over_http["run_id"] == by_command["run_id"]
    assert over_http["rules"]["days_min"] == 5
    assert over_http["policies"] == by_command["policies"]


def test_verdicts_come_in_pages_with_their_requests(asked: QueryClient, finished: dict[str, Any]) -> None:
    path = f"/runs/{finished['run_id']}/verdicts"
    summary = asked.get(f"/runs/{finished['run_id']}")["summary"]
    rows = asked.rows(path, limit=499)
    assert len(rows) == summary["verdicts"]
    assert len({json.dumps(row) for row in rows}) == len(rows)
    denied = asked.rows(path, effect="deny", limit=50)
    assert denied == [row for row in rows if row["effect"] == "deny"]
    assert all(row["user_name"] and row["verb"] for row in rows)
    namespace, user = denied[0]["namespace"], denied[0]["user_name"]
    assert asked.rows(path, namespace=namespace, user=user, decision=["deny", "error"]) == [
        row for row in rows if row["namespace"] == namespace and row["user_name"] == user and row["decision"] in ("deny", "error")
    ]
    assert asked.rows(path, policy="another") == []
    assert asked.rows(path, binding="") == [row for row in rows if row["binding"] is None]
    assert asked.rows(path, grain="expression") == [row for row in rows if row["expression_index"] is not None]


def test_verdicts_as_a_whole_are_as_many_as_the_summary_counts(asked: QueryClient, finished: dict[str, Any]) -> None:
    (counts,) = asked.get(f"/runs/{finished['run_id']}")["summary"]["bindings"]
    path = f"/runs/{finished['run_id']}/verdicts"
    assert len(asked.rows(path, grain="request", effect="deny")) == counts["deny"] > 0
    assert len(asked.rows(path, effect="deny")) > counts["deny"]
    assert len(asked.rows(path, grain="request", limit=1000)) == counts["matched"] + counts["nomatch"]


def test_readiness_of_a_run_is_the_report_with_its_fidelity(asked: QueryClient, finished: dict[str, Any]) -> None:
    path = f"/runs/{finished['run_id']}/readiness"
    report = asked.get(path)
    (policy,) = {entry["policy"] for entry in report["policies"]}
    assert policy == "image-registry"
    assert report["kind"] == "ReadinessReport"
    assert report["rules"]["days_min"] != 0.25
    assert report["policies"][0]["fidelity"]["compared"] > 0
    # As the command's, the report looked for exemptions, each with what it hides and an end; the first on an object has its patch.
    exemptions = report["policies"][0]["exemptions"]
    assert exemptions
    assert all(each["denied_requests"] <= each["hides_requests"] and each["expires"] for each in exemptions)
    assert {each["target"] for each in exemptions} == {each["target"] for each in exemptions if each["patch"]}
    assert asked.get(path, rule=["days_min=0.25", "matched_units_min=3"])["rules"]["days_min"] == 0.25


def test_a_replay_is_followed_by_events_until_it_is_over(asked: QueryClient, finished: dict[str, Any]) -> None:
    response = asked.send("GET", f"/replays/{finished['job_id']}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text == f"event: replay\ndata: {json.dumps(finished)}\n\n"
    policies = registry().replace("name: image-registry", "name: image-registry-followed")
    job = asked.send("POST", "/replays", params=SHORT, headers=YAML, content=policies).json()
    told = [
        json.loads(line[6:])
        for line in asked.send("GET", f"/replays/{job['job_id']}/events").text.splitlines()
        if line[:5] == "data:"
    ]
    assert told[-1]["state"] == "finished"
    assert [entry["done"] for entry in told] == sorted(entry["done"] for entry in told)


def test_a_cancelled_replay_ends_its_process_and_can_be_started_again(asked: QueryClient, lake: Path) -> None:
    policies = registry().replace("name: image-registry", "name: image-registry-cancelled")
    job = asked.send("POST", "/replays", params=SHORT, headers=YAML, content=policies).json()
    cancelled = asked.send("DELETE", f"/replays/{job['job_id']}").json()
    assert cancelled["state"] in ("cancelled", "finished")
    assert asked.get(f"/replays/{job['job_id']}") == cancelled
    assert not list((lake / "runs").glob(f"{job['run_id']}/summary.json")) or cancelled["state"] == "finished"
    again = asked.send("POST", "/replays", params=SHORT, headers=YAML, content=policies).json()
    assert again["run_id"] == job["run_id"]
    assert asked.ended(again["job_id"])["state"] == "finished"


def test_the_same_replay_twice_at_one_time_is_one_run(lake: Path) -> None:
    policies = registry().replace("name: image-registry", "name: image-registry-twice")
    with QueryClient(Settings(lake=lake, replays_max=2)) as client:
        jobs = [client.send("POST", "/replays", params=SHORT, headers=YAML, content=policies).json() for _ in range(2)]
        found = [client.ended(job["job_id"]) for job in jobs]
    assert [job["state"] for job in found] == ["finished", "finished"]
    assert len({job["run_id"] for job in found}) == 1


def test_a_replay_that_waits_for_another_process_says_so_and_blocks_no_other_reader(lake: Path, tmp_path: Path) -> None:
    """A run that this process holds is a replay without end; the server has one slot for long replays."""
    readers = {name: {"Authorization": f"Bearer {name * 40}"} for name in ("a", "b")}
    (tmp_path / "readers").write_text("".join(f"{name} token:{name * 40}\n" for name in readers))
    held = registry().replace("name: image-registry", "name: image-registry-held")
    reader = open_lake(lake)
    window = Window(None, datetime.fromisoformat(SHORT["until"]))
    run = RunStore(lake).run(plan_replay(reader, parse_policy_set([("policies", held)]), window).run_id)
    reader.close()
    with QueryClient(Settings(lake=lake, replays_max=1, query_tokens=tmp_path / "readers")) as client:

        def posted(reader: str, policies: str) -> dict[str, Any]:
            answer = client.send("POST", "/replays", params=SHORT, headers=YAML | readers[reader], content=policies)
            assert answer.status_code == 202, answer.text
            job: dict[str, Any] = answer.json()
            return job

        def until(job: dict[str, Any], is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not is_so(job) and time.monotonic() < deadline:
                time.sleep(0.05)
                job = client.send("GET", f"/replays/{job['job_id']}", headers=readers["a"]).json()
            assert is_so(job), job
            return job

        with run.owned():
            long = posted("a", held)
            words = f"waits for process {os.getpid()}, which makes run {run.run_id}"
            assert until(long, lambda job: bool(job["waits_for"]))["waits_for"] == words
            page = client.send("GET", f"{ORIGIN}/replays/{long['job_id']}", headers=readers["a"]).text
            assert words in page
            short = posted("b", registry().replace("name: image-registry", "name: image-registry-short"))
            assert until(short, lambda job: job["ended_ts"] is not None)["state"] == "finished"
            assert until(long, lambda job: True)["ended_ts"] is None
        ended = until(long, lambda job: job["ended_ts"] is not None)
        assert (ended["state"], ended["waits_for"]) == ("finished", "")


def test_what_waits_is_bounded_and_can_be_cancelled(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.work.jobs.WAITING_MAX", 2)
    monkeypatch.setattr("api.routes.jobs._SETTLE_SECONDS", 0.0)
    with QueryClient(Settings(lake=lake)) as client:
        answers = [client.send("POST", "/replays", headers=YAML, content=registry()) for _ in range(5)]
        statuses = [answer.status_code for answer in answers]
        assert 429 in statuses
        refused = answers[statuses.index(429)]
        assert refused.headers["retry-after"]
        for answer in answers:
            if answer.status_code == 202:
                client.send("DELETE", f"/replays/{answer.json()['job_id']}")
        assert {job["state"] for job in client.get("/replays")["rows"]} <= {"cancelled", "finished"}


def test_a_job_ends_with_the_server(lake: Path) -> None:
    policies = registry().replace("name: image-registry", "name: image-registry-left")
    with QueryClient(Settings(lake=lake)) as client:
        job_id = client.send("POST", "/replays", params=SHORT, headers=YAML, content=policies).json()["job_id"]
        job = client.app.state.jobs.get(job_id)
    assert job.is_over


@pytest.mark.parametrize(
    ("body", "headers", "given", "status", "found"),
    [
        ("a: [b", YAML, {}, 400, "policies:2: neither YAML nor JSON"),
        ('{"kind": "List", "items": []}', {"Content-Type": "application/json"}, {}, 400, "found no ValidatingAdmissionPolicy"),
        (registry().replace("expression:", "expression: object.nothing( #"), YAML, {}, 400, "policies:"),
        (registry(), {"Content-Type": "application/xml"}, {}, 415, "found 'application/xml'"),
        (registry(), {}, {}, 415, "found none"),
        (b"\xff\xfe\xfa", YAML, {}, 400, "not UTF-8 at byte 0"),
        ("x" * (BYTES_MAX + 1), YAML, {}, 413, "larger than 1,048,576 bytes"),
        (registry(), YAML, {"since": "soon"}, 400, "since: 'soon' is not a time"),
        (registry(), YAML, {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, 400, "not before"),
        (registry(), YAML, {"kubernetes_version": "new"}, 400, "'new' is not a version"),
        (registry(), YAML, {"workers": "8"}, 400, "'workers' is not a parameter here"),
        (registry(), YAML, {"calibrate": "perhaps"}, 422, "query.calibrate"),
    ],
)
def test_policies_that_cannot_be_replayed_are_refused_with_the_place(
    asked: QueryClient, body: str | bytes, headers: dict[str, str], given: dict[str, str], status: int, found: str
) -> None:
    response = asked.send("POST", "/replays", params=given, headers=headers, content=body)
    assert response.status_code == status, response.text
    assert found in response.json()["error"]["message"]


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", [bomb(12), "[" * 5_000, "- " * 200, "a: &a [*a]", "\n".join(f"b{n}: [1]" for n in range(150_000))])
def test_a_text_that_stands_for_too_much_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^policies:\d+: (stands for more than|nested deeper|the alias \*a refers to itself)"):
        check_posted(text)


@pytest.mark.parametrize("text", ["", "a: 1", registry(), "a: [b", bomb(3), "\0", "*nobody"])
def test_any_other_text_is_left_to_its_reader(text: str) -> None:
    check_posted(text)


def test_the_processes_of_replays_leave_nothing_behind(asked: QueryClient, finished: dict[str, Any]) -> None:
    if not Path("/proc").exists():
        pytest.skip("there is no /proc here")
    deadline = time.monotonic() + 300
    while (left := _replayers()) and time.monotonic() < deadline:
        time.sleep(0.05)  # one that was told to end may need a moment
    assert not left


def _replayers() -> list[int]:
    """The processes that are forked for replays and explanations of this process."""
    loaders = [pid for pid in _children(os.getpid()) if b"multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert loaders
    return [pid for loader in loaders for pid in _children(loader)]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for path in tasks.iterdir() for child in path.joinpath("children").read_text().split()]


def many(expression: str, count: int) -> str:
    """A policy with this validation many times over."""
    start = registry().split("validations:")[0]
    return start.rstrip() + "\n  validations:\n" + f'  - expression: "{expression}"\n' * count


def test_mistakes_beyond_number_are_told_in_few_words(asked: QueryClient) -> None:
    """12,000 errors were one line, and the job stayed planned for ever."""
    response = asked.send("POST", "/replays", headers=YAML, content=many("x", 12_000))
    assert response.status_code == 400, response.text
    assert "and 11,980 more expressions" in response.json()["error"]["message"]


def test_a_line_that_is_too_long_ends_the_job(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.work.jobs._LINE_BYTES_MAX", 16)
    with QueryClient(Settings(lake=lake)) as client:
        answer = client.send("POST", "/replays", headers=YAML, content=registry())
        assert answer.status_code >= 400, answer.text
        (job,) = client.get("/replays")["rows"]
        events = client.send("GET", f"/replays/{job['job_id']}/events").text  # they end
    assert job["state"] == "failed"
    assert job["error"]["message"] == "what the replay's process told cannot be understood"
    assert events.count("event: replay") == 1


@pytest.mark.parametrize(
    ("bounds", "text", "status", "found"),
    [
        # A busy machine is not the sender's mistake.
        (CheckTime(60, 0.0), registry(), 429, "were not read within 0 s"),
        (CheckTime(1, 600.0), "- 1\n" * 195_000, 422, "took more than 1 s of processor time"),
    ],
)
def test_reading_manifests_is_bounded_by_its_own_work(lake: Path, bounds: CheckTime, text: str, status: int, found: str) -> None:
    with QueryClient(Settings(lake=lake)) as client:
        client.app.state.jobs._check_time = bounds
        answer = client.send("POST", "/replays", params=SHORT, headers=YAML, content=text)
        assert client.get("/replays")["rows"] == []
    assert (answer.status_code, found in answer.json()["error"]["message"]) == (status, True), answer.text


def test_a_replay_without_enough_memory_says_so(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.ask.query_app.memory_bytes", lambda given: 64 * 1024**2)
    with QueryClient(Settings(lake=lake)) as client:
        answer = client.send("POST", "/replays", params=SHORT, headers=YAML, content=registry())
        assert client.get("/replays")["rows"] == []  # its manifests cannot even be read
    assert answer.status_code == 422
    assert "memory than a replay may take (64 MiB" in answer.json()["error"]["message"]


@pytest.mark.parametrize("bytes_max", [3_000, 100_000])  # less than a file, and less than all files
def test_a_replay_that_writes_too_much_ends_and_leaves_nothing(lake: Path, bytes_max: int) -> None:
    with QueryClient(Settings(lake=lake, replay_output_bytes_max=bytes_max)) as client:
        client.send("POST", "/replays", headers=YAML, content=many("object.metadata.name + 'x' == ''", 150))
        (job,) = client.get("/replays")["rows"]
        job = client.ended(job["job_id"])
    assert job["state"] == "failed"
    assert f"the replay writes more than it may ({bytes_max:,} bytes)" in job["error"]["message"], job
    assert job["run_id"] is None or not (lake / "runs" / job["run_id"]).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts it")
def test_a_command_without_enough_memory_says_so(lake: Path) -> None:
    """One that would not even start with so little is refused before; here it is let through."""
    script = (
        "import sys\nfrom api import confinement\nfrom api.cli import main\nconfinement.MEMORY_BYTES_MIN = 0\n"
        "from pipeline.stages.validating import planning\n"  # loads the engines first
        f"sys.argv = ['hindcast', '-q', '--lake', {str(lake)!r}, 'replay', '-f', {str(POLICIES)!r}, '--workers', '1']\nmain()\n"
    )
    environment = {**os.environ, "HINDCAST_MEMORY_BYTES_MAX": str(130 * 1024**2)}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "each process of this command may take 130 MiB" in ended.stderr
    assert "--memory-bytes-max" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it")
def test_a_replay_ends_with_its_server_whatever_it_is_doing(lake: Path) -> None:
    """The server is killed, and the replay neither reads its input nor lets another thread run."""
    deaf = (
        "import os; from pipeline.runs.lifetime import end_with_parent; end_with_parent(os.getppid()); "
        "print(os.getpid(), flush=True); sum(range(10**12))"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {deaf!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as started:
        assert started.stdout is not None
        replay = int(started.stdout.readline())
        started.kill()
        started.wait()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while Path(f"/proc/{replay}").exists() and "Z" not in Path(f"/proc/{replay}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_rollout_of_a_run_names_what_to_apply_and_whom_to_write_to(asked: QueryClient, finished: dict[str, Any]) -> None:
    path = f"/runs/{finished['run_id']}/rollout"
    (found,) = asked.get(path)["rollouts"]
    first = found["waves"][0]
    assert first["why"] == "nothing would have been denied"
    assert first["manifests"][0]["spec"]["validationActions"] == ["Deny", "Audit"]
    assert first["removals"] == [
        ["kubectl", "delete", "validatingadmissionpolicybinding", first["manifests"][0]["metadata"]["name"]]
    ]
    assert {"namespace", "unit", "user", "example"} <= set(found["waves"][-2]["needed"][0])
    assert "/runs/" in asked.send("GET", path, headers={"Accept": "text/html"}, follow_redirects=False).headers["location"]
    assert asked.send("GET", path, params={"rules": "x"}).status_code == 400


def test_what_has_no_waves_says_so(asked: QueryClient) -> None:
    role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: none}}"
    response = asked.send("POST", "/replays", headers=YAML, content=role)
    job = asked.ended(response.json()["job_id"])
    refused = asked.send("GET", f"/runs/{job['run_id']}/rollout")
    assert refused.status_code == 409
    assert "roles cannot be enforced namespace by namespace" in refused.json()["error"]["message"]
