"""What can be said of lists and watches: tests/cases/conditions/proofs.yaml, and brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from pipeline.authorization import request_info
from pipeline.manifests.files import manifests_of
from pipeline.matching.label_text import is_label_value
from pipeline.request import UserInfo
from pipeline.stages.conditions.compiled import Asked, CompiledChain
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.expressions import request_value
from pipeline.stages.conditions.logic.proof import Outcome, Proof, Prover, object_of
from pipeline.stages.conditions.logic.steps import TOO_HARD
from pipeline.stages.conditions.selection import Selection, selection_of
from tests import brute_force
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[3] / "cases" / "conditions"
CASES: list[dict[str, Any]] = load_yaml((FOLDER / "proofs.yaml").read_text())


def asked_for(authorizers: list[dict[str, Any]], uri: str, selector: str) -> tuple[Asked, Selection]:
    """A chain that is asked about a list; the selector is that of labels, and after `;` that of fields."""
    manifest = {
        "apiVersion": "hindcast/v1alpha1",
        "kind": "AuthorizerChain",
        "metadata": {"name": "c"},
        "spec": {"authorizers": authorizers},
    }
    (chain,) = chains_of(manifests_of([("chain.yaml", yaml.safe_dump(manifest))]))
    labels, _, fields = selector.partition(";")
    info = request_info("GET", f"{uri}?labelSelector={quote(labels)}&fieldSelector={quote(fields)}")
    assert info is not None
    return CompiledChain(chain).asked(request_value(info, UserInfo("lucas")), True, {}), selection_of(info)


def proof_of(authorizers: list[dict[str, Any]], selector: str, prover: Prover) -> Proof:
    """The proof about a list of secrets."""
    asked, selection = asked_for(authorizers, "/api/v1/namespaces/shop/secrets", selector)
    return prover.prove(asked, asked.authorized(), selection, True)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_selection_is_proved_or_refuted(case: dict[str, Any]) -> None:
    prover = Prover()
    wanted = [
        (how, selector, says)
        for how in ("selector", "cel")
        for selector, says in (case.get("says", {}) | case.get(how, {})).items()
    ]
    assert wanted
    for how, selector, says in wanted:
        proof = proof_of([{**each, "semantics": how} for each in case["chain"]], selector, prover)
        if isinstance(says, dict):
            assert proof.model is not None, (how, selector, proof)
            shown = {str(key): value for key, value in proof.model.values.items() if key.is_label}
            assert shown == says, (how, selector)
        elif says == "vacuous":
            assert proof.is_vacuous, (how, selector, proof)
        else:
            assert proof.outcome == says, (how, selector, proof)
            assert not proof.is_vacuous
        for key, value in proof.model.values.items() if proof.model else ():
            assert not key.is_label or is_label_value(value), (how, selector, value)


def test_proofs_agree_with_brute_force() -> None:
    found = brute_force.check(1_500)
    assert min(found["proved"], found["refuted"], found["vacuous"]) > 100
    assert found["unknown"] < 30


def test_decisions_about_writes_agree_with_brute_force() -> None:
    found = brute_force.check_writes(2_000)
    assert min(found["known"], found["settled"], found["unknown"]) > 300


TYPED: list[dict[str, Any]] = load_yaml((FOLDER / "types.yaml").read_text())


@pytest.mark.parametrize("case", TYPED, ids=[case["name"] for case in TYPED])
def test_fields_have_types(case: dict[str, Any]) -> None:
    prover = Prover()
    for selector, says in case["says"].items():
        asked, selection = asked_for(case["chain"], case["uri"], f";{selector}")
        proof = prover.proof_of(asked, selection)
        if isinstance(says, dict):
            assert proof.model is not None, (selector, proof)
            obj = object_of(proof.model)
            assert {name: value for name, value in obj.items() if name != "metadata"} == says, selector
        elif says == "vacuous":
            assert proof.is_vacuous, (selector, proof)
        else:
            assert (proof.outcome, proof.is_vacuous) == (says, False), (selector, proof)


def test_a_solver_at_its_limit_says_so() -> None:
    # Ten pigeons in nine holes: no solver that counts cases ends soon.
    holes = '", "'.join(map(str, range(9)))
    pairs = [f"p{one} == object.metadata.labels.p{two}" for two in range(10) for one in range(two)]
    conditions = [{"id": "holes", "effect": "Allow", "condition": " || ".join(f"object.metadata.labels.{pair}" for pair in pairs)}]
    selector = ",".join(f"p{number} in ({holes})".replace('"', "") for number in range(10))
    proof = proof_of([{"name": "a", "conditions": conditions}], selector, Prover(steps_max=10_000))
    assert proof == Proof(Outcome.UNKNOWN, why=TOO_HARD)
