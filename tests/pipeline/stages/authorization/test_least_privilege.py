"""The smallest roles for what a user did: they allow all of it, and nothing can be taken away from them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.authorization import GivenRbac, authorize
from pipeline.authorization.covering import may_grant
from pipeline.authorization.documents import rules_from_object
from pipeline.authorization.rbac import Rule
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import Object, UserInfo
from pipeline.stages.authorization.least import LeastOptions, least_rules
from pipeline.stages.authorization.needs import Grant
from pipeline.stages.authorization.role_objects import default_name, manifests

USER = UserInfo("system:serviceaccount:ci:deployer")
EXACT = LeastOptions(names_max=1000)
VERBS = ("get", "list", "watch", "create", "update", "delete", "deletecollection")
NAMES = st.sampled_from(["", "", "a", "b", "c"])


@st.composite
def questions(draw: st.DrawFn) -> Attributes:
    """A question as a URL gives it: a create and a deletecollection have no name, and a path has nothing else."""
    if draw(st.integers(0, 5)) == 0:
        return Attributes(draw(st.sampled_from(["get", "post"])), draw(st.sampled_from(["/metrics", "/logs/x"])))
    verb, subresource = draw(st.sampled_from(VERBS)), draw(st.sampled_from(["", "", "log", "scale"]))
    name = draw(NAMES) if verb != "deletecollection" and (verb != "create" or subresource) else ""
    resource = draw(st.sampled_from(["pods", "nodes", "jobs"]))
    return Attributes(
        verb, "", draw(st.sampled_from(["", "apps"])), resource, subresource, draw(st.sampled_from(["", "x", "y"])), name
    )


USED = st.lists(questions(), min_size=1, max_size=30)


def refused(objects: Sequence[Object], used: Sequence[Attributes]) -> list[Attributes]:
    """The questions that the objects alone do not allow."""
    rbac = GivenRbac(objects)
    return [asked for asked in used if not authorize(rbac, USER, asked).allowed]


def objects_for(used: Sequence[Attributes], options: LeastOptions = EXACT) -> list[Object]:
    return manifests(least_rules(used, options), USER.username, "least")


def smaller(objects: Sequence[Object]) -> Iterator[list[Object]]:
    """The objects with one verb, resource, group, name or path less; a rule without a part of these goes as a whole."""
    for number, role in enumerate(objects):
        for place, rule in enumerate(role.get("rules", ())):
            for part, values in rule.items():
                for value in values:
                    rest = [other for other in values if other != value]
                    rules: list[Any] = list(role["rules"])
                    rules[place : place + 1] = [{**rule, part: rest}] if rest else []
                    yield [*objects[:number], {**role, "rules": rules}, *objects[number + 1 :]]


@given(USED)
def test_the_roles_allow_everything_that_was_used(used: list[Attributes]) -> None:
    assert refused(objects_for(used), used) == []


@given(USED)
def test_nothing_can_be_taken_away(used: list[Attributes]) -> None:
    for less in smaller(objects_for(used)):
        assert refused(less, used)


@given(USED, st.randoms(use_true_random=False))
def test_the_order_of_the_requests_does_not_matter(used: list[Attributes], order: random.Random) -> None:
    mixed = [*used, *used[:3]]
    order.shuffle(mixed)
    assert objects_for(mixed) == objects_for(used)


@given(USED, st.integers(1, 3), st.booleans(), st.booleans())
def test_wider_roles_allow_it_too(used: list[Attributes], names_max: int, expands: bool, collapses: bool) -> None:
    assert refused(objects_for(used, LeastOptions(names_max, expands, collapses)), used) == []


@given(USED, st.sampled_from([("get", "pods"), ("*", "pods"), ("*", "*")]), st.sampled_from(["", "x"]))
def test_the_rules_of_written_roles_are_held(used: list[Attributes], granted: tuple[str, str], namespace: str) -> None:
    verb, resource = granted
    grant = Grant(USER, namespace, (Rule((verb,), ("",), (resource,)),))
    found = manifests(least_rules([*used, grant], EXACT), USER.username, "least")
    assert refused(found, used) == []
    assert may_grant(GivenRbac(found), USER, namespace, grant.rules).allowed
    for less in smaller(found):
        assert refused(less, used) or not may_grant(GivenRbac(less), USER, namespace, grant.rules).allowed


def rules(found: Sequence[Object]) -> list[tuple[str, Rule]]:
    return [(role["metadata"].get("namespace", ""), rule) for role in found if "rules" in role for rule in rules_from_object(role)]


def test_one_role_for_each_namespace_and_a_cluster_role_for_the_rest() -> None:
    found = objects_for(
        [Attributes("get", "", "", "pods", "", "x", "a"), Attributes("list", "", "", "nodes"), Attributes("get", "/metrics")]
    )
    assert [(each["kind"], each["metadata"].get("namespace")) for each in found] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "x"),
        ("RoleBinding", "x"),
    ]
    assert found[3]["subjects"] == [{"kind": "ServiceAccount", "name": "deployer", "namespace": "ci"}]
    assert rules(found) == [
        ("", Rule(("list",), ("",), ("nodes",))),
        ("", Rule(("get",), urls=("/metrics",))),
        ("x", Rule(("get",), ("",), ("pods",), ("a",))),
    ]


def test_many_names_are_every_name() -> None:
    used = [Attributes("get", "", "", "pods", "", "x", f"p-{number}") for number in range(3)]
    assert rules(objects_for(used, LeastOptions(3)))[0][1].names == ("p-0", "p-1", "p-2")
    assert rules(objects_for(used, LeastOptions(2)))[0][1].names == ()


def test_verbs_that_clients_use_together() -> None:
    used = [Attributes("watch", "", "", "pods", "", "x"), Attributes("patch", "", "apps", "deployments", "", "x", "web")]
    assert rules(objects_for(used, LeastOptions(expands_verbs=True))) == [
        ("x", Rule(("get", "list", "watch"), ("",), ("pods",))),
        ("x", Rule(("get", "update", "patch"), ("apps",), ("deployments",), ("web",))),
    ]


def test_several_namespaces_become_all() -> None:
    used = [
        Attributes("list", "", "", "pods", "", "x"),
        Attributes("list", "", "", "pods", "", "y"),
        Attributes("list", "", "", "jobs", "", "x"),
    ]
    assert rules(objects_for(used, LeastOptions(collapses_namespaces=True))) == [
        ("", Rule(("list",), ("",), ("pods",))),
        ("x", Rule(("list",), ("",), ("jobs",))),
    ]


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("system:serviceaccount:ci:deployer", "least-ci-deployer"),
        ("alice@example.com", "least-alice-example.com"),
        ("system:kube-scheduler", "least-system-kube-scheduler"),
        ("../..", "least-user"),
    ],
)
def test_roles_have_the_name_of_the_user(user: str, name: str) -> None:
    assert default_name(user) == name


def test_a_user_is_the_subject_by_its_name() -> None:
    found = manifests(least_rules([Attributes("list", "", "", "nodes")]), "alice", "least-alice")
    assert found[1]["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]
