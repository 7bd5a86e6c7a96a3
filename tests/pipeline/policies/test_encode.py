"""A policy or binding that is written out from the model is read again as the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.stages.validating.decode import binding_from_object, policy_from_object
from pipeline.stages.validating.encode import binding_to_object, policy_to_object
from pipeline.stages.validating.load import load_policy_set

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "tests" / "cases" / "policies").glob("*/policy.yaml")), *sorted((ROOT / "api" / "demo").rglob("*.yaml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_what_is_written_is_read_as_the_same(file: Path) -> None:
    written = {(obj["kind"], obj["metadata"]["name"]): obj for obj in load_policy_set([file]).written}
    policies = load_policy_set([file])
    assert policies.policies
    for policy in policies.policies:
        # The original without lines, so that both have one source.
        assert policy_from_object(policy_to_object(policy), "x") == policy_from_object(
            written["ValidatingAdmissionPolicy", policy.name] | {"metadata": {"name": policy.name}}, "x"
        )
    for binding in policies.bindings:
        assert binding_from_object(binding_to_object(binding), "x") == binding_from_object(
            written["ValidatingAdmissionPolicyBinding", binding.name] | {"metadata": {"name": binding.name}}, "x"
        )
