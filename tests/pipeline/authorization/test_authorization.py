"""Authorization, case by case: tests/cases/authorization/*.yaml."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import InputError
from ingest.schema import EVENTS
from pipeline.authorization import (
    GivenRbac,
    OtherAuthorizers,
    RecordedDecisions,
    RecordedRbac,
    RequestInfo,
    answer,
    authorize,
    others_of,
    request_info,
)
from pipeline.authorization.attributes import Recorded, info_of
from pipeline.authorization.documents import rules_from_object
from pipeline.authorization.node import node_opinion
from pipeline.cel.library.authorizer import Answer, Attributes
from pipeline.history.world import LogHistory
from pipeline.request import GroupVersionResource, Unknown, UserInfo
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[2] / "cases" / "authorization"
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WORDS = {True: "allow", False: "deny", None: "unknown"}


def read(name: str) -> Any:
    return load_yaml((CASES / f"{name}.yaml").read_text())


def asked(text: str) -> Attributes:
    """`VERB RESOURCE.GROUP/SUBRESOURCE NAMESPACE/NAME` or `VERB PATH`; a single place is a namespace."""
    verb, _, rest = text.partition(" ")
    if rest.startswith("/"):
        return Attributes(verb, rest)
    what, _, place = rest.partition(" ")
    what, _, subresource = what.partition("/")
    resource, _, group = what.partition(".")
    namespace, _, name = place.partition("/")
    return Attributes(verb, "", group, resource, subresource, namespace, name)


@pytest.mark.parametrize("case", read("attributes"), ids=lambda case: case["request"])
def test_attributes(case: dict[str, Any]) -> None:
    method, _, uri = case["request"].partition(" ")
    info = request_info(method, uri)
    if info is None:
        assert case["asks"] is None
        return
    selectors = (case.get("field_selector", ""), case.get("label_selector", ""))
    assert (str(info.attributes), info.field_selector, info.label_selector) == (case["asks"], *selectors)
    # The same from an audit event, which has the verb and not the method.
    assert info_of(Recorded(info.verb, uri)) == info


@pytest.mark.parametrize("case", [each for each in read("node") if "minor" in each], ids=lambda case: case["asks"])
def test_a_known_minor_decides_more_of_a_node(case: dict[str, Any]) -> None:
    found = node_opinion("n1", asked(case["asks"]), case["minor"])
    assert (None if found is None else found.allowed) is case["allowed"]


@pytest.mark.parametrize("case", [each for each in read("node") if "minor" not in each], ids=lambda case: case["asks"])
def test_the_node_authorizer_without_its_graph(case: dict[str, Any]) -> None:
    # As the server reads a URL: places of resources without namespace have one part.
    verb, _, rest = case["asks"].partition(" ")
    question = asked(case["asks"])
    if rest.startswith(("nodes", "csinodes")):
        question = question._replace(namespace="", name=question.namespace)
    user = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
    found = answer(GivenRbac([]), OtherAuthorizers.NODE, user, question)
    assert found.allowed is case["allowed"], verb
    if found.allowed is not None:
        assert found.reason == case.get("reason", "")
    assert answer(GivenRbac([]), OtherAuthorizers.ANY, user, question).allowed is None


@pytest.mark.parametrize("case", read("referred"), ids=lambda case: str(case.get("asks", case.get("why"))))
def test_the_question_without_a_url(case: dict[str, Any]) -> None:
    reference = {"group": "", "resource": "", "subresource": "", "namespace": "", "name": "", **case.get("reference", {})}
    resource = GroupVersionResource(reference["group"], "v1", reference["resource"])
    place = reference["subresource"], reference["namespace"], reference["name"]
    info = info_of(Recorded(case["verb"], "", resource, *place, case.get("forbidden", False)))
    if isinstance(info, Unknown):
        assert info.reason == case["why"]
        return
    assert str(info.attributes) == case["asks"]
    assert ((info.field_selector, info.label_selector) == (None, None)) is ("selectors" in case)


def test_a_url_tells_the_version_too() -> None:
    assert request_info("GET", "/apis/apps/v1beta2/namespaces/a/deployments/web") == RequestInfo(
        "get", "/apis/apps/v1beta2/namespaces/a/deployments/web", True, "apps", "v1beta2", "deployments", "", "a", "web"
    )


@pytest.mark.parametrize("case", read("rules"), ids=lambda case: json.dumps(case["rule"]))
def test_rule(case: dict[str, Any]) -> None:
    (rule,) = rules_from_object({"kind": "Role", "rules": [case["rule"]]})
    wanted = {**dict.fromkeys(case.get("allows", ()), True), **dict.fromkeys(case.get("denies", ()), False)}
    assert wanted
    assert {text: rule.allows(asked(text)) for text in wanted} == wanted


@pytest.mark.parametrize("case", read("bindings")["cases"], ids=lambda case: case["name"])
def test_bindings(case: dict[str, Any]) -> None:
    user = UserInfo(case["user"]["username"], groups=tuple(case["user"].get("groups", ())))
    question = asked(case["asks"])._replace(service_account=tuple(case["as"]) if "as" in case else None)
    objects = GivenRbac(read("bindings")["objects"])
    found = answer(objects, OtherAuthorizers(case.get("others", "node")), user, question)
    assert (WORDS[found.allowed], found.reason, found.error) == (case["answer"], case.get("reason", ""), "")
    if "reasons" in case:
        assert authorize(objects, user, question).reasons == set(case["reasons"])


@pytest.mark.parametrize("case", read("others"), ids=lambda case: f"{case['decisions']} decisions, {case['by_others']} by others")
def test_other_authorizers(case: dict[str, Any]) -> None:
    assert others_of([RecordedDecisions("c", case["decisions"], case["by_others"])]) == {"c": case["others"]}


def test_a_cluster_of_which_nothing_is_recorded_may_have_any_authorizer() -> None:
    assert RecordedRbac(LogHistory.from_rows([])).authorize("c", START, UserInfo("ann"), asked("get pods")).allowed is None


class Objects:
    """The few objects that the cases of recorded.yaml speak of, by KIND/NAME; `see-more` is `see` with more."""

    @staticmethod
    def resource(text: str) -> str:
        return text.partition("/")[0] + "s"

    @staticmethod
    def named(text: str) -> dict[str, Any]:
        kind, _, name = text.partition("/")
        if kind == "clusterrole":
            resources = {"see": ["pods"], "see-more": ["pods", "services"]}.get(name, [])
            rules = [{"verbs": ["get"], "apiGroups": [""], "resources": resources}]
            return {"kind": "ClusterRole", "metadata": {"name": "see" if name.startswith("see") else name}, "rules": rules}
        place = {"namespace": "shop"} if kind == "rolebinding" else {}
        return {
            "kind": "RoleBinding" if place else "ClusterRoleBinding",
            "metadata": {"name": name, **place},
            "roleRef": {"kind": "ClusterRole", "name": "see"},
            "subjects": [{"kind": "User", "name": name}],
        }


def whole(text: str, version: int) -> dict[str, Any]:
    value = Objects.named(text)
    metadata = {**value["metadata"], "uid": text, "resourceVersion": str(version), "creationTimestamp": "2025-01-01T00:00:00Z"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", **value, "metadata": metadata}


def event(entry: dict[str, Any], number: int) -> dict[str, Any]:
    verb = next(verb for verb in ("create", "update", "delete") if verb in entry)
    received = START + timedelta(seconds=entry["at"])
    value = whole(entry[verb], 100 + number)
    status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": entry[verb]}}
    level = entry.get("level", "RequestResponse")
    return {
        **dict.fromkeys(EVENTS.names),
        "cluster": "c",
        "audit_id": f"id-{number}",
        "stage": "ResponseComplete",
        "level": level,
        "ts": received,
        "stage_ts": received + timedelta(milliseconds=5),
        "verb": verb,
        "request_uri": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "user_groups": [],
        "api_group": "rbac.authorization.k8s.io",
        "api_version": "v1",
        "resource": Objects.resource(entry[verb]),
        "namespace": value["metadata"].get("namespace"),
        "name": value["metadata"]["name"],
        "code": 201 if verb == "create" else 200,
        "annotations": {},
        "notes": {},
        "flags": [],
        "response_object": None if level == "Metadata" else json.dumps(status if verb == "delete" else value),
    }


def listed(text: str, at: float, version: int) -> dict[str, Any]:
    value = whole(text, version)
    return {
        "cluster": "c",
        "observed_ts": START + timedelta(seconds=at),
        "list_rv": None,
        "api_version": value["apiVersion"],
        "kind": value["kind"],
        "namespace": value["metadata"].get("namespace"),
        "name": value["metadata"]["name"],
        "uid": text,
        "resource_version": str(version),
        "object": json.dumps(value),
        "source": "test",
    }


@pytest.mark.parametrize("case", read("recorded"), ids=lambda case: case["name"])
def test_recorded(case: dict[str, Any]) -> None:
    events = [event(entry, number) for number, entry in enumerate(case.get("log", ()))]
    snapshots = [
        listed(text, entry["at"], version) for entry in case.get("snapshot", ()) for version, text in enumerate(entry["list"], 1)
    ]
    rbac = RecordedRbac(LogHistory.from_rows(events, snapshots), {"c": OtherAuthorizers.NONE})

    def ask(second: float) -> Answer:
        return rbac.authorize("c", START + timedelta(seconds=second), UserInfo("ann"), asked("get pods shop/web"))

    found = {second: ask(second) for second in case["asked"]}
    assert {second: WORDS[each.allowed] for second, each in found.items()} == case["asked"]
    assert all(each.reason for each in found.values() if each.allowed is None), "what is unknown says why"
    # Whatever was asked before, the answers are the same.
    assert {second: ask(second) for second in reversed(case["asked"])} == found


def test_an_object_that_is_not_as_rbac_objects_are_is_named() -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "see"}, "rules": [{"verbs": "get"}]}
    with pytest.raises(InputError, match=r"roles\.yaml: ClusterRole see is not as RBAC objects are: .*rules\[0\]\.verbs") as raised:
        GivenRbac([role], "roles.yaml")
    assert raised.value.hint == "see kubectl explain ClusterRole"
