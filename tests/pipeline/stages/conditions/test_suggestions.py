"""Alternatives of a chain, and the selectors that it allows: T004-1, T004-3, T004-4 and T004-6."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import yaml

from pipeline.authorization.attributes import RequestInfo
from pipeline.manifests.files import manifests_of
from pipeline.matching.field_text import parse_field_selector
from pipeline.matching.label_text import parse_label_selector
from pipeline.request import UserInfo
from pipeline.stages.conditions.compiled import Asked, Bounds, CompiledChain
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.expressions import request_value
from pipeline.stages.conditions.fields import Fields
from pipeline.stages.conditions.logic.formula import every, negated
from pipeline.stages.conditions.logic.primes import Alternatives, alternatives
from pipeline.stages.conditions.logic.proof import Prover
from pipeline.stages.conditions.logic.suggest import suggestions
from pipeline.stages.conditions.selection import Selection
from tests import brute_force

from .test_proofs import CASES

INFO = RequestInfo("list", "/api/v1/secrets", True, "", "v1", "secrets")
DOCUMENT = next(case["chain"] for case in CASES if case["name"].startswith("T004-2"))


def compiled(authorizers: list[dict[str, Any]], semantics: str) -> tuple[Asked, Bounds]:
    spec = {"authorizers": [{**each, "semantics": semantics} for each in authorizers]}
    manifest = {"apiVersion": "hindcast/v1alpha1", "kind": "AuthorizerChain", "metadata": {"name": "c"}, "spec": spec}
    (chain,) = chains_of(manifests_of([("chain.yaml", yaml.safe_dump(manifest))]))
    made = CompiledChain(chain)
    asked = made.asked(request_value(INFO, UserInfo("lucas")), True, {})
    return asked, asked.authorized()


def shown(found: Alternatives) -> set[tuple[str, ...]]:
    """The boxes in words: `!=` for all other values, `?` for absence."""
    return {
        tuple(
            sorted(
                f"{key}{'!' if each.negated else ''}={','.join(sorted(each.texts))}{'?' if each.absent else ''}"
                for key, each in box
            )
        )
        for box in found.boxes
    }


@pytest.mark.parametrize("semantics", ["selector", "cel"])
def test_t004_1_the_document_has_three_alternatives(semantics: str) -> None:
    _, bounds = compiled(DOCUMENT, semantics)
    found = alternatives(Prover(), bounds.low)
    assert found.is_complete
    assert shown(found) == {
        ("owner=lucas", "type=k8s.io/basic-auth", "visible=true"),
        ("owner=lucas", "public=true", "visible=true"),
        ("env=dev", "owner=lucas"),
    }


def selection(labels: str, fields: str = "") -> Selection:
    return Selection(parse_label_selector(labels).requirements, parse_field_selector(fields))


@pytest.mark.parametrize("semantics", ["selector", "cel"])
def test_t004_3_a_client_may_ask_for_less(semantics: str) -> None:
    asked, bounds = compiled(DOCUMENT, semantics)
    found = suggestions(Prover(), asked, bounds, selection("owner=lucas"), ("", "secrets"), is_namespaced=True)
    assert [str(each.selection) for each in found.found] == [
        "-l env=dev,owner=lucas",
        "-l owner=lucas,public=true,visible=true",
        "-l owner=lucas,visible=true --field-selector type=k8s.io/basic-auth",
    ]
    assert found.is_complete
    assert found.only is None
    assert suggestions(Prover(), asked, bounds, selection("owner=bob"), ("", "secrets"), is_namespaced=True).found == ()


def test_a_field_that_no_selector_takes_is_left_out() -> None:
    asked, bounds = compiled(DOCUMENT, "selector")
    found = suggestions(Prover(), asked, bounds, selection("owner=lucas"), ("", "configmaps"), is_namespaced=True)
    assert len(found.found) == 2
    assert not found.is_complete


@pytest.mark.parametrize(
    ("resource", "fields", "is_of_nothing"),
    [
        (("", "secrets"), "type=", True),
        (("", "secrets"), "type=Opaque", False),
        (("", "secrets"), "type!=", False),
        (("", "pods"), "status.phase=", True),
        (("", "pods"), "spec.nodeName=", False),  # a Pod that waits for a node
        (("shop.example.com", "secrets"), "type=", False),
    ],
)
def test_an_empty_value_of_a_field_that_every_object_has_selects_nothing(
    resource: tuple[str, str], fields: str, is_of_nothing: bool
) -> None:
    asked = Selection((), parse_field_selector(fields), types=Fields(*resource))
    assert asked.is_of_nothing is is_of_nothing


def test_t004_4_the_difference_of_two_chains() -> None:
    new = [{**DOCUMENT[0], "conditions": [each for each in DOCUMENT[0]["conditions"] if each["id"] != "type"]}]
    new.append(
        {
            "name": "a2",
            "conditions": [{"id": "env", "effect": "Allow", "condition": 'object.metadata.labels.env in ["dev", "test"]'}],
        }
    )
    before, after = compiled(DOCUMENT, "selector")[1].low, compiled(new, "selector")[1].low
    lost = alternatives(Prover(), every([before, negated(after)]))
    gained = alternatives(Prover(), every([after, negated(before)]))
    assert shown(lost) == {("env!=dev,test?", "owner=lucas", "public!=true?", "type=k8s.io/basic-auth", "visible=true")}
    assert all("env=test" in box and "owner=lucas" in box for box in shown(gained))
    assert shown(gained) == {
        ("env=test", "owner=lucas", "visible!=true?"),
        ("env=test", "owner=lucas", "public!=true?", "type!=k8s.io/basic-auth?"),
    }


def test_t004_6_a_label_has_to_be_there_where_the_language_is_strict() -> None:
    chain = [{"name": "a", "conditions": [{"id": "env", "effect": "Allow", "condition": 'object.metadata.labels.env != "prod"'}]}]
    asked, bounds = compiled(chain, "cel")
    found = suggestions(Prover(), asked, bounds, selection("env!=prod"), ("", "secrets"), is_namespaced=True)
    assert [str(each.selection) for each in found.found] == ["-l env,env!=prod"]
    assert found.only is not None


def test_every_suggestion_is_allowed_and_selects_something_and_together_they_are_what_they_claim() -> None:
    found = sum((brute_force.check_suggestions(60, seed) for seed in (1, 2, 3)), Counter[str]())
    assert found["suggested"] > 50
    assert found["only"] > 20
    # What is all that the client may see is also said to be it.
    assert found["complete"] > 0.9 * found["covered"]


TEAMS = [
    {"name": "a", "conditions": [{"id": "t", "effect": "Allow", "condition": 'object.metadata.labels.team.startsWith("sec-")'}]}
]


def test_a_suggestion_has_no_text_that_only_the_solver_knows() -> None:
    asked, bounds = compiled(TEAMS, "selector")
    found = suggestions(Prover(), asked, bounds, selection("team in (sec-a,web)"), ("", "secrets"), is_namespaced=True)
    assert [str(each.selection) for each in found.found] == ["-l team in (sec-a,web),team!=web"]
    assert found.is_complete
    nothing = suggestions(Prover(), asked, bounds, selection("env=x"), ("", "secrets"), is_namespaced=True)
    assert nothing.found == ()
    assert not nothing.is_complete


def test_a_part_that_the_request_leaves_out_is_not_suggested() -> None:
    """The condition also allows secrets without the label, and the request asks for none of them: one selector is enough."""
    condition = '!("env" in object.metadata.labels) || object.metadata.labels.env == "dev"'
    chain = [{"name": "a", "conditions": [{"id": "e", "effect": "Allow", "condition": condition}]}]
    asked, bounds = compiled(chain, "selector")
    found = suggestions(Prover(), asked, bounds, selection("env"), ("", "secrets"), is_namespaced=True)
    assert [str(each.selection) for each in found.found] == ["-l env,env=dev"]
    assert found.only is not None
