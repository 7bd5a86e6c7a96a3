"""The roles and bindings that every cluster has: tests/cases/authorization/default_roles.yaml over the bundled snapshot."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.authorization import authorize
from pipeline.request import UserInfo
from pipeline.stages.authorization.overlay import NoRbac, Proposal
from tests.pipeline.authorization.test_authorization import CASES, asked
from tests.yaml_text import load_yaml

SNAPSHOT = Path(__file__).parents[3] / "api" / "demo" / "snapshot"
KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


@cache
def recorded() -> tuple[dict[str, Any], ...]:
    """The default objects: those that the server itself wrote."""
    found = []
    for kind in KINDS:
        with (SNAPSHOT / f"{kind}.json.zst").open("rb") as stream:
            listed = json.load(io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(stream), encoding="utf-8"))
        found += [
            {"kind": listed["kind"].removesuffix("List"), **item}
            for item in listed["items"]
            if (item["metadata"].get("labels") or {}).get("kubernetes.io/bootstrapping") == "rbac-defaults"
        ]
    return tuple(found)


def bound(user: str, role: str, namespace: str = "") -> dict[str, Any]:
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": "given", **({"namespace": namespace} if namespace else {})},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }


@pytest.mark.parametrize("case", load_yaml((CASES / "default_roles.yaml").read_text()), ids=lambda case: case["name"])
def test_default_roles_allow_what_they_are_for(case: dict[str, Any]) -> None:
    more = [bound(case["user"], **case["bind"])] if "bind" in case else []
    # The aggregated roles are gathered from the default ones: those of the snapshot have the rules of one more role.
    objects = Proposal.from_objects(((value, "") for value in [*recorded(), *more]), is_only=True).over(NoRbac())
    user = UserInfo(case["user"], groups=tuple(case["groups"]))
    wanted = {**dict.fromkeys(case.get("allows", ()), True), **dict.fromkeys(case.get("denies", ()), False)}
    assert {text: authorize(objects, user, asked(text)).allowed for text in wanted} == wanted
