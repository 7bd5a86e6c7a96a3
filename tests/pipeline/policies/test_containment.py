"""A policy that cannot be judged costs no other its verdicts. It is reported with the reason, never as admitted or denied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.policies.dispatch import compile_set, evaluate_request
from pipeline.policies.model import Binding, Policy, PolicySet, Validation
from pipeline.policies.verdict import Decision, PolicyVerdict
from pipeline.request import Evidence, Object
from pipeline.stages.validating.decode import binding_from_object, policy_from_object

RULES = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]


def policy(name: str, *expressions: str, **spec: Any) -> Policy:
    constraints = {"resourceRules": RULES, **spec.pop("constraints", {})}
    validations = [{"expression": expression} for expression in expressions]
    return policy_from_object(
        {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, "validations": validations, **spec}}, ""
    )


GOOD = (
    policy("labels", "has(object.metadata.labels)", "object.metadata.labels.all(k, v, k.size() < 5)"),
    policy("name", "object.metadata.name.matches('^[a-z]+$')", "size(object.metadata.name) < 4"),
    policy("who", "authorizer.requestResource.check('get').allowed()", "request.userInfo.username == 'ann'"),
)
NUMBERS = "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
NOT_AN_EXPRESSION: Any = 5
NOT_A_LIST: Any = None
DEFECTS = {
    # What no manifest can say, and the code does not expect: a defect wherever it comes up.
    "no-expression": replace(policy("no-expression", "true"), validations=(Validation(NOT_AN_EXPRESSION),)),
    "no-variables": replace(policy("no-variables", "true"), variables=NOT_A_LIST),
    "no-namespace": policy("no-namespace", "namespaceObject.metadata.name == 'x'"),
    "no-labels": policy("no-labels", "true", constraints={"namespaceSelector": {"matchLabels": {"a": "b"}}}),
}
# What manifests do say that is unusual, or wrong.
ODD = (
    policy("backtick", "size(variables.a) == 1", variables=[{"name": "a", "expression": "object.`b`"}]),
    policy("unbounded", "[authorizer.requestResource].size() == 1"),
    policy("syntax", "object.metadata.name ==", "object..x", ""),
    policy("pattern", "object.metadata.name.matches('(')", "object.metadata.name.matches('(?=a)')"),
    policy(
        "dear",
        f"{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, object.metadata.name.contains('x') || a + b + c > 0)))",
    ),
    policy("deep", "(" * 240 + "true" + ")" * 240, "object" + ".a" * 245 + " == 1"),
    policy("self", "variables.a", variables=[{"name": "a", "expression": "variables.a"}]),
    policy("types", "object.metadata.name", "1 + 1"),
    policy(
        "annotation",
        "true",
        auditAnnotations=[{"key": "k", "valueExpression": "authorizer.group('').resource('x').check('get').reason()"}],
    ),
    *DEFECTS.values(),
)
OBJECTS = (
    {"metadata": {"name": "web", "labels": {"app": "x"}}},
    {"metadata": {"name": "Web-12"}},
    {"metadata": {"name": 5, "labels": []}},
    {},
)


class FaultyWorld:
    """A world in which reading a namespace brings out a defect."""

    def namespace(self, name: str) -> Evidence[Object | None]:
        raise AssertionError(f"{name} has no labels")

    param = params = kind_is_namespaced = namespace


def bound(policies: list[Policy]) -> PolicySet:
    return PolicySet(tuple(policies), tuple(_binding(each.name) for each in policies))


def _binding(name: str) -> Binding:
    return binding_from_object(
        {"metadata": {"name": f"{name}-all"}, "spec": {"policyName": name, "validationActions": ["Deny"]}}, ""
    )


def rows_of(policies: list[Policy], request: Any) -> dict[str, list[PolicyVerdict]]:
    found: dict[str, list[PolicyVerdict]] = {each.name: [] for each in policies}
    for row in evaluate_request(compile_set(bound(policies), (1, 36)), request, FaultyWorld()):
        found[row.policy].append(row)
    return found


MIXED = st.lists(st.sampled_from((*GOOD, *ODD)), unique_by=lambda each: each.name, min_size=2, max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(MIXED, st.sampled_from(OBJECTS))
def test_every_policy_has_the_verdicts_that_it_has_alone(cases: Any, policies: list[Policy], obj: dict[str, Any]) -> None:
    request = cases.request({"namespace": "shop", "name": "web", "object": obj, "user": {"username": "ann"}})
    together = rows_of(policies, request)
    assert together == {each.name: rows_of([each], request)[each.name] for each in policies}
    for name, rows in together.items():
        assert rows, f"{name} is not in the report"
        assert (name in DEFECTS) == any(row.is_defect for row in rows)


def test_a_defect_is_told_with_its_place_and_decides_nothing(cases: Any) -> None:
    request = cases.request({"namespace": "shop", "name": "web", "object": OBJECTS[0]})
    found = rows_of([*GOOD, *DEFECTS.values()], request)
    for name in DEFECTS:
        (row,) = found[name]
        assert (row.decision, row.effect, row.binding) == (Decision.UNKNOWN, None, f"{name}-all")
        assert row.why.startswith("a defect of Hindcast, please report it: ")
    assert "AssertionError: shop has no labels (pipeline/policies/test_containment.py:" in found["no-labels"][0].why
    assert " (pipeline/" in found["no-variables"][0].why
