"""Explanations over HTTP and on the page of a request: typed, bounded, with errors as bodies; what decided is never folded away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.beside_runs import kept_manifests, kept_rules
from api.cli import run
from api.routes.explain import Explained
from api.settings import Settings
from api.stages.runs import policies_of_run
from pipeline.manifests.writing import to_yaml
from pipeline.runs import RunStore
from pipeline.stages.registry import VALIDATING
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.written import read_of
from queries import open_lake
from tests.markup import Element, faults, read_page
from tests.querying import QueryClient
from tests.recording import START, deployment, recorded, take_in
from tests.yaml_text import load_yaml, load_yaml_all

CASES: dict[str, Any] = load_yaml((Path(__file__).parents[2] / "cases" / "readiness" / "explain.yaml").read_text())
POLICIES: str = CASES["policies"]
YAML = {"Content-Type": "application/yaml"}
ORIGIN = "http://127.0.0.1:7444"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    web, more = deployment("web", 2, resourceVersion="1"), deployment("web", 9, resourceVersion="2")
    events = [
        recorded("created", START, "create", web),
        recorded("grown", START + timedelta(minutes=1), "update", more),
        recorded("hidden", START + timedelta(minutes=2), "update", deployment("other", 9), level="Metadata"),
        recorded("twice", START + timedelta(minutes=3), "create", deployment("one", 1)),
        recorded("twice", START + timedelta(minutes=4), "create", deployment("two", 9)),
    ]
    events[1]["requestObject"] = deployment("web", 9)
    return take_in(tmp_path_factory.mktemp("explain-http") / "lake", events)


@pytest.fixture(scope="module")
def run_id(lake: Path) -> str:
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("policies", POLICIES)]))
    reader.close()
    run_replay(plan, lake)
    return plan.run_id


@pytest.fixture(scope="module")
def asked(lake: Path, run_id: str) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as client:
        yield client


def policy_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    (explanation,) = found["explanations"]
    (entry,) = [entry for entry in explanation["policies"] if entry["policy"] == name]
    return dict(entry)


def test_a_run_explains_with_its_policies_params_and_old_object(asked: QueryClient, run_id: str) -> None:
    found = asked.get("/requests/lab/grown/explain", run=run_id)
    entry = policy_of(found, "replicas")
    assert (entry["decision"], entry["message"]) == ("deny", "too many replicas")
    operands = {each["expression"]: each["value"] for part in entry["validations"][0]["parts"] for each in part["operands"]}
    assert operands == {"object.spec.replicas": 9, "variables.most": 3}
    assert entry["fields"] == ["object.spec.replicas", "params.data.most"]
    assert entry["param"]["value"]["data"] == {"most": "3"}
    assert entry["nearest"] == "set spec.replicas to 3 (it is 9)"
    pieces = {piece["name"]: piece for piece in found["explanations"][0]["pieces"]}
    assert pieces["object"]["value"]["spec"]["replicas"] == 9
    assert pieces["oldObject"]["value"]["spec"]["replicas"] == 2
    assert all(pieces[name]["source"] and pieces[name]["grade"] for name in ("object", "oldObject"))
    msgspec.convert(found, Explained, strict=False)


def test_posted_policies_explain_as_those_of_a_run(asked: QueryClient, run_id: str) -> None:
    posted = asked.send("POST", "/requests/lab/grown/explain", params={"policy": "replicas"}, headers=YAML, content=POLICIES)
    assert posted.status_code == 200, posted.text
    same = asked.get("/requests/lab/grown/explain", run=run_id)
    for name in ("decision", "message", "fields", "nearest", "evidence"):
        assert policy_of(posted.json(), "replicas")[name] == policy_of(same, "replicas")[name]


def test_the_policies_of_a_run_of_an_earlier_version_are_read(lake: Path) -> None:
    """They were kept under another name."""
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("policies", POLICIES)]), kubernetes_version=(1, 35))
    reader.close()
    stored = RunStore(lake).run(run_replay(plan, lake).run_id)
    text = to_yaml(read_of(parse_policy_set([("policies", POLICIES)]))).encode()
    stored.keep("policies.yaml", text)
    assert kept_manifests(lake, stored.run_id) == text.decode()
    assert kept_rules(lake, stored.run_id, VALIDATING) == parse_policy_set([("manifests", text.decode())])
    stored.keep("manifests.yaml", b"[]")
    assert kept_manifests(lake, stored.run_id) == "[]"


def test_what_is_unknown_comes_with_its_remedy(asked: QueryClient, run_id: str) -> None:
    entry = policy_of(asked.get("/requests/lab/hidden/explain", run=run_id), "replicas")
    assert entry["decision"] == "unknown"
    assert "audit level was Metadata" in entry["missing"][0]["reason"]
    assert "RequestResponse" in entry["missing"][0]["remedy"]


def test_policies_that_were_not_kept_beside_a_run_are_those_of_its_plan(lake: Path, run_id: str) -> None:
    found = policies_of_run(lake, run_id)
    assert found is not None
    kept, given = (to_yaml(read_of(each)) for each in (found, parse_policy_set([("policies", POLICIES)])))
    assert list(load_yaml_all(kept)) == list(load_yaml_all(given))


@pytest.mark.parametrize(
    ("path", "given", "status", "code", "said"),
    [
        ("/requests/lab/nowhere/explain", {}, 404, "not_found", "no request with audit ID 'nowhere'"),
        ("/requests/other/grown/explain", {}, 404, "not_found", "cluster 'other' has no request"),
        ("/requests/lab/grown/explain", {"run": "0123456789abcdef"}, 404, "not_found", "no run '0123456789abcdef'"),
        ("/requests/lab/grown/explain", {"run": "x"}, 422, "bad_parameter", "run"),
        ("/requests/lab/grown/explain", {"at": "soon"}, 422, "bad_parameter", "at"),
        ("/requests/lab/twice/explain", {}, 400, "bad_input", "2 requests have audit ID twice"),
        ("/requests/lab/grown/explain", {}, 409, "not_enough_evidence", "shows a policy that was in force"),
    ],
)
def test_what_cannot_be_explained_is_an_error_as_a_body(
    asked: QueryClient, path: str, given: dict[str, str], status: int, code: str, said: str
) -> None:
    response = asked.send("GET", path, params=given)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert said in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("a: [", 400, "neither YAML nor JSON"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", 400, "found no ValidatingAdmissionPolicy"),
        (POLICIES.replace("object.spec.replicas <=", "object.spec.replicas <= <="), 400, "Syntax error"),
    ],
)
def test_posted_policies_that_no_api_server_takes_are_refused(asked: QueryClient, text: str, status: int, said: str) -> None:
    response = asked.send("POST", "/requests/lab/grown/explain", headers=YAML, content=text)
    assert response.status_code == status
    assert said in response.json()["error"]["message"]
    assert asked.send("POST", "/requests/lab/grown/explain", content=text).status_code == 415


def test_the_time_tells_two_requests_of_one_audit_id_apart(asked: QueryClient, run_id: str) -> None:
    at = (START + timedelta(minutes=4)).isoformat()
    found = asked.get("/requests/lab/twice/explain", run=run_id, at=at)
    assert [each["name"] for each in found["explanations"]] == ["two"]


def test_memory_ends_one_explanation_and_not_the_server(lake: Path, run_id: str) -> None:
    with QueryClient(Settings(lake=lake)) as client:
        client.app.state.explanations._memory_bytes_max = 8 * 1024**2  # less than any replay may be given
        for method, given in (("GET", {"params": {"run": run_id}}), ("POST", {"headers": YAML, "content": POLICIES})):
            response = client.send(method, "/requests/lab/grown/explain", **given)
            assert (response.status_code, response.json()["error"]["code"]) == (422, "too_costly")
        assert client.get("/clusters")["rows"]


def test_an_explanation_that_takes_too_long_is_refused_and_not_started_again(lake: Path, run_id: str) -> None:
    with QueryClient(Settings(lake=lake, query_seconds_max=0.01)) as client:
        for _ in range(2):
            response = client.send("GET", "/requests/lab/grown/explain", params={"run": run_id})
            assert (response.status_code, response.json()["error"]["code"]) == (422, "too_costly")


def request_page(asked: QueryClient, path: str) -> Element:
    """The page once its explanation is there."""
    while "Hindcast computes the explanation" in (text := asked.send("GET", f"{ORIGIN}{path}").text):
        assert '<meta http-equiv="refresh"' in text
    page = read_page(text)
    assert faults(page) == []
    return page


def test_the_page_shows_the_operands_the_params_and_what_decided(asked: QueryClient, run_id: str) -> None:
    page = request_page(asked, f"/runs/{run_id}/request?cluster=lab&audit_id=grown&policy=replicas")
    text = next(page.all("main")).words()
    values = {
        entry.children[0].words(): entry.children[1].words()
        for entry in page.all("div")
        if [child.tag for child in entry.children] == ["dt", "dd"]
    }
    assert values["object.spec.replicas"] == "9"
    assert values["variables.most"] == "3"
    assert "set spec.replicas to 3 (it is 9)" in text
    named = [code.words() for code in page.all("code") if code.attributes.get("class") == "decided"]
    assert named == ["object.spec.replicas", "params.data.most"]
    assert "Evidence: exact: the API server recorded it of this request" in text
    marked = [row.words() for row in page.all("div") if "decided" in row.attributes.get("class", "").split()]
    assert any(row.startswith('most: "3"') for row in marked)
    changes = next(element for element in page.all("section") if element.attributes.get("id", "").startswith("changed-"))
    folded = [details.words() for details in changes.all("details")]
    assert "replicas: 9" in changes.words()
    assert not [words for words in folded if "replicas" in words]


def test_the_page_says_what_was_not_known_and_what_would_make_it_known(asked: QueryClient, run_id: str) -> None:
    text = next(request_page(asked, f"/runs/{run_id}/request?cluster=lab&audit_id=hidden").all("main")).words()
    assert "the audit level was Metadata" in text
    assert "To know it: record writes at level RequestResponse" in text
    assert "insufficient: something that the policy reads is unknown" in text


GROWTH = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: growth}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= oldObject.spec.replicas + 1}]
"""


def test_the_page_says_where_the_lake_got_more_evidence_than_the_replay_had(tmp_path: Path) -> None:
    """A log that arrives after the replay holds the earlier version: the explanation knows it, and the replay did not."""
    lake = tmp_path / "lake"
    sent, stored = deployment("web", 3, resourceVersion="1"), deployment("web", 3, resourceVersion="2")
    take_in(lake, [recorded("updated", START + timedelta(hours=1), "update", sent, answer=stored)])
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("growth", GROWTH)]))
    reader.close()
    run_replay(plan, lake)
    address = f"/runs/{plan.run_id}/request?cluster=lab&audit_id=updated"
    with QueryClient(Settings(lake=lake)) as client:
        assert "older than the evidence" not in next(request_page(client, address).all("main")).words()
    take_in(lake, [recorded("made", START, "create", deployment("web", 2, resourceVersion="1"))], "earlier.jsonl")
    with QueryClient(Settings(lake=lake)) as client:
        text = next(request_page(client, address).all("main")).words()
    assert "it said unknown about growth, and over the lake as it is now Hindcast says admit" in text


PERMISSION = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: permission}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]
  validations: [{expression: "authorizer.group('').resource('nodes').check('delete').allowed()"}]
"""


def test_a_posted_policy_is_explained_with_the_authorizers_that_the_cluster_has(tmp_path: Path) -> None:
    """RBAC is known and does not allow it. Another authorizer may."""
    lake = tmp_path / "lake"
    take_in(lake, [recorded("asked", START, "update", deployment("web", 3))])
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        listed = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{kind}List",
            "metadata": {"resourceVersion": "1"},
            "items": [],
        }
        file = tmp_path / f"{kind.lower()}s.json"
        file.write_text(json.dumps(listed))
        at = (START - timedelta(minutes=1)).isoformat()
        assert run(["-q", "--lake", str(lake), "ingest", "--snapshot", str(file), "--cluster", "lab", "--at", at]) == 0
    with QueryClient(Settings(lake=lake)) as client:
        decisions = {}
        for others in ("none", "any"):
            given: dict[str, Any] = {"params": {"other_authorizers": others}, "headers": YAML, "content": PERMISSION}
            found = client.send("POST", "/requests/lab/asked/explain", **given)
            decisions[others] = policy_of(found.json(), "permission")["decision"]
        assert decisions == {"none": "deny", "any": "unknown"}


def test_the_page_says_why_there_is_no_explanation(asked: QueryClient) -> None:
    text = next(request_page(asked, "/request?cluster=lab&audit_id=grown").all("main")).words()
    assert "There is no explanation: neither the log nor a snapshot shows a policy that was in force" in text


def test_the_costs_of_a_run_are_counted_by_a_job_and_shown_on_the_page_of_the_policy(asked: QueryClient, run_id: str) -> None:
    path = f"{ORIGIN}/runs/{run_id}/policy?policy=replicas&binding=replicas-all"
    assert asked.send("GET", f"/runs/{run_id}/costs").status_code == 404
    text = asked.page(path.removeprefix(ORIGIN))
    assert "Count the costs" in text
    started = asked.send("POST", f"{ORIGIN}/runs/{run_id}/costs?policy=replicas&binding=replicas-all")
    assert (started.status_code, started.headers["location"]) == (303, f"{path.removeprefix(ORIGIN)}#cost")
    while "are being counted" in (text := asked.send("GET", path).text):
        assert faults(read_page(text)) == []
    page = read_page(text)
    assert faults(page) == []
    found = asked.get(f"/runs/{run_id}/costs")
    (cost,) = [each for each in found["policies"] if each["policy"] == "replicas"]
    assert cost["evaluations"] > cost["unknown"] > 0
    figures = {row["what"]: row for row in cost["figures"]}
    assert 0 < figures["validations[0]"]["median"] <= figures["validations[0]"]["most"] < figures["validations[0]"]["limit"]
    section = next(part for part in page.all("section") if part.attributes.get("id") == "cost")
    rows = {row.children[0].words(): [cell.words() for cell in row.children[1:]] for row in section.all("tr")}
    assert rows["validations[0]"][2:4] == [f"{figures['validations[0]'][name]:,}" for name in ("most", "limit")]
    near = cost["nearest"][0]
    assert any(near["audit_id"] in link.attributes["href"] for link in section.all("a") if "/request?" in link.attributes["href"])
