"""The recorder webhook: each review is on disk before it is answered, every request is allowed, and the answer carries its uid."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.settings import Settings
from ingest.lake import Lake
from tests.serving import RunningServer, send

pytestmark = pytest.mark.server
UID = "1b36a00d-f8e0-4f83-93ad-7c6229b64785"
ALICE = {"username": "alice", "groups": ["devs", "system:authenticated"]}


def review(uid: str = UID, **more: Any) -> bytes:
    place = {"group": "", "version": "v1", "resource": "configmaps"}
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": place,
        "requestResource": place,
        "name": "cm",
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": ALICE,
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "cm", "namespace": "shop"}},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def settings_for(folder: Path, **changes: Any) -> Settings:
    given: dict[str, Any] = {"port": 0, "query": False, "drain_interval_seconds": 0.2, "disk_free_bytes_min": 0}
    return Settings(**{"lake": folder / "lake", **given, **changes})


def ask(server: RunningServer, body: bytes, path: str = "/admission/prod") -> tuple[int, dict[str, Any]]:
    return send(server.connect(None), "POST", f"{path}?timeout=5s", body)


def test_reviews_are_stored_and_allowed(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with RunningServer(settings, tmp_path / "server.log") as server:
        status, answer = ask(server, review())
        assert status == 200
        assert answer == {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": UID, "allowed": True, "auditAnnotations": {f"review-{UID}": ""}},
        }
        assert ask(server, b"{}")[0] == 400
        assert b"hindcast_sink_reviews_stored_total 1.0" in server.get("/metrics")[1]
        deadline = time.monotonic() + 60
        while [path for path in settings.spool.iterdir() if path.name != "lock"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.stop() == 0
    with closing(Lake.open(settings.lake)) as lake:
        (row,) = [row for path in lake.files() for row in pq.read_table(path, partitioning=None).to_pylist()]
    assert (row["cluster"], row["audit_id"], row["user_groups"], row["code"]) == ("prod", UID, ALICE["groups"], None)


def test_without_space_nothing_is_denied(tmp_path: Path) -> None:
    with RunningServer(settings_for(tmp_path, disk_free_bytes_min=1 << 60), tmp_path / "server.log") as server:
        status, answer = ask(server, review())
    # failurePolicy Ignore admits the request, and the API server notes in the audit event that the webhook failed.
    assert (status, answer["error"]["code"]) == (503, "disk_full")


def test_the_path_may_show_the_token(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    (tmp_path / "identities").write_text(f"prod token:{token}\n")
    with RunningServer(settings_for(tmp_path, identities=tmp_path / "identities"), tmp_path / "server.log") as server:
        answers = [
            ask(server, review(), path)[0] for path in ("/admission/prod", "/admission/prod/wrong", f"/admission/prod/{token}")
        ]
        assert (answers, ask(server, review(), f"/admission/other/{token}")[0]) == ([401, 401, 200], 403)
