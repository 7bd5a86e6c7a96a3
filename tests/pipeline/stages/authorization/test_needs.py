"""Further permissions of a request: tests/cases/authorization/{covering,compacting,ownership,aggregation,impersonation}.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.authorization.covering import compacted, describe_rule, uncovered
from pipeline.authorization.documents import rules_from_object
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import Known, UserInfo
from pipeline.stages.authorization.grants import changes_only_ownership
from pipeline.stages.authorization.impersonation import impersonation_ways, wanted_users
from pipeline.stages.authorization.overlay import NoRbac, Proposal
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[3] / "cases" / "authorization"


def read(name: str) -> Any:
    return load_yaml((CASES / f"{name}.yaml").read_text())


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


@pytest.mark.parametrize("case", read("compacting"), ids=lambda case: case["name"])
def test_rules_that_differ_only_by_verb_are_joined(case: dict[str, Any]) -> None:
    rules = rules_from_object({"kind": "Role", "rules": case["rules"]})
    joined = compacted(rules)
    assert sorted(map(describe_rule, joined)) == case["joined"]
    assert (uncovered(joined, rules), uncovered(rules, joined)) == ([], []), "both grant the same"


@pytest.mark.parametrize("case", read("ownership"), ids=lambda case: case["name"])
def test_an_update_of_ownership_grants_nothing(case: dict[str, Any]) -> None:
    def role(value: dict[str, Any] | None) -> dict[str, Any]:
        if value is None:
            return {}
        return {"kind": "Role", **value, "metadata": {"name": "r", "namespace": "shop", **value.get("metadata", {})}}

    assert changes_only_ownership(role(case["new"]), role(case["old"])) is case["only"]


@pytest.mark.parametrize("case", read("aggregation"), ids=lambda case: case["name"])
def test_a_role_gathers_rules_as_its_controller_does(case: dict[str, Any]) -> None:
    def role(name: str, labels: dict[str, str], resources: list[str]) -> dict[str, Any]:
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [each]} for each in resources]
        return {"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules}

    selectors = [{"matchLabels": labels} for labels in case["gathers"]]
    gathering = {
        **role("all", case.get("labels", {}), case.get("stored", [])),
        "aggregationRule": {"clusterRoleSelectors": selectors},
    }
    objects = [gathering, *(role(name, *parts) for name, parts in case["roles"].items())]
    overlay = Proposal.from_objects(((value, "roles.yaml:1") for value in objects), is_only=True).over(NoRbac())
    (rules,) = overlay.role("", "all")
    assert isinstance(rules, Known)
    assert rules.value is not None
    assert [resource for rule in rules.value for resource in rule.resources] == case["rules"]


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


def test_who_asks_without_known_groups_may_be_allowed_one_name() -> None:
    """The groups decide, so the name does: the answer about one name is not the answer about another."""
    role = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["db"]}]}
    bound = {"roleRef": {"kind": "Role", "name": "one"}, "subjects": [{"kind": "Group", "name": "ops"}]}
    place = {"metadata": {"name": "one", "namespace": "shop"}}
    objects = [({"kind": "Role", **place, **role}, "r"), ({"kind": "RoleBinding", **place, **bound}, "r")]
    overlay = Proposal.from_objects(objects, is_only=True).over(NoRbac())
    user = UserInfo("dana", is_whole=False)
    found = [
        overlay.opinion(user, Attributes("get", resource="secrets", namespace="shop", name=name)) for name in ("db", "x", "db")
    ]
    assert [each.allowed for each in found] == [None, False, None]
