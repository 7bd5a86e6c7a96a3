"""The types of fields of custom resources come from their definitions, and without those from their objects."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.manifests.files import manifests_of
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.difference import changes
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import Object, take_in

from .test_stage import event, judged

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/shop/things"
CONDITION = "object.spec.flag == true"
TEXT = """
apiVersion: hindcast/v1alpha1
kind: AuthorizerChain
metadata: {name: c}
spec:
  authorizers:
  - name: a
    conditions: [{id: c, effect: Allow, condition: 'CONDITION'}]
"""


def defined(flag: str) -> Object:
    """The creation of the definition, whose field has a type."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"flag": {"type": flag}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{**version, "selectableFields": [{"jsonPath": ".spec.flag"}]}],
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "uid": "u1", "resourceVersion": "1"},
        "spec": spec,
    }
    reference = {"resource": "customresourcedefinitions", "apiGroup": "apiextensions.k8s.io", "apiVersion": "v1"}
    return event(
        1, "create", CRDS, user="root", requestObject=body, responseObject=body,
        reference={**reference, "name": "things.example.com"}, responseStatus={"metadata": {}, "code": 201},
    )  # fmt: skip


def thing(flag: Any, number: int = 2) -> Object:
    """The creation of an object."""
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "namespace": "shop", "uid": "u2", "resourceVersion": str(number)},
        "spec": {"flag": flag},
    }
    return event(
        number, "create", THINGS, user="root", requestObject=body, responseObject=body,
        reference={"resource": "things", "namespace": "shop", "apiGroup": "example.com", "apiVersion": "v1", "name": "t"},
        responseStatus={"metadata": {}, "code": 201},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ([defined("boolean")], "proved"),
        ([defined("string")], "refuted with a hypothetical object"),
        ([defined("integer"), thing(1)], "proved"),
        ([thing(flag=True)], "proved"),
        ([thing("true")], "refuted with a known object"),
        ([thing(flag=True), thing("other", 3)], "unknown"),
        ([], "unknown"),
    ],
    ids=["boolean", "string", "nothing selects an integer by it", "seen", "seen as text", "seen as both", "unseen"],
)
def test_evidence_tells_the_types_of_fields(tmp_path: Path, before: list[Object], says: str) -> None:
    reference = {"resource": "things", "namespace": "shop", "apiGroup": "example.com"}
    listed = event(9, "list", f"{THINGS}?fieldSelector=spec.flag%3Dtrue", reference=reference)
    lake = take_in(tmp_path / "lake", [*before, listed])
    row = judged(lake, [{"name": "a", "conditions": [{"id": "c", "effect": "Allow", "condition": CONDITION}]}])[1]["id-9"]
    assert row["proof"] == says
    if says == "unknown":
        assert row["why"] == "no evidence tells whether spec.flag is a text, a boolean or an integer"


@pytest.mark.parametrize("is_defined", [True, False])
def test_a_change_takes_away_what_a_field_that_only_one_chain_reads_allowed(tmp_path: Path, is_defined: bool) -> None:
    reference = {"resource": "things", "namespace": "shop", "apiGroup": "example.com"}
    lake = take_in(
        tmp_path / "lake", [*([defined("boolean")] if is_defined else []), event(9, "list", THINGS, reference=reference)]
    )
    old, new = (
        chains_of(manifests_of([("chain.yaml", TEXT.replace("CONDITION", text))]))
        for text in (CONDITION, 'object.metadata.labels.a == "b"')
    )
    with closing(open_lake(lake)) as reader:
        (change,) = changes(reader, old[0], new[0], Asked())
    assert change.lost.is_unknown is not is_defined
    assert change.lost.selectors == (("-n shop -l a!=b --field-selector spec.flag=true",) if is_defined else ())
    assert ("no evidence tells whether spec.flag" in change.why) is not is_defined


def test_a_definition_also_tells_what_selectors_take(tmp_path: Path) -> None:
    reference = {"resource": "things", "namespace": "shop", "apiGroup": "example.com"}
    lake = take_in(tmp_path / "lake", [defined("boolean"), event(9, "list", THINGS, reference=reference)])
    row = judged(lake, [{"name": "a", "conditions": [{"id": "c", "effect": "Allow", "condition": CONDITION}]}])[1]["id-9"]
    assert row["suggestions"] == ["-n shop --field-selector spec.flag=true"]


def deployment(replicas: int) -> Object:
    """The creation of a Deployment."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "shop", "uid": "u3", "resourceVersion": "4"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    reference = {"resource": "deployments", "namespace": "shop", "apiGroup": "apps", "apiVersion": "v1", "name": "d"}
    return event(
        1, "create", "/apis/apps/v1/namespaces/shop/deployments", user="root", requestObject=body, responseObject=body,
        reference=reference, responseStatus={"metadata": {}, "code": 201},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("object.spec.replicas <= 9", "refuted with a hypothetical object"),
        ("object.spec.replicas < 3", "refuted with a known object"),
        ("object.spec.replicas < 3 || object.spec.replicas >= 3", "proved"),
        ("object.spec.replicas.startsWith('3') || true", "proved"),
    ],
)
def test_a_schema_tells_the_types_of_the_fields_of_a_built_in_kind(tmp_path: Path, condition: str, says: str) -> None:
    """A condition compares an integer that no selector takes."""
    reference = {"resource": "deployments", "namespace": "shop", "apiGroup": "apps", "apiVersion": "v1"}
    listed = event(9, "list", "/apis/apps/v1/namespaces/shop/deployments", reference=reference)
    lake = take_in(tmp_path / "lake", [deployment(5), listed])
    conditions = [{"id": "c", "effect": "Allow", "condition": f"{condition} || !has(object.spec.replicas)"}]
    assert judged(lake, [{"name": "a", "conditions": conditions}])[1]["id-9"]["proof"] == says
