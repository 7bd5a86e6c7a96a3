"""The mutating policies of kat's suite: every policy makes of its objects what their golden files show (T005-12).

Under `test-policies-fail` the golden files are wrong on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.request import Known
from pipeline.stages.mutating.chain import Chain, Run
from pipeline.stages.mutating.decode import rules_of
from pipeline.stages.mutating.invocation import Outcome
from tests.pipeline.policies.conftest import CaseWorld, request
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance


class Case(NamedTuple):
    """One object, and what a policy shall make of it; None where it shall stay as it is."""

    name: str
    policy: Path
    entered: dict[str, Any]
    golden: dict[str, Any] | None
    params: dict[str, Any] | None
    namespace: dict[str, Any] | None


def read(path: Path) -> Any:
    return load_yaml(path.read_text()) if path.exists() else None


def cases(folder: Path) -> Iterator[Case]:
    for policy in sorted(folder.glob("**/policy.yaml")):
        if "kind: MutatingAdmissionPolicy" not in policy.read_text():
            continue
        for entered in sorted((policy.parent / "tests").glob("*.object.yaml")):
            stem = entered.name.removesuffix(".object.yaml")
            golden, params, asked = (entered.with_name(f"{stem}.{part}.yaml") for part in ("gold", "params", "request"))
            namespace = (read(asked) or {}).get("namespaceObject")
            yield Case(
                stem,
                policy,
                read(entered),
                read(golden) or read(entered.with_name(f"{stem}.expected.yaml")),
                read(params),
                namespace,
            )


# A literal of mixed types, which this suite's own runner accepts. An API server does not compile it (cel-go
# HomogeneousAggregateLiterals); tests/cases/mutating/patches.yaml has a sidecar that compiles.
NOT_COMPILED = "sidecar-injection.adding-istio-sidecar"


def outcome_of(case: Case) -> Outcome:
    binding = case.policy.with_name("binding.yaml")
    policy = read(case.policy)
    policy["spec"].setdefault("reinvocationPolicy", "Never")  # an API server requires it
    bound = read(binding)
    if "paramRef" in bound["spec"]:
        bound["spec"]["paramRef"].setdefault("parameterNotFoundAction", "Allow")
    texts = [(str(case.policy), yaml.safe_dump(policy)), (str(binding), yaml.safe_dump(bound))]
    entered = case.entered
    group, _, version = entered["apiVersion"].rpartition("/")
    space = entered["metadata"].get("namespace") or "default"
    if case.namespace is not None:
        space = case.namespace["metadata"]["name"]
    labels = (case.namespace or {}).get("metadata", {}).get("labels", {})
    asked = request(
        {
            "resource": f"{group + '/' if group else ''}{version}/{entered['kind'].lower()}s",
            "kind": entered["kind"],
            "namespace": space,
            "name": entered["metadata"]["name"],
            "object": entered,
        }
    )
    world = CaseWorld({"namespaces": {space: labels}, "objects": [case.params] if case.params else []})
    return Run(Chain(rules_of(manifests_of(texts)), (1, 36)), asked, world).outcome()


def predicted(case: Case) -> dict[str, Any]:
    found = outcome_of(case)
    assert found.refusal is None, found.refusal
    assert isinstance(found.object, Known), found.object
    return found.object.value or {}


def within(part: Any, whole: Any) -> bool:
    """Whether a value has all that another one has: the API adds defaults, which golden files leave out."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and within(each, whole[name]) for name, each in part.items() if each is not None)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


def test_policies_make_the_golden_objects(shared: Path) -> None:
    """All cases of the folder whose tests pass, and no case of the folder whose golden files are wrong."""
    corpus = shared / "corpora" / "kat"
    good, bad = list(cases(corpus / "test-policies-pass")), list(cases(corpus / "test-policies-fail"))
    for case in good:
        if case.name == NOT_COMPILED:
            refusal = outcome_of(case).refusal
            assert refusal is not None
            assert "compilation failed" in (refusal.message or "")
            continue
        assert within(case.golden or case.entered, predicted(case)), case.name
        if case.golden is None:
            assert predicted(case) == case.entered
    differing = [case.name for case in bad if not within(case.golden or case.entered, predicted(case))]
    print(f"{len(good) - 1} golden objects agreed; of {len(bad)} wrong ones {len(differing)} differ")
    assert len(good) >= 9
    assert differing
