"""Two versions of policies over the same requests: what changes, by expression and by request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.runs import RunStore
from pipeline.runs.difference import RequestDifference, request_difference
from pipeline.stages.validating.difference import difference
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: limit}}
spec:
  {param_kind}
  matchConstraints:
    resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}}]
  validations: {validations}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: all}}
spec:
  policyName: limit
  validationActions: [Deny]
  {param_ref}
"""
LOOSE = POLICY.format(param_kind="", param_ref="", validations='[{expression: "object.spec.replicas <= 8", message: m}]')
TIGHT = POLICY.format(param_kind="", param_ref="", validations='[{expression: "object.spec.replicas <= 5", message: m}]')
TWO = POLICY.format(
    param_kind="",
    param_ref="",
    validations='[{expression: "object.spec.replicas <= 8", message: other}, {expression: "object.spec.replicas > 0", message: q}]',
)
# Configured for a param of which the log tells nothing: nobody can say. And for a namespace of a cluster-scoped kind: an error.
UNKNOWN = POLICY.format(
    param_kind="paramKind: {apiVersion: v1, kind: ConfigMap}",
    param_ref="paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}",
    validations='[{expression: "object.spec.replicas <= int(params.data.max)"}]',
)
BROKEN = POLICY.format(
    param_kind="paramKind: {apiVersion: v1, kind: Node}",
    param_ref="paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}",
    validations='[{expression: "object.spec.replicas <= 8", message: m}]',
)


@pytest.fixture
def compare(lake: Path) -> Callable[[str, str], tuple[dict[int | None, tuple[int, ...]], tuple[RequestDifference, ...]]]:
    """By expression: (newly denied, newly allowed, message changed, unchanged, unknown). The cluster creates 0 to 11 replicas."""

    def compare(old: str, new: str) -> Any:
        found = []
        for text in (old, new):
            reader = open_lake(lake, threads=1)
            plan = plan_replay(reader, parse_policy_set([("case", text)]))
            reader.close()
            found.append(RunStore(lake).run(run_replay(plan, lake).run_id).verdicts)
        rows = difference(*found)
        counts = {
            row.expression_index: (row.newly_denied, row.newly_allowed, row.message_changed, row.unchanged, row.unknown)
            for row in rows
        }
        return counts, request_difference(*found)

    return compare


def test_a_tighter_limit_denies_more(compare: Any) -> None:
    assert compare(LOOSE, TIGHT) == ({0: (3, 0, 0, 9, 0)}, (RequestDifference("limit", 3, 0, 3, 6, 0),))


def test_a_looser_limit_allows_more(compare: Any) -> None:
    assert compare(TIGHT, LOOSE) == ({0: (0, 3, 0, 9, 0)}, (RequestDifference("limit", 0, 3, 3, 6, 0),))


def test_another_message_and_another_expression(compare: Any) -> None:
    expected = {0: (0, 0, 3, 9, 0), 1: (1, 0, 0, 11, 0)}
    assert compare(LOOSE, TWO) == (expected, (RequestDifference("limit", 1, 0, 3, 8, 0),))


def test_a_configuration_error_denies_everything(compare: Any) -> None:
    expected = {None: (9, 0, 0, 3, 0), 0: (9, 0, 0, 3, 0)}
    assert compare(LOOSE, BROKEN) == (expected, (RequestDifference("limit", 9, 0, 3, 0, 0),))
    assert compare(BROKEN, LOOSE)[1] == (RequestDifference("limit", 0, 9, 3, 0, 0),)


def test_what_nobody_can_judge_is_compared_with_nothing(compare: Any) -> None:
    expected = {0: (0, 0, 0, 0, 12)}
    assert compare(LOOSE, UNKNOWN) == (expected, (RequestDifference("limit", 0, 0, 0, 0, 12),))
