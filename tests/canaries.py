"""Events with a canary in every place that holds a credential, and the search for it in all that was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from tests.yaml_text import load_yaml

CANARY = "CANARY7f3a9c51"
CASES = load_yaml((Path(__file__).parent / "cases/ingest/credentials.yaml").read_text())
GROUPS = {
    "tokenreviews": "authentication.k8s.io",
    "certificatesigningrequests": "certificates.k8s.io",
    "works": "work.example.com",
    "oauthclients": "oauth.openshift.io",
    "buildconfigs": "build.openshift.io",
}


def build(case: dict[str, Any], number: int = 0) -> dict[str, Any]:
    """An event in the field order of the API server, with the canary in its places."""
    resource, _, subresource = case.get("of", "").partition("/")
    place = {"resource": resource, "namespace": "n", "name": "s", "apiGroup": GROUPS.get(resource), "apiVersion": "v1"}
    reference = place | {"subresource": subresource}
    base: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/n/{resource}/s",
        "verb": "create",
        "user": {"username": "jo"},
        "impersonatedUser": None,
        "userAgent": "kubectl",
        "objectRef": {name: value for name, value in reference.items() if value},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestObject": None,
        "responseObject": None,
        "requestReceivedTimestamp": "2026-11-01T00:00:00.000000Z",
        "stageTimestamp": "2026-11-01T00:00:00.000000Z",
        "annotations": {"authorization.k8s.io/decision": "allow"},
    }
    event = {name: value for name, value in (base | case["event"]).items() if value is not None}
    found: dict[str, Any] = json.loads(json.dumps(event).replace("CANARY", CANARY))
    return found


def raw(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


EVENTS = [build(case, number) for number, case in enumerate(CASES["events"])]
ODD = [text.replace("CANARY", CANARY).encode() for text in CASES["odd"]]
PATHS = sorted({path for case in CASES["events"] for path in case.get("paths", ())})


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder. A compressed file comes a second time, with its content."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        yield path, path.read_bytes()
        if path.suffix == ".parquet":
            yield path, repr(pq.read_table(path, partitioning=None).to_pylist()).encode()
        elif path.suffix == ".zst":
            yield path, zstandard.ZstdDecompressor().decompress(path.read_bytes())


def assert_clean(folder: Path) -> None:
    found = [path.name for path, data in contents(folder) if CANARY.encode() in data]
    assert found == []
