"""The solver of conditional reads against brute force: random chains and selectors over a domain small enough to enumerate.

`python -m tests.brute_force 100000` runs the long form, which takes minutes; the tests run a short one.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from typing import Any

from pipeline.authorization.attributes import RequestInfo
from pipeline.matching.field_text import FieldTerm
from pipeline.matching.selectors import Requirement
from pipeline.request import UserInfo
from pipeline.stages.conditions.chain import Authorizer, Chain, Shape
from pipeline.stages.conditions.compiled import Asked, CompiledChain
from pipeline.stages.conditions.expressions import request_value
from pipeline.stages.conditions.logic.proof import Outcome, Prover, object_of
from pipeline.stages.conditions.logic.translate import Semantics
from pipeline.stages.conditions.model import Condition, Effect, Plain, conditions_map
from pipeline.stages.conditions.selection import Selection

LABELS = ("a", "b", "c")
FIELD = "spec.f"
# A chain names some of the first; a selector also the last. Objects have one more value that neither names.
CONSTANTS, ASKED, FRESH = ("", "x", "y"), ("", "x", "y", "z"), "q"
INFO = RequestInfo("list", "/api/v1/x", True, "", "v1", "x")  # its resource is a constant of the domain
SELECTIONS_PER_CHAIN = 200


def objects() -> list[dict[str, Any]]:
    """Every object of the domain."""
    found = []
    for values in itertools.product((None, *ASKED, FRESH), repeat=len(LABELS)):
        labels = {name: value for name, value in zip(LABELS, values, strict=True) if value is not None}
        for spec in (None, {}, *({"f": value} for value in (*ASKED, FRESH))):
            for metadata in ({"labels": labels}, *([{}] if not labels else [])):
                found.append({"metadata": {"name": "o", **metadata}, **({"spec": spec} if spec is not None else {})})
    return found


OBJECTS = objects()


def expression(draw: random.Random, depth: int) -> str:
    """A random condition that formulas can express."""
    if depth and draw.random() < 0.6:
        parts = [expression(draw, depth - 1) for _ in range(3)]
        form = draw.choice(["({0} && {1})", "({0} || {1})", "!({0})", "({0} ? {1} : {2})"])
        return form.format(*parts)
    label = f"object.metadata.labels.{draw.choice(LABELS)}"
    path = draw.choice([label, label, f'object.metadata.labels["{draw.choice(LABELS)}"]', f"object.{FIELD}"])
    constants = ", ".join(f'"{each}"' for each in draw.sample(CONSTANTS, draw.randint(1, 2)))
    return draw.choice(
        [
            f'{path} == "{draw.choice(CONSTANTS)}"',
            f'"{draw.choice(CONSTANTS)}" != {path}',
            f"{path} in [{constants}]",
            f"has({label})",
            f'"{draw.choice(LABELS)}" in object.metadata.labels',
            f"has(object.{FIELD})",
            "has(object.metadata.labels)",
            "has(object.spec)",
            'request.verb == "list"',
            f'{path} == request.resource || "{draw.choice(CONSTANTS)}" == {path}',
        ]
    )


def chain(draw: random.Random) -> CompiledChain:
    """A random chain of one to three authorizers."""
    semantics = draw.choice(list(Semantics))
    authorizers = []
    for number in range(draw.randint(1, 3)):
        lists: dict[Effect, list[Condition]] = {effect: [] for effect in Effect}
        for place in range(draw.randint(1, 4)):
            effect = draw.choice([Effect.DENY, Effect.NO_OPINION, Effect.ALLOW, Effect.ALLOW])
            lists[effect].append(Condition(f"c{place}", expression(draw, draw.randint(0, 2))))
        decision = conditions_map(lists[Effect.DENY], lists[Effect.NO_OPINION], lists[Effect.ALLOW])
        if draw.random() < 0.1:
            decision = Plain(draw.choice(list(Effect)))
        authorizers.append(Authorizer(f"a{number}", decision, semantics=semantics))
    return CompiledChain(Chain("random", Shape.CHAIN, tuple(authorizers)))


def requirement(draw: random.Random) -> Requirement | FieldTerm:
    """A random term of a label or field selector."""
    if draw.random() < 0.2:
        return FieldTerm(FIELD, draw.choice(ASKED), draw.random() < 0.5)
    operator = draw.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
    values = frozenset(draw.sample(ASKED, draw.randint(1, 2))) if operator in ("In", "NotIn") else frozenset[str]()
    return Requirement(draw.choice(LABELS), operator, values)


_selected: dict[Requirement | FieldTerm, int] = {}


def selected_by(term: Requirement | FieldTerm) -> int:
    """The objects that one term selects, as bits."""
    if term not in _selected:
        one = Selection(fields=(term,)) if isinstance(term, FieldTerm) else Selection(labels=(term,))
        _selected[term] = sum(1 << place for place, obj in enumerate(OBJECTS) if one.selects(obj))
    return _selected[term]


def allowed_by(asked: Asked) -> int:
    """The objects that a chain allows, as bits: every condition is evaluated over every object."""
    found = 0
    for place, obj in enumerate(OBJECTS):
        outcome = asked.on({"object": obj})
        assert outcome is not None
        found |= (outcome.effect is Effect.ALLOW) << place
    return found


def check(count: int, seed: int = 1) -> Counter[str]:
    """Compare `count` answers; returns them by outcome. Raises AssertionError at the first that is wrong."""
    draw, found = random.Random(seed), Counter[str]()
    while found.total() < count:
        compiled, prover = chain(draw), Prover()
        asked = compiled.asked(request_value(INFO, UserInfo("u")), True, {})
        bounds, allowed = compiled.authorized(asked), allowed_by(asked)
        assert bounds.is_exact, bounds.problems
        for _ in range(min(SELECTIONS_PER_CHAIN, count - found.total())):
            terms = [requirement(draw) for _ in range(draw.randint(0, 4))]
            selection = Selection(
                tuple(each for each in terms if isinstance(each, Requirement)),
                tuple(each for each in terms if isinstance(each, FieldTerm)),
            )
            bits = (1 << len(OBJECTS)) - 1
            for term in terms:
                bits &= selected_by(term)
            proof = prover.prove(asked, bounds, selection)
            wanted = Outcome.REFUTED if bits & ~allowed else Outcome.PROVED
            shown = f"{selection} under {compiled.chain.authorizers}"
            assert proof.outcome is wanted, f"{proof} instead of {wanted}: {shown}"
            assert proof.is_vacuous is (bits == 0), f"{proof}: {shown}"
            if proof.model is not None:
                obj = object_of(proof.model)
                outcome = asked.on({"object": obj})
                assert selection.selects(obj), f"{obj}: {shown}"
                assert outcome is not None, f"{obj}: {shown}"
                assert outcome.effect is not Effect.ALLOW, f"{obj}: {shown}"
            found["vacuous" if proof.is_vacuous else str(proof.outcome)] += 1
    return found


if __name__ == "__main__":
    print(dict(check(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)))
