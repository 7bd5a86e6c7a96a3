"""The token of Hindcast's own recorder in a lake that was made before addresses were redacted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.checks.checkup import token_findings
from ingest.lake import Lake
from ingest.maintain import compact, remove_retired, with_tokens
from ingest.redaction.redact import Redactor
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from tests.canaries import CANARY, assert_clean, build, contents, raw

URL = f"https://h.example.com:7443/admission/prod-1/{CANARY}"
OF = {"validatingwebhookconfigurations": "admissionregistration.k8s.io"}
AT = datetime(2026, 11, 1, tzinfo=UTC)


def configuration(url: str) -> dict[str, Any]:
    webhook = {"name": "recorder.example.com", "clientConfig": {"url": url}}
    applied = json.dumps({"webhooks": [webhook]})
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "r", "uid": "u", "resourceVersion": "1", "annotations": annotations},
        "webhooks": [webhook],
    }


def events(url: str) -> list[dict[str, Any]]:
    reference = {"resource": "validatingwebhookconfigurations", "name": "r", "apiGroup": "admissionregistration.k8s.io"}
    written = build({"of": "validatingwebhookconfigurations", "event": {"requestObject": configuration(url)}}, 1)
    failed = build(
        {
            "of": "pods",
            "event": {"responseStatus": {"code": 500, "message": f'failed to call webhook: Post "{url}?timeout=2s": EOF'}},
        },
        2,
    )
    return [written | {"objectRef": reference | {"apiVersion": "v1"}}, failed, build({"of": "pods", "event": {}}, 3)]


def made(path: Path, url: str, redactor: Redactor | None) -> Lake:
    lake = Lake.create(path / "lake")
    log, snapshot = path / "audit.log", path / "webhooks.json"
    log.write_bytes(b"".join(raw(event) + b"\n" for event in events(url)))
    kind = "ValidatingWebhookConfigurationList"
    snapshot.write_text(json.dumps({"kind": kind, "apiVersion": "admissionregistration.k8s.io/v1", "items": [configuration(url)]}))
    ingest_files(lake, [log], "c", 0.0, redactor)
    ingest_snapshot(lake, [snapshot], "c", AT, redactor)
    return lake


def test_a_lake_of_today_never_has_it(tmp_path: Path) -> None:
    lake = made(tmp_path, URL, Redactor())
    assert_clean(lake.path)
    assert list(token_findings(lake)) == []


def test_an_older_lake_is_told_and_cleaned(tmp_path: Path) -> None:
    lake = made(tmp_path, URL, None)
    (finding,) = token_findings(lake)
    assert (finding.kind, finding.count) == ("token_in_lake", 3)
    before = [row for path in lake.files() for row in pq.read_table(path, partitioning=None).to_pylist()]
    with lake.writer() as writer:
        compact(writer, AT.timestamp())
        remove_retired(writer, AT.timestamp() + 100_000)
    assert_clean(lake.path)
    assert with_tokens(lake) == {}
    after = [row for path in lake.files() for row in pq.read_table(path, partitioning=None).to_pylist()]
    assert [row["audit_id"] for row in sorted(after, key=lambda row: row["audit_id"])] == ["id-1", "id-2", "id-3"]
    by_id = {row["audit_id"]: row for row in after}
    assert dict(by_id["id-1"]["notes"])["redacted"] == "requestObject:url"
    assert json.loads(by_id["id-1"]["request_object"])["webhooks"][0]["clientConfig"]["url"].endswith("/admission/REDACTED")
    assert by_id["id-2"]["status_message"].endswith('/admission/REDACTED?timeout=2s": EOF')
    # What has no address is as it was.
    assert by_id["id-3"] == next(row for row in before if row["audit_id"] == "id-3")
    assert any("REDACTED" in repr(data) for _, data in contents(lake.path))


@pytest.mark.parametrize("url", ["https://h/admission/REDACTED", "https://h/validate", "https://h/admission"])
def test_other_addresses_are_no_token(tmp_path: Path, url: str) -> None:
    lake = made(tmp_path, url, None)
    assert with_tokens(lake) == {}
