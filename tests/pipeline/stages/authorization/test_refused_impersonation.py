"""What a refused impersonation needed, by its text: tests/cases/authorization/refused_impersonation.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.authorization import OtherAuthorizers
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import UserInfo
from pipeline.stages.authorization.needs import ANY_NAME, NeedKind, meet
from pipeline.stages.authorization.overlay import NoRbac, Proposal
from pipeline.stages.authorization.refused_impersonation import refused_need
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases/authorization/refused_impersonation.yaml").read_text())
USER = UserInfo("u")
ASKED = Attributes("get", "", "", "pods", "", "shop", "web")


def words(asked: Attributes) -> str:
    what = f"{asked.resource}.{asked.group}".rstrip(".") + (f"/{asked.subresource}" if asked.subresource else "")
    name = "?" if asked.name == ANY_NAME else asked.name
    return f"{asked.verb} {what} {asked.namespace}/{name}" if asked.namespace else f"{asked.verb} {what} {name}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_text_shows_what_was_needed_at_least(case: dict[str, Any]) -> None:
    need = refused_need(USER, ASKED, case["message"], tuple(case.get("version", (1, 36))))
    assert need.kind is NeedKind.IMPERSONATION
    ways = dict.fromkeys(tuple(words(ask.asked) for ask in way) for way in need.readings[0])
    assert list(map(list, ways)) == case["ways"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_refusal_is_certain_where_no_way_is_left(case: dict[str, Any]) -> None:
    need = refused_need(USER, ASKED, case["message"], tuple(case.get("version", (1, 36))))
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": case["roles"]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    overlay = Proposal.from_objects([(role, "r"), (binding, "b")], is_only=True).over(NoRbac())
    assert meet(need, overlay, OtherAuthorizers.NODE).allowed is {"refused": False, "unknown": None}[case["outcome"]]


def test_a_token_of_two_nodes_names_no_node() -> None:
    asked = 'resource "nodes" in API group "authentication.k8s.io" at the cluster scope'
    message = f'nodes "n1" is forbidden: User "u" cannot impersonate:associated-node {asked}'
    user = UserInfo("u", extra={"authentication.kubernetes.io/node-name": ("n1", "n2")})
    need = refused_need(user, ASKED, message, (1, 36))
    assert all("n2" not in words(ask.asked) for way in need.readings[0] for ask in way)
