"""Every stage has a gate, a watch, the HTTP API and pages: shown with roles, and with a toy stage of one folder and one row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import api.given
import api.work.gating
import pipeline.stages.assign
import pipeline.stages.registry
from api.cli import run
from api.settings import Settings
from tests.api.commands.test_role_readiness import EMPTY, RULES, files
from tests.pipeline.stages.authorization.test_stage import BY_ALL, PODS, RBAC, binding_of, event, written
from tests.pipeline.stages.test_stages import TOY
from tests.querying import QueryClient
from tests.recording import take_in

SEE = {"rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]}
KEPT = {"kind": "ClusterRole", "metadata": {"name": "see"}, **SEE}
BOB = {"kind": "ClusterRoleBinding", "metadata": {"name": "bob"}, **binding_of("see", "bob")}
YAML = {"Content-Type": "application/yaml"}
BUDGET = {"apiVersion": "toy.example.com/v1", "kind": "ReadBudget", "metadata": {"name": "few-pods"}}
RULES_ASKED = ["matched_units_min=1", "days_min=0", "weekdays_min=1"]

# The log begins with the cluster: its first roles are created in it.
CLUSTER = [
    written(-2, "ClusterRole", "cluster-admin", {"rules": []}),
    written(-1, "ClusterRoleBinding", "cluster-admin", binding_of("cluster-admin", "root")),
    written(1, "ClusterRole", "see", SEE),
    written(2, "ClusterRoleBinding", "all", binding_of("see", "ann")),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann reads pods by a binding to a role; bob and eve try and are refused; one list asks for many pods."""
    return take_in(
        tmp_path_factory.mktemp("surfaces") / "lake",
        [
            *CLUSTER,
            *(event(number, "ann", "get", PODS, BY_ALL) for number in range(10, 14)),
            event(14, "bob", "get", PODS, None),
            event(15, "ann", "list", "/api/v1/namespaces/shop/pods?limit=900", BY_ALL),
            event(16, "eve", "get", PODS, None),
        ],
    )


@pytest.fixture
def gate(lake: Path, tmp_path: Path) -> list[str]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    return ["-q", "--lake", str(lake), "gate", "--rules", str(rules), "-o", "json"]


def entry(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    return dict(found)


def in_folder(folder: Path, *objects: Any) -> str:
    folder.mkdir()
    return str(files(folder, *objects))


def test_a_gate_counts_the_refusals_that_only_the_new_roles_make(
    gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = in_folder(tmp_path / "old", KEPT, BOB), in_folder(tmp_path / "new", EMPTY, BOB)
    assert run([*gate, "-f", new, "--against", old]) == 1
    found = entry(capsys)
    assert (found["stage"], found["policy"], found["status"]) == ("authorization", "authorization", "NEW DENIALS")
    # The role of the base lets bob in, whom the cluster refused. No version lets eve in.
    assert {fate: found["change"][fate]["requests"] for fate in ("new", "kept", "gone")} == {"new": 6, "kept": 1, "gone": 0}
    assert {each["user"] for each in found["counterexamples"]} == {"ann", "bob"}
    assert run([*gate, "-f", old, "--against", new]) == 0
    found = entry(capsys)
    assert (found["status"], found["change"]["gone"]["requests"]) == ("NO NEW DENIALS", 6)


def test_what_a_pull_request_removes_is_gone(gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the removal, the role would stay as the cluster had it."""
    old, new = in_folder(tmp_path / "old", KEPT, BOB), in_folder(tmp_path / "new", BOB)
    assert run([*gate, "-f", new, "--against", old]) == 1
    assert entry(capsys)["change"]["new"]["requests"] == 6


def test_a_gate_on_the_same_roles_passes_on_little_evidence(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = in_folder(tmp_path / "same", EMPTY)
    assert run(["-q", "--lake", str(lake), "gate", "-f", same, "--against", same, "-o", "json"]) == 0
    assert entry(capsys)["status"] == "NO NEW DENIALS"


def test_a_gate_writes_the_formats_of_ci(gate: list[str], tmp_path: Path) -> None:
    old, new = in_folder(tmp_path / "old", KEPT), in_folder(tmp_path / "new", EMPTY)
    names = [tmp_path / f"gate.{ending}" for ending in ("xml", "sarif", "md")]
    written_files = [word for name in names for word in ("--report-file", str(name))]
    assert run([*gate, "-f", new, "--against", old, *written_files]) == 1
    junit, sarif, markdown = (name.read_text() for name in names)
    assert 'name="makes no new denials" classname="authorization"' in junit
    places = [each["locations"][0]["physicalLocation"] for each in json.loads(sarif)["runs"][0]["results"]]
    assert {each["artifactLocation"]["uri"] for each in places} == {f"file://{new}"}
    assert "# Roles against the version before" in markdown
    assert "The change makes new denials." not in markdown
    assert "new denials in 1" in markdown


def test_a_gate_joins_the_reports_of_policies_and_roles(
    gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"
    run([*gate, "-f", str(policy), "-f", in_folder(tmp_path / "roles", EMPTY), "--no-calibrate"])
    report = json.loads(capsys.readouterr().out)
    assert {each["stage"] for each in report["policies"]} == {"validating", "authorization"}
    assert (sorted(report["runs"]), report["things"]) == (["authorization", "validating"], "manifests")


def test_a_watch_reports_the_first_new_refusal(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, growing = tmp_path / "rules.yaml", tmp_path / "lake"
    rules.write_text(RULES)
    take_in(growing, [*CLUSTER, event(10, "bob", "get", PODS, None)], "1.jsonl")
    roles = str(files(tmp_path, EMPTY))
    look = ["-q", "--lake", str(growing), "watch", "-f", roles, "--rules", str(rules), "--once", "--exit-on-denial", "-o", "json"]
    assert run(look) == 0
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert (line["policy"], line["status"]) == ("authorization", "READY")
    take_in(growing, [event(4000, "ann", "get", PODS, BY_ALL)], "2.jsonl")
    assert run(look) == 1
    told = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [(each["event"], each.get("user")) for each in told] == [("denial", "ann"), ("status", None)]


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as found:
        yield found


def manifests(*objects: Any) -> str:
    return yaml.safe_dump_all([{"apiVersion": f"{RBAC}/v1", **each} for each in objects])


@pytest.fixture(scope="module")
def replayed(client: QueryClient) -> dict[str, Any]:
    """The finished job of a replay of roles over HTTP."""
    return client.replayed(manifests(EMPTY), calibrate=True, rule=RULES_ASKED)


def test_roles_are_replayed_over_http(client: QueryClient, replayed: dict[str, Any]) -> None:
    assert replayed["runs"] == {"authorization": replayed["run_id"]}
    verdicts = client.rows(f"/runs/{replayed['run_id']}/verdicts", effect="deny")
    assert [row["user_name"] for row in verdicts if row["flip"] == "newly-denied"] == ["ann"] * 5
    report = client.get(f"/runs/{replayed['run_id']}/readiness", rule=RULES_ASKED)
    (found,) = report["policies"]
    assert (found["stage"], found["status"], found["denials"]["requests"]) == ("authorization", "READY WITH EXEMPTIONS", 5), found[
        "reasons"
    ]
    assert client.get(f"/runs/{replayed['run_id']}")["stage"] == "authorization"
    # Under other rules the figures are counted again; exemptions are not looked for.
    (strict,) = client.get(f"/runs/{replayed['run_id']}/readiness", rule=["days_min=3"])["policies"]
    assert strict["status"] == "NOT READY"


def test_a_mistake_in_posted_roles_is_named_with_its_line(client: QueryClient) -> None:
    response = client.send("POST", "/replays", headers=YAML, content=manifests({**EMPTY, "rules": "none"}))
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("policies:1: ")


def test_the_pages_show_a_role_change_and_lead_back_to_the_form(client: QueryClient, replayed: dict[str, Any]) -> None:
    run_id = replayed["run_id"]
    assert f"/runs/{run_id}/policy?policy=authorization" in client.page("/")
    page = client.page(f"/runs/{run_id}")
    assert "Can these roles be put into force?" in page
    assert "newly denied" in page
    page = client.page(f"/runs/{run_id}/policy?policy=authorization")
    assert "name: see" in page
    assert 'id="cost"' not in page
    form = client.page(f"/try?run={run_id}&policy=authorization")
    assert "kind: ClusterRole" in form
    assert "Role, RoleBinding (authorization)" in form


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry with one more row."""
    stages = (*pipeline.stages.registry.STAGES, TOY)
    for module in (pipeline.stages.registry, api.work.gating):
        monkeypatch.setattr(module, "STAGES", stages)
    monkeypatch.setattr(api.given, "assign", lambda documents: pipeline.stages.assign.assign(documents, stages))
    monkeypatch.setattr("api.ask.run_reads.stage_of", lambda name: {stage.name: stage for stage in stages}[name])
    monkeypatch.setattr("api.pages.of_stage.stage_of", lambda name: {stage.name: stage for stage in stages}[name])


@pytest.mark.usefixtures("with_toy")
def test_a_further_stage_has_all_of_it_by_itself(
    lake: Path, gate: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for path, limit in ((old, "1000"), (new, "10")):
        path.write_text(yaml.safe_dump({**BUDGET, "spec": {"resource": "pods", "limit": limit}}))
    assert run([*gate, "-f", str(new), "--against", str(old)]) == 1
    found = entry(capsys)
    assert (found["stage"], found["policy"], found["change"]["new"]["requests"]) == ("toy", "few-pods", 1)
    assert run(["-q", "--lake", str(lake), "watch", "-f", str(new), "--once"]) == 0
    assert "few-pods: NOT READY" in capsys.readouterr().out
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(new), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["policies"][0]["status"] == "NOT READY"
    assert run(["-q", "--lake", str(lake), "explain", "id-15", "-f", str(new)]) == 0
    assert capsys.readouterr().out == "a list of pods may have 10 objects\n"
    with QueryClient(Settings(lake=lake)) as client:
        assert client.get(f"/runs/{report['run_id']}/readiness")["policies"][0]["policy"] == "few-pods"
        assert "ReadBudget" in client.page(f"/runs/{report['run_id']}/policy?policy=few-pods")
        assert "few-pods" in client.page(f"/runs/{report['run_id']}")


def test_a_called_webhook_is_unknown_and_never_ready(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = {"apiGroups": [RBAC], "apiVersions": ["v1"], "resources": ["clusterroles"], "operations": ["CREATE"]}
    hook = {
        "name": "roles.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://hook.example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    path = tmp_path / "hooks.yaml"
    path.write_text(yaml.safe_dump({**kind, "metadata": {"name": "roles"}, "webhooks": [hook]}))
    assert run(["-q", "--lake", str(lake), "readiness", "-f", str(path), "-o", "json"]) == 0
    found = entry(capsys)
    assert (found["stage"], found["binding"], found["status"]) == ("webhooks", "roles.example.com", "INSUFFICIENT EVIDENCE")
    assert found["exposure"]["requests_unknown"] == found["exposure"]["requests_matched"] == 2
    assert "the log does not show what it would answer" in str(found["unknown_reasons"])


def test_the_first_page_asks_one_question_for_each_kind_and_names_what_was_tried(client: QueryClient) -> None:
    """Two changes of roles are two entries under the question about roles, and not two versions of one thing."""
    binding = {"kind": "ClusterRoleBinding", "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}, "subjects": []}
    other = client.replayed(manifests({**binding, "metadata": {"name": "secondtry"}}))["run_id"]
    text = client.page("/")
    assert text.count("Can these roles be put into force?") >= 1
    assert "ClusterRoleBinding secondtry" in text
    for form, name in (("name=night+shift&is_kept=on", "night shift"), ("name=", "ClusterRoleBinding secondtry")):
        sent = client.send("POST", f"http://127.0.0.1:7444/runs/{other}/label", content=form)
        assert (sent.status_code, sent.headers["location"]) == (303, f"/runs/{other}")
        assert name in client.page("/")
    foreign = client.send("POST", f"http://127.0.0.1:7444/runs/{other}/remove", headers={"Origin": "http://elsewhere.example"})
    assert foreign.status_code == 403
    assert "Remove this replay?" in client.page(f"/runs/{other}/remove")
    assert client.send("POST", f"http://127.0.0.1:7444/runs/{other}/remove").headers["location"] == "/"
    assert "secondtry" not in client.page("/")
