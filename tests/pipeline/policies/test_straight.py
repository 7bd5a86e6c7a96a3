"""The straight path through a policy: where it leads to a result, all the steps of an evaluation lead to the same."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.policies import dispatch, evaluate
from pipeline.policies.compile import compile_policy
from pipeline.policies.straight import straight_path
from pipeline.stages.validating.load import parse_policy_set
from queries import open_lake

ROOT = Path(__file__).parents[3]

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: straight}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]}
  matchConditions: [{name: not-exempt, expression: "object.metadata.name != 'exempt'"}]
  variables:
  - {name: size, expression: "object.spec.size"}
  - {name: double, expression: "variables.size * 2"}
  validations:
  - {expression: "variables.double < 10", messageExpression: "'double is ' + string(variables.double)"}
  - {expression: "has(variables.size)", message: "no size"}
  auditAnnotations: [{key: size, valueExpression: "variables.size > 3 ? string(variables.size) : ''"}]
"""


def test_all_steps_lead_where_the_straight_path_leads(demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(demo_lake, lake)
    seen: Counter[str] = Counter()

    def both(case: Any) -> Any:
        straight, stepwise = evaluate._straight(case), evaluate._evaluated(case)
        seen["not straight" if straight is None else "straight"] += 1
        assert straight is None or straight == stepwise
        return stepwise

    monkeypatch.setattr(dispatch, "evaluate_policy", both)
    reader = open_lake(lake)
    plan = plan_replay(reader, load_policy_set([ROOT / "api" / "demo" / "policies"]))
    reader.close()
    run_replay(plan, lake)
    assert seen["straight"] > 100


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"metadata": {"name": "exempt"}}, "matchConditions: not-exempt is false"),
        ({"metadata": {"name": "a"}, "spec": {"size": 2}}, [True, True]),
        ({"metadata": {"name": "a"}, "spec": {"size": 4}}, [True, True]),
        ({"metadata": {"name": "a"}, "spec": {"size": 9}}, ["double is 18", True]),
        ({"metadata": {"name": "a"}, "spec": {"size": "9"}}, None),
        ({"metadata": {"name": "a"}, "spec": {}}, None),
        ({"metadata": {}}, None),
    ],
)
def test_what_is_unusual_is_left_to_the_steps(obj: dict[str, Any], expected: Any) -> None:
    (policy,) = parse_policy_set([("case", POLICY)]).policies
    path = straight_path(compile_policy(policy))
    assert path is not None
    roots = {"object": obj}
    found = path.evaluate(roots)
    assert roots == {"object": obj}
    if found is None or isinstance(expected, str):
        assert (found.whole.why if found and found.whole else None) == expected
        return
    assert [outcome.message or True for outcome in found.outcomes] == expected
    size = obj["spec"]["size"]
    assert dict(found.annotations.values if found.annotations else {}) == ({"size": str(size)} if size > 3 else {})


@pytest.mark.parametrize(
    "addition",
    [
        "paramKind: {apiVersion: v1, kind: ConfigMap}",
        "failurePolicy: Fail\n  validations: [{expression: \"authorizer.path('/x').check('get').allowed()\"}]",
        "failurePolicy: Fail\n  validations: [{expression: 'object.spec.no.such.function()'}]",
    ],
)
def test_some_policies_have_no_straight_path(addition: str) -> None:
    text = POLICY if "validations" not in addition else POLICY[: POLICY.index("  validations")]
    (policy,) = parse_policy_set([("case", f"{text}\n  {addition}\n")]).policies
    assert straight_path(compile_policy(policy)) is None
