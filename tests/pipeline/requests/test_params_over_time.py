"""A param that is changed, deleted and made again while requests come: each meets the one of its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.runs import RunStore
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake

Cluster = Any
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: limit}}
spec:
  paramKind: {{apiVersion: v1, kind: ConfigMap}}
  matchConstraints:
    resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}}]
  validations: [{{expression: "object.spec.replicas <= int(params.data.max)", messageExpression: "'limit ' + params.data.max"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: all}}
spec:
  policyName: limit
  validationActions: [Audit]
  paramRef: {{name: limits, namespace: shop, parameterNotFoundAction: {action}}}
"""
NO_PARAMS = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"


def limits(cluster: Cluster, verb: str, maximum: str) -> None:
    """Write the param, or delete it."""
    obj = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "limits", "namespace": "shop", "uid": "limits", "resourceVersion": str(len(cluster.events) + 1)},
        "data": {"max": maximum},
    }
    answer = {"kind": "Status", "apiVersion": "v1", "status": "Success"} if verb == "delete" else obj
    cluster.event(verb, "configmaps", "limits", 201 if verb == "create" else 200, None if verb == "delete" else obj, answer)


@pytest.mark.parametrize(
    ("action", "without"), [("Deny", ("error", "deny", NO_PARAMS)), ("Allow", ("nomatch", None, None))], ids=["Deny", "Allow"]
)
def test_each_request_meets_the_param_of_its_time(
    cluster: Cluster, ingest: Callable[[Cluster], Path], action: str, without: tuple[str, str | None, str | None]
) -> None:
    asked = []
    for verb, maximum in (("create", "3"), ("update", "9"), ("delete", ""), ("create", "4")):
        limits(cluster, verb, maximum)
        asked.append(cluster.deployment("create", f"after-{verb}-{maximum}", replicas=5))
    lake = ingest(cluster)
    reader = open_lake(lake, threads=1)
    plan = plan_replay(reader, parse_policy_set([("case", POLICIES.format(action=action))]))
    reader.close()
    rows = pq.read_table(RunStore(lake).run(run_replay(plan, lake).run_id).verdicts).to_pylist()
    found = {}
    for row in rows:
        if row["expression_index"] == 0 or not row["param_name"]:
            found[row["audit_id"]] = (row["decision"], row["effect"], row["message"])
    assert [found[audit_id] for audit_id in asked] == [
        ("deny", "deny", "limit 3"),
        ("admit", "admit", None),
        without,
        ("deny", "deny", "limit 4"),
    ]
