"""Recorded requests under proposed roles, case by case: tests/cases/authorization/role_changes.yaml."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.schema import EVENTS
from pipeline.authorization import OtherAuthorizers
from pipeline.authorization.attributes import request_info
from pipeline.history.event import Event, Row
from pipeline.history.versions import LogVersions
from pipeline.stages.authorization import identity_of, needs_of
from pipeline.stages.authorization.judging import judge, recorded_of
from pipeline.stages.authorization.overlay import NoRbac, Overlay, Proposal
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[3] / "cases" / "authorization" / "role_changes.yaml"
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def row_of(request: dict[str, Any]) -> Row:
    """A row of `events` for a request of the cases."""
    verb, _, uri = request["asks"].partition(" ")
    info = request_info(METHODS.get(verb, "GET"), uri)
    assert info is not None
    recorded = request["recorded"]
    decision = {} if recorded == "nothing" else {"authorization.k8s.io/decision": "forbid" if recorded == "forbid" else "allow"}
    reason = request.get("reason", "") if recorded in ("forbid", "nothing") else recorded
    bodies = {
        f"{name}_object": json.dumps(request[key])
        for name, key in (("request", "body"), ("response", "response"))
        if key in request
    }
    return {
        **dict.fromkeys(EVENTS.names),
        "cluster": "c",
        "audit_id": "a",
        "stage": "ResponseComplete",
        "level": "RequestResponse",
        "ts": START,
        "stage_ts": START,
        "verb": verb,
        "request_uri": uri,
        "user_name": request["user"],
        "user_groups": request.get("groups", ["system:authenticated"]),
        "api_group": info.group,
        "api_version": info.version,
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "name": request.get("name", info.name),
        "code": request.get("code", 403 if recorded == "forbid" else 200),
        "status_message": request.get("message", ""),
        "annotations": {**decision, "authorization.k8s.io/reason": reason, **request.get("annotations", {})},
        "notes": {},
        "flags": [],
        **bodies,
    }


def overlay_of(case: dict[str, Any]) -> Overlay:
    cluster = Proposal.from_objects((value, "cluster") for value in case.get("cluster", ()))
    files = Proposal.from_objects(((value, "files") for value in case["files"]), case.get("only", False))
    return files.over(cluster.over(NoRbac()))


@pytest.mark.parametrize("case", load_yaml(CASES.read_text())["cases"], ids=lambda case: case["name"])
def test_a_request_flips_as_the_rules_say(case: dict[str, Any]) -> None:
    row = row_of(case["request"])
    event = Event.from_row(row)
    needs = needs_of(event, identity_of(row), LogVersions(), (1, 36))
    found = judge(needs, recorded_of(event), overlay_of(case), OtherAuthorizers.NODE)
    assert (str(found.flip), found.rule if "by" in case else "") == (case["then"], case.get("by", "")), found
    assert found.need == case.get("need", "request")
    if "reason" in case:
        assert found.reason == case["reason"]
