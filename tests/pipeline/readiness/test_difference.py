"""The smallest difference: one change that was tried and admitted, or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.authorization import RecordedRbac
from pipeline.history.world import LogHistory
from pipeline.policies.dispatch import compile_set
from pipeline.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
)
from pipeline.requests.worlds import Worlds
from pipeline.stages.validating.judges import Judge, Judgement
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.nearest import Differences, is_over_cost

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def judge_of(*expressions: str, conditions: str = "[]", variables: str = "[]") -> Judge:
    text = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [pods]}}]
  matchConditions: {conditions}
  variables: {variables}
  validations: {json.dumps([{"expression": each} for each in expressions])}
"""
    history = LogHistory.from_rows([])
    return Judge(compile_set(parse_policy_set([("p.yaml", text)])), Worlds(history), RecordedRbac(history, {}))


def request_of(value: Object | Unknown | None, operation: Operation = Operation.CREATE) -> AdmissionRequest:
    evidence: Any = value if isinstance(value, Unknown) else Known(value, "test")
    return AdmissionRequest(
        cluster="c",
        audit_id="a",
        pass_index=0,
        ts=NOW,
        operation=operation,
        kind=Known(GroupVersionKind("", "v1", "Pod"), "test"),
        resource=GroupVersionResource("", "v1", "pods"),
        subresource="",
        namespace="",
        name=Known("x", "test"),
        user=UserInfo("alice"),
        dry_run=False,
        options=Known(None, "test"),
        object=evidence,
        old_object=Known(value if operation is Operation.DELETE else None, "test"),
    )


def pod(**spec: Any) -> Object:
    metadata = {"name": "x", "labels": {"app": "x"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "bad/x:1"}], **spec},
    }


@pytest.mark.parametrize(
    ("expression", "value", "words"),
    [
        ("!has(object.spec.hostPID) || !object.spec.hostPID", pod(hostPID=True), "set spec.hostPID to false (it is true)"),
        ("!has(object.spec.volumes)", pod(volumes=[{"name": "v"}]), "remove spec.volumes"),
        ("has(object.metadata.labels.owner)", pod(), "add metadata.labels.owner"),
        ("object.spec.priority <= 10", pod(priority=20), "set spec.priority to 10 (it is 20)"),
        (
            "object.spec.containers.all(c, c.image.startsWith('good/'))",
            pod(),
            'set spec.containers[0].image to "good/x:1" (it is "bad/x:1")',
        ),
        (
            "has(object.metadata.labels.tier) && object.metadata.labels.tier == 'web'",
            pod(),
            'add metadata.labels.tier, such as "web"',
        ),
    ],
)
def test_one_change_that_passes_is_told(expression: str, value: Object, words: str) -> None:
    assert Differences(judge_of(expression)).smallest(request_of(value)) == words


def test_two_needed_changes_have_no_answer() -> None:
    both = judge_of("!has(object.spec.hostPID) || !object.spec.hostPID", "!has(object.spec.hostIPC) || !object.spec.hostIPC")
    assert Differences(both).smallest(request_of(pod(hostPID=True, hostIPC=True))) == ""
    assert Differences(both).smallest(request_of(pod(hostPID=True, hostIPC=False))) == "set spec.hostPID to false (it is true)"


def test_a_change_that_only_escapes_the_policy_is_no_answer() -> None:
    judge = judge_of("false", conditions="[{name: web, expression: \"object.metadata.labels.app == 'x'\"}]")
    assert Differences(judge).smallest(request_of(pod())) == ""


def test_variables_are_seen_through() -> None:
    variables = '[{name: images, expression: "object.spec.containers.map(c, c.image)"}]'
    judge = judge_of("variables.images.all(i, i.startsWith('good/'))", variables=variables)
    assert Differences(judge).smallest(request_of(pod())) == 'set spec.containers[0].image to "good/x:1" (it is "bad/x:1")'


def test_without_an_object_there_is_nothing_to_change() -> None:
    judge = judge_of("false")
    assert Differences(judge).smallest(request_of(Unknown("not recorded"))) == ""
    assert Differences(judge).smallest(request_of(None, Operation.DELETE)) == ""


def test_the_object_itself_is_left_as_it_was() -> None:
    value = pod(hostPID=True)
    before = json.dumps(value)
    Differences(judge_of("!object.spec.hostPID")).smallest(request_of(value))
    assert json.dumps(value) == before


def updated(old: Object, new: Object) -> AdmissionRequest:
    found = request_of(new, Operation.UPDATE)
    return replace(found, old_object=Known(old, "test"))


def test_no_label_gets_a_value_that_the_api_refuses() -> None:
    judge = judge_of("object.metadata.?labels[?'by'].orValue('') == request.userInfo.username || 'a:b' == 'c d'")
    found = Differences(judge, ["system:serviceaccount:a:b"]).smallest(request_of(pod()))
    assert "metadata.labels" not in found


def test_a_client_that_sends_finalizers_alone_is_not_told_to_change_a_label() -> None:
    judge = judge_of("object.metadata.?labels[?'app'].orValue('') == 'y'")
    old, new = pod(), pod()
    old["metadata"] = {**old["metadata"], "finalizers": ["a/b"], "resourceVersion": "1"}
    new["metadata"] = {**new["metadata"], "resourceVersion": "2"}
    assert Differences(judge).smallest(updated(old, new)) == ""
    assert Differences(judge).smallest(updated(pod(), pod(hostPID=True))) == 'set metadata.labels.app to "y" (it is "x")'


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("request.userInfo.username == 'bob'", 'no change of the object, but the user "bob"'),
        ("request.operation == 'DELETE'", "no change of the object, but the operation DELETE"),
        (
            "request.userInfo.username in ['bob', 'eve'] || request.operation == 'UPDATE'",
            'no change of the object, but the user "bob" or the user "eve" or the operation UPDATE',
        ),
        ("request.userInfo.username == 'bob' && request.operation == 'DELETE'", ""),
        ("false", ""),
    ],
)
def test_another_user_or_operation_is_told_where_no_object_passes(expression: str, words: str) -> None:
    assert Differences(judge_of(expression)).smallest(request_of(pod())) == words


class CountingJudge(Judge):
    """Counts what it judges."""

    judged = 0

    def judge(self, request: AdmissionRequest, moment: datetime | None = None) -> Judgement | None:
        self.judged += 1
        return super().judge(request, moment)


def test_a_search_whose_trials_end_at_a_cost_limit_is_given_up_soon() -> None:
    all_pairs = "object.spec.entries.all(a, object.spec.entries.all(b, a != b || object.spec.entries.exists(c, a == c)))"
    plain = judge_of(all_pairs)
    judge = CountingJudge(plain._compiled, plain._worlds, plain._rbac)
    request = request_of(pod(entries=[f"e-{number}" for number in range(600)]))
    judged = judge.judge(request)
    assert judged is not None
    assert is_over_cost(judged)
    assert Differences(judge).smallest(request) == ""
    assert judge.judged < 5
