"""Pages and answers over events that no API server writes: whole, and without an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.settings import Settings
from ingest.lake import Lake
from tests.markup import faults, read_page
from tests.querying import QueryClient
from tests.recording import START, deployment, recorded, take_in

ORIGIN = "http://127.0.0.1:7444"
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
DENIED = {"metadata": {}, "code": 422, "reason": "Invalid", "message": "ValidatingAdmissionPolicy 'p' denied request: no"}


def _events() -> list[dict[str, Any]]:
    """Failures of no policy, of no user and of no object; a denial of no user."""
    nameless = recorded("nameless", START, "create", deployment("a", 9)) | {"annotations": {FAILURE: json.dumps([{}])}}
    userless = recorded("userless", START, "create", deployment("b", 9)) | {"annotations": {FAILURE: '[{"policy":"p"}]'}}
    aimless = recorded("aimless", START, "create", deployment("c", 9)) | {"annotations": {FAILURE: '[{"policy":"p"}]'}}
    denied = recorded("denied", START, "create", deployment("d", 9)) | {"responseStatus": DENIED}
    for event in (userless, denied):
        event["user"] = None
    del aimless["objectRef"]
    bodies = ({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": found} for found in (None, 7, [], {"managedFields": 7}))
    odd = [recorded(f"odd-{number}", START, "update", deployment("e", 9), answer=body) for number, body in enumerate(bodies)]
    return [nameless, userless, aimless, denied, *odd]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("odd") / "lake"
    Lake.create(path).close()
    take_in(path, _events(), "odd.jsonl")
    with QueryClient(Settings(lake=Path(path), query_seconds_max=200)) as client:
        yield client


def test_lists_and_requests_are_whole_pages(client: QueryClient) -> None:
    for path in ("/violations", "/violations?kind=denials", "/evidence"):
        response = client.send("GET", f"{ORIGIN}{path}")
        assert response.status_code == 200, path
        page = read_page(response.text)
        assert faults(page) == [], path
        links = [link.attributes["href"] for link in page.all("a")]
        for link in (each for each in links if each.startswith("/request?")):
            answer = client.send("GET", f"{ORIGIN}{link}")
            assert answer.status_code == 200, link
            assert faults(read_page(answer.text)) == [], link


@pytest.mark.parametrize("number", range(4))
def test_a_request_with_an_odd_body_is_a_page(client: QueryClient, number: int) -> None:
    cluster = client.send("GET", f"{ORIGIN}/api/v1/clusters").json()
    name = json.dumps(cluster).split('"cluster": "')[1].split('"')[0]
    response = client.send("GET", f"{ORIGIN}/request?cluster={name}&audit_id=odd-{number}")
    assert response.status_code == 200, response.text
    assert client.send("GET", f"{ORIGIN}/api/v1/requests/{name}/odd-{number}").status_code == 200
