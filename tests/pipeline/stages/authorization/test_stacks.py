"""Stacks, case by case: tests/cases/authorization/stacks.yaml."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from api.stages.authorization.stack import isolation_table
from ingest.errors import InputError
from pipeline.authorization import GivenRbac, authorize
from pipeline.history.event import Event
from pipeline.request import GroupVersionResource, Object
from pipeline.stages.authorization.asked import Question
from pipeline.stages.authorization.questions import identity_of
from pipeline.stages.authorization.stacks import (
    Place,
    Stack,
    StackModel,
    check_install,
    isolation,
    model_objects,
    stack_of,
    unused_rights,
    used_rights,
)
from tests.pipeline.stages.authorization.test_role_changes import row_of
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "authorization" / "stacks.yaml").read_text())
ALL = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def definition(name: str) -> Object:
    plural, _, group = name.partition(".")
    told = CASES["kinds"][name]
    subresources = {"status": {}, **({"scale": {}} if told.get("scale") else {})}
    versions = [{"name": "v1alpha1", "served": True, "subresources": subresources}]
    spec = {"group": group, "names": {"plural": plural}, "scope": told["scope"], "versions": versions}
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec}


def made(case: dict[str, Any]) -> tuple[Stack, list[Object]]:
    """The stack and the roles of its model."""
    depended = [entry["crd"] for entry in case["app"].get("dependsOn", ())]
    definitions = [definition(name) for name in dict.fromkeys([*case["owned"], *depended])]
    stack = stack_of(case["app"], "app.yaml", definitions, case["namespace"], "ctrl-sa")
    if "install" in case:
        check_install(stack.scope, case["install"])
    return stack, model_objects(stack, StackModel(case["model"]))


@pytest.mark.parametrize("case", CASES["stacks"], ids=lambda case: case["name"])
def test_a_model_gives_its_rights(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(InputError) as raised:
            made(case)
        assert str(raised.value).startswith(case["error"])
        return
    stack, (role, binding) = made(case)
    ((wanted, rules),) = case["gives"].items()
    assert " ".join(filter(None, (role["kind"], role["metadata"].get("namespace")))) == wanted
    assert [[rule["apiGroups"], rule["resources"], rule["verbs"]] for rule in role["rules"]] == [read(text) for text in rules]
    assert binding["kind"] == f"{role['kind']}Binding"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "ctrl-sa", "namespace": case["namespace"]}]
    for number, asked in enumerate(case.get("asks", ())):
        (found,) = isolation([question(asked, stack, number)], stack)
        assert (str(found.place), found.severity) == (asked["place"], asked.get("severity"))
        allowed = authorize(GivenRbac([role, binding]), found.question.identity.user, found.asked).allowed
        assert ("allow" if allowed else "deny") == asked["answer"]


def read(text: str) -> list[list[str]]:
    """`[GROUPS] [RESOURCES] VERBS` as three lists."""
    groups, resources, verbs = load_yaml("[" + text.replace("] [", "], [").replace("] all", f"], {ALL}") + "]")
    return [groups, resources, verbs]


def test_a_request_whose_question_is_unknown_is_shown() -> None:
    stack, objects = made(CASES["stacks"][0])
    asked = question({"asks": "get /api/v1/namespaces/prod/secrets/db", "recorded": "allow"}, stack, 0)
    untold = asked._replace(event=replace(asked.event, request_uri="", resource=GroupVersionResource("", "", "")))
    (found,) = isolation([untold], stack)
    assert (found.place, found.why) == (Place.UNKNOWN, "the log has neither the URI of the request nor its resource")
    (used,) = used_rights([untold], stack, objects)
    assert used.is_granted is None
    assert all(rule.possible == 1 for rule in unused_rights([used], objects))
    shown, notes = isolation_table([found]).rows, isolation_table([found]).notes
    assert shown[0][0] == "unknown"
    assert any("unknown: 1 request:" in note and "URI" in note for note in notes)


def question(asked: dict[str, Any], stack: Stack, number: int) -> Question:
    reason = 'RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "x" to ServiceAccount "x"'
    recorded = "forbid" if asked["recorded"] == "forbid" else reason
    row = row_of({"user": stack.user, "asks": asked["asks"], "recorded": recorded})
    return Question(Event.from_row(row), identity_of(row), 1, START, START, f"id-{number}")
