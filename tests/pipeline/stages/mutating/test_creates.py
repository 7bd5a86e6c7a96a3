"""New objects that no policy can tell apart are judged once, and have the rows that each would have by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.manifests.documents import Document
from pipeline.policies.dispatch import compile_set
from pipeline.runs.window import Window
from pipeline.stages.in_force import GivenChain
from pipeline.stages.mutating.chain import Chain
from pipeline.stages.mutating.creates import AlikeCreates, Judged
from pipeline.stages.mutating.decode import rules_of
from pipeline.stages.mutating.stage import Judge
from pipeline.stages.mutating.walk import Met, Walk
from queries import open_lake
from tests.pipeline.contract.lakes import lake_of, log_lines
from tests.recording import START, recorded, take_in

CASES = yaml.safe_load(Path("tests/cases/mutating/alike.yaml").read_text())
_VERSION = (1, 36)
_MATCHES = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
# What the API server adds to a container before admission.
_DEFAULTS = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_API = "admissionregistration.k8s.io/v1"
_MUTATING, _VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"


def pod(number: int, **spec: Any) -> dict[str, Any]:
    name = f"web-{number % 2 + 1}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{number}", "controller": True}
    metadata = {"generateName": f"{name}-", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": [owner]}
    container = {"name": "app", "image": "web:1", "resources": {}, **_DEFAULTS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def created(number: int, **answered: Any) -> dict[str, Any]:
    own = {"name": f"web-{number}x", "uid": f"pod-{number}", "resourceVersion": str(100 + number)}
    answer = pod(number, **answered)
    answer["metadata"] |= own
    event = recorded(f"pod-{number}", START + timedelta(seconds=10 + number), "create", answer)
    del event["objectRef"]["name"]
    return {**event, "requestObject": pod(number)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}}
    pods = [created(number) for number in range(5)] + [created(5, securityContext={"runAsNonRoot": True})]
    return take_in(tmp_path_factory.mktemp("alike"), [recorded("shop", START, "create", shop), *pods])


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake_of([log_lines()], tmp_path_factory.mktemp("alike-control-plane"))


def documents(case: dict[str, Any]) -> list[Document]:
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": case["patch"]}} if "patch" in case else {}
    patch = patch or {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": case["apply"]}}
    rule = _MATCHES | ({"resourceNames": case["resource_names"]} if "resource_names" in case else {})
    spec = {"matchConstraints": {"resourceRules": [rule]}, "mutations": [patch], "reinvocationPolicy": "Never"}
    spec |= {"variables": case.get("variables", []), "matchConditions": case.get("conditions", [])}
    found = [policy(_MUTATING, "tried", spec)]
    if "later" in case:
        spec = {"matchConstraints": {"resourceRules": [_MATCHES]}, "validations": [{"expression": case["later"]}]}
        found += [policy(_VALIDATING, "later", spec)]
    bound = [(_MUTATING, {"policyName": "tried"}), (_VALIDATING, {"policyName": "later", "validationActions": ["Deny"]})]
    found += [policy(f"{kind}Binding", spec["policyName"], spec) for kind, spec in bound[: len(found)]]
    return [Document(each, f"policies.yaml:{number}") for number, each in enumerate(found)]


def policy(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


class Asked:
    """A judge that counts the requests that it is asked about."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.times = 0

    def __call__(self, met: Met) -> Judged:
        self.times += 1
        return self._judge(met)


def both(case: dict[str, Any], lake: Path) -> tuple[Sequence[Any], Sequence[Any], int]:
    """The rows of each request judged by itself; those where alike ones are judged once; and how many were judged then."""
    rules = rules_of(documents(case))
    chain, later = Chain(rules, _VERSION), compile_set(rules.later, _VERSION)
    judge = Judge(later, False, None)
    with closing(open_lake(lake)) as reader:
        walk = Walk(reader, Window(), GivenChain(chain), _VERSION)
        asked = Asked(judge)
        alike = AlikeCreates(asked, chain, (later, walk.validating), shares=walk.is_steady)
        own = [(each.event.audit_id, list(each.verdict.rows)) for each in walk.judged(judge)]
        shared = [(each.event.audit_id, list(each.verdict)) for each in walk.judged(alike.rows)]
    return own, shared, asked.times


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_alike_objects_are_judged_once(case: dict[str, Any], lake: Path) -> None:
    own, shared, judged = both(case, lake)
    assert shared == own
    assert len(own) == 6
    assert judged == case["judged"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_rows_of_a_control_plane_are_those_of_single_requests(case: dict[str, Any], control_plane: Path) -> None:
    own, shared, judged = both(case, control_plane)
    assert shared == own
    assert len(own) > 20
    assert judged <= len(own)
