"""Further permissions of a request: tests/cases/authorization/{covering,impersonation}.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.authorization.covering import compacted, describe_rule, uncovered
from pipeline.authorization.documents import rules_from_object
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import UserInfo
from pipeline.stages.authorization.impersonation import impersonation_ways, wanted_users

CASES = Path(__file__).parents[2] / "cases" / "authorization"


def read(name: str) -> Any:
    return yaml.safe_load((CASES / f"{name}.yaml").read_text())


def user_of(value: dict[str, Any]) -> UserInfo:
    return UserInfo(value["username"], value.get("uid", ""), tuple(value.get("groups", ())), value.get("extra", {}))


def question(text: str) -> Attributes:
    verb, _, rest = text.partition(" ")
    if rest.startswith("/"):
        return Attributes(verb, rest)
    what, _, place = rest.partition(" ")
    resource, _, group = what.partition(".")
    namespace, _, name = place.partition("/")
    return (
        Attributes(verb, "", group, resource, "", namespace, name)
        if name
        else Attributes(verb, "", group, resource, "", "", namespace)
    )


@pytest.mark.parametrize("case", read("covering"), ids=lambda case: case["name"])
def test_rules_are_covered_atom_by_atom(case: dict[str, Any]) -> None:
    owner, granted = (rules_from_object({"kind": "Role", "rules": case[part]}) for part in ("owner", "grants"))
    missing = compacted(uncovered(owner, granted))
    assert sorted(map(describe_rule, missing)) == case.get("missing", [])


@pytest.mark.parametrize("case", read("impersonation"), ids=lambda case: case["name"])
def test_impersonation_asks_as_the_server_does(case: dict[str, Any]) -> None:
    requestor, asked = user_of(case["user"]), question(case["asks"])
    version = tuple(case.get("version", (1, 36)))
    found = []
    for wanted in wanted_users(user_of(case["acting"])):
        ways = list(impersonation_ways(requestor, wanted, asked, version))
        assert all(ask.user is requestor for way in ways for ask in way)
        found.append([[str(ask.asked) for ask in way] for way in ways])
    assert found == case["readings"]
