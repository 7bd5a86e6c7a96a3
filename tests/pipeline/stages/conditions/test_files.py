"""The manifests of chains, also both forms of SubjectAccessReview; mistakes are in tests/cases/conditions/files.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.matching.field_text import FieldTerm
from pipeline.matching.selectors import Requirement
from pipeline.stages.conditions.chain import About, Builtin, Chain, Reads, Shape
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.logic.translate import Semantics
from pipeline.stages.conditions.model import ConditionsMap, Effect, Plain, Union
from tests.yaml_text import load_yaml

FILES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[3] / "cases" / "conditions" / "files.yaml").read_text())

CHAIN = """\
apiVersion: hindcast/v1alpha1
kind: AuthorizerChain
metadata:
  name: labels
spec:
  reads: Downgrade
  authorizers:
  # A comment, so that lines matter.
  - name: labels
    when: request.resource == "secrets"
    semantics: selector
    conditions: [{id: owner, effect: Deny, condition: 'object.metadata.labels.owner != "lucas"'},
      {id: public, effect: Allow, condition: 'object.metadata.labels.public == "true"', description: public ones}]
  - name: roles
    type: RBAC
"""
KEP = """\
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec:
  user: lucas
  groups: [dev]
  resourceAttributes:
    verb: list
    resource: secrets
    namespace: shop
status:
  allowed: false
  conditionSetChain:
  - authorizerName: one.example.com
    conditionsType: k8s.io/authorization-cel
    failureMode: Deny
    conditions:
    - {id: owner, effect: Deny, condition: 'object.metadata.labels.owner != "lucas"'}
    - {id: public, effect: Allow, condition: 'object.metadata.labels.public == "true"'}
  - authorizerName: two.example.com
    allowed: true
    reason: the end
"""
API = """\
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
metadata: {name: asked}
spec:
  user: lucas
  resourceAttributes:
    verb: watch
    resource: pods
    labelSelector:
      rawSelector: owner=lucas
    fieldSelector:
      requirements:
      - {key: spec.nodeName, operator: NotIn, values: [n1]}
status:
  conditionalDecision:
    type: Union
    union:
    - authorizerName: one.example.com
      decision:
        type: ConditionsMap
        conditionsMap:
          denyConditions: [{id: d, type: k8s.io/authorization-cel, condition: 'object.metadata.labels.env == "prod"'}]
          allowConditions: [{id: a, condition: "true", description: the rest}]
    - authorizerName: two.example.com
      decision:
        type: NoOpinion
        noOpinion: {reason: none of mine}
"""
GIVEN = {"chain": CHAIN, "kep": KEP, "api": API}


def read(text: str) -> Chain:
    (chain,) = chains_of(manifests_of([("chain.yaml", text)]))
    return chain


def test_a_chain_is_a_manifest() -> None:
    chain = read(CHAIN)
    assert (chain.name, chain.shape, chain.reads, chain.about) == ("labels", Shape.CHAIN, Reads.DOWNGRADE, None)
    labels, roles = chain.authorizers
    assert roles.decision is Builtin.RBAC
    assert (labels.semantics, roles.semantics) == (Semantics.SELECTOR, None)
    assert isinstance(labels.decision, ConditionsMap)
    assert [each.id for each in labels.decision.deny] == ["owner"]
    assert labels.decision.allow[0].description == "public ones"


def test_three_lists_say_the_same_as_effects() -> None:
    one = {"id": "owner", "condition": "true"}
    text = yaml.safe_dump(
        {
            **load_yaml(CHAIN),
            "spec": {"authorizers": [{"name": "a", "denyConditions": [one], "allowConditions": [{**one, "id": "x"}]}]},
        }
    )
    (authorizer,) = read(text).authorizers
    assert str(authorizer.decision) == "ConditionsMap(denies=1, allows=1)"


def test_a_review_in_the_form_of_the_kep_is_about_its_own_question() -> None:
    chain = read(KEP)
    assert chain.shape is Shape.KEP
    assert chain.about == About("lucas", ("dev",), "list", resource="secrets", namespace="shop")
    one, two = chain.authorizers
    assert isinstance(one.decision, ConditionsMap)
    assert one.decision.deny[0].type == "k8s.io/authorization-cel"
    assert two.decision == Plain(Effect.ALLOW, "the end")


def test_a_review_in_the_form_of_the_api_has_selectors() -> None:
    chain = read(API)
    assert (chain.name, chain.shape) == ("asked", Shape.API)
    assert chain.about is not None
    assert chain.about.labels == {Requirement("owner", "In", frozenset(["lucas"]))}
    assert chain.about.fields == {FieldTerm("spec.nodeName", "n1", negated=True)}
    one, two = chain.authorizers
    assert isinstance(one.decision, ConditionsMap)
    assert two.decision == Plain(Effect.NO_OPINION, "none of mine")


def test_a_union_may_be_nested() -> None:
    review = load_yaml(API)
    inner = review["status"]["conditionalDecision"]
    review["status"]["conditionalDecision"] = {"type": "Union", "union": [{"authorizerName": "all.example.com", "decision": inner}]}
    (authorizer,) = read(yaml.safe_dump(review)).authorizers
    assert isinstance(authorizer.decision, Union)


@pytest.mark.parametrize("case", FILES, ids=[str(case["change"]) for case in FILES])
def test_a_mistake_is_named_with_its_place(case: dict[str, Any]) -> None:
    text = GIVEN[case["from"]]
    for old, new in case["change"].items():
        assert old in text
        text = text.replace(old, new, 1)
    if not case["says"]:
        read(text)
        return
    with pytest.raises(InputError, match=re.escape(case["says"])):
        read(text)


def test_two_chains_cannot_both_replace_the_authorizers() -> None:
    with pytest.raises(InputError, match="found 2 chains, wanted one"):
        chains_of(manifests_of([("a.yaml", CHAIN), ("b.yaml", CHAIN)]))
