"""A recorded mutating webhook compared with policies that replace it: one that does the same, and two that do not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.manifests.files import manifests_of
from pipeline.runs.window import Window
from pipeline.stages.mutating.chain import Chain
from pipeline.stages.mutating.decode import rules_of
from pipeline.stages.mutating.migration import DIFFERENT, NEITHER, NOTHING, SAME, UNMATCHED, Migration, compare
from queries import open_lake

pytestmark = pytest.mark.conformance

WEBHOOK = "hooked.mut.example.com"
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: hooked}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [RESOURCE]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "EXPRESSION"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: hooked}
spec: {policyName: hooked}
"""


@pytest.fixture(scope="module")
def lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Lake.create(tmp_path_factory.mktemp("migration") / "lake")
    ingest_files(made, [shared / "data" / "mutating-policies-a" / "audit.jsonl.zst"], "lab", received_ts=0.0)
    made.close()
    return made.path


def compared(lake: Path, expression: str, resource: str = "configmaps") -> Migration:
    text = POLICY.replace("EXPRESSION", expression).replace("RESOURCE", resource)
    chain = Chain(rules_of(manifests_of([("policy.yaml", text)])), (1, 36))
    with closing(open_lake(lake)) as reader:
        return compare(reader, Window(), chain, WEBHOOK)


def test_a_policy_that_does_the_same_agrees_on_every_call(lake: Path) -> None:
    """The objects after defaulting are equal for each of the recorded calls, and every call is covered."""
    found = compared(lake, "Object{metadata: Object.metadata{labels: {'hooked': 'yes'}}}")
    assert found.called
    assert found.disagreeing == 0
    assert found.decided == found.called
    assert found.count(SAME)
    assert found.count(NEITHER)


def test_a_policy_that_does_something_else_disagrees_with_the_differing_path(lake: Path) -> None:
    """Another value, nothing at all, and a policy for another resource."""
    other = compared(lake, "Object{metadata: Object.metadata{labels: {'hooked': 'no'}}}")
    assert other.count(DIFFERENT)
    assert {cell.why for cell in other.requests if cell.cell == DIFFERENT} == {"metadata.labels.hooked"}
    nothing = compared(lake, "Object{}")
    assert nothing.count(NOTHING)
    assert nothing.disagreeing == nothing.count(NOTHING)
    elsewhere = compared(lake, "Object{}", "secrets")
    assert elsewhere.count(UNMATCHED) == elsewhere.called
    assert elsewhere.decided == 0
