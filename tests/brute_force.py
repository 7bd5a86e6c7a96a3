"""Chains against brute force: random chains, selections and writes over domains small enough to enumerate.

The truth is that of tests/chain_oracle.py, which imports nothing of the project. `python -m tests.brute_force 100000` runs the long
form, which takes minutes; the tests run a short one.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pipeline.authorization.attributes import RequestInfo
from pipeline.cel.values import Unknown
from pipeline.matching.field_text import FieldTerm
from pipeline.matching.selectors import Requirement
from pipeline.request import UserInfo
from pipeline.stages.conditions.chain import Authorizer, Chain, Shape
from pipeline.stages.conditions.compiled import Asked, CompiledChain
from pipeline.stages.conditions.expressions import request_value
from pipeline.stages.conditions.fields import Fields
from pipeline.stages.conditions.logic.formula import Kind
from pipeline.stages.conditions.logic.proof import Outcome, Prover, object_of
from pipeline.stages.conditions.logic.suggest import suggestions
from pipeline.stages.conditions.logic.translate import Semantics
from pipeline.stages.conditions.model import Condition, Effect, Plain, conditions_map
from pipeline.stages.conditions.selection import Selection
from tests import chain_oracle as oracle

LABELS = ("a", "b")
# A chain names the constants, and a selector also the others; objects have one more value that neither names.
CONSTANTS, ASKED, FRESH = ("", "x", "y"), ("", "x", "y", "z"), "q"
VALUES: Mapping[Kind, tuple[Any, ...]] = {
    Kind.TEXT: ("", "x", "y", "z", FRESH),
    Kind.BOOLEAN: (True, False),
    Kind.INTEGER: (0, 1, 7, 40, 3, -5),
}
# What selectors name: of texts and integers an object may have one more.
NAMED: Mapping[Kind, tuple[Any, ...]] = {Kind.TEXT: ASKED, Kind.BOOLEAN: (True, False), Kind.INTEGER: (0, 1, 7)}
SELECTIONS_PER_CHAIN = 40


@dataclass(frozen=True)
class Field:
    """A field of a resource: how a selector names it, and what it sees where an object lacks the field."""

    name: str
    path: tuple[str, ...]
    kind: Kind
    zero: Any = ""


@dataclass(frozen=True)
class Resource:
    """A resource whose objects are enumerated."""

    info: RequestInfo
    fields: tuple[Field, ...]
    types: Fields

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """Every object of the domain."""
        found = []
        for values in itertools.product((None, *ASKED, FRESH), repeat=len(LABELS)):
            labels = {name: value for name, value in zip(LABELS, values, strict=True) if value is not None}
            for metadata in ({"labels": labels}, *([{}] if not labels else [])):
                found += [{"metadata": {"name": "o", **metadata}, **rest} for rest in self._rests]
        return found

    @property
    def _rests(self) -> list[dict[str, Any]]:
        holder = self.fields[0].path[0]
        inner = (
            {field.path[1]: value for field, value in zip(self.fields, values, strict=True) if value is not None}
            for values in itertools.product(*((None, *VALUES[field.kind]) for field in self.fields))
        )
        return [{}, *({holder: each} for each in inner)]

    @property
    def zeros(self) -> dict[tuple[str, ...], Any]:
        """See chain_oracle.Zeros."""
        return {field.path: field.zero for field in self.fields}


def resource(group: str, name: str, fields: Sequence[Field], typed: bool = False) -> Resource:
    """A resource with these fields. Those of a custom resource have types because its definition says so."""
    info = RequestInfo("list", f"/apis/{group}/v1/{name}", True, group, "v1", name)
    types = tuple(sorted((each.path, each.kind) for each in fields)) if typed else ()
    selectable = frozenset(each.name for each in fields) if typed else frozenset[str]()
    return Resource(info, tuple(fields), Fields(group, name, types, selectable))


RESOURCES = (
    resource(
        "example.com",
        "things",
        [
            Field("spec.t", ("spec", "t"), Kind.TEXT),
            Field("spec.f", ("spec", "f"), Kind.BOOLEAN),
            Field("spec.n", ("spec", "n"), Kind.INTEGER),
        ],
        typed=True,
    ),
    resource(
        "",
        "pods",
        [
            Field("spec.nodeName", ("spec", "nodeName"), Kind.TEXT),
            Field("spec.hostNetwork", ("spec", "hostNetwork"), Kind.BOOLEAN, False),
        ],
    ),
    resource("", "nodes", [Field("spec.unschedulable", ("spec", "unschedulable"), Kind.BOOLEAN, False)]),
    resource("batch", "jobs", [Field("status.successful", ("status", "succeeded"), Kind.INTEGER, 0)]),
)
INFO = RESOURCES[0].info


@dataclass(frozen=True)
class Made:
    """A random chain, as the product has it and as the oracle has it."""

    compiled: CompiledChain
    members: tuple[tuple[oracle.Member, bool], ...]
    of: Resource

    def asked(self) -> Asked:
        """The chain, asked about a list."""
        return self.compiled.asked(request_value(self.of.info, UserInfo("u")), True, {})

    def truth(self, verb: str = "list", **objects: Any) -> tuple[str, bool]:
        """What the oracle says of some objects: the effect, and whether an error travels with it."""
        found = [(each, oracle.Evaluator(objects, total, self.of.zeros, verb)) for each, total in self.members]
        return oracle.decision(found)

    @cached_property
    def allowed(self) -> int:
        """The objects of the domain that the oracle allows, as bits."""
        return sum((self.truth(object=obj)[0] == "Allow") << at for at, obj in enumerate(self.of.objects))


def made(draw: random.Random, *, old: bool = False, texts: bool = True, of: Resource | None = None) -> Made:
    """A random chain of one to three authorizers. With `old` its conditions also read the old object."""
    chosen = of or draw.choice(RESOURCES)
    write = _Writer(draw, chosen, old, texts)
    authorizers: list[Authorizer] = []
    members: list[tuple[oracle.Member, bool]] = []
    for number in range(draw.randint(1, 3)):
        how = draw.choice(list(Semantics))
        lists: dict[Effect, list[oracle.Node]] = {effect: [] for effect in Effect}
        for _ in range(draw.randint(1, 4)):
            lists[draw.choice([Effect.DENY, Effect.NO_OPINION, Effect.ALLOW, Effect.ALLOW])].append(
                write.condition(draw.randint(0, 2))
            )
        own = {effect: [_condition(f"{effect}-{at}", each) for at, each in enumerate(found)] for effect, found in lists.items()}
        decision = conditions_map(own[Effect.DENY], own[Effect.NO_OPINION], own[Effect.ALLOW])
        member: oracle.Member = {str(effect): found for effect, found in lists.items()}
        if draw.random() < 0.1:
            effect = draw.choice(list(Effect))
            decision, member = Plain(effect), str(effect)
        authorizers.append(Authorizer(f"a{number}", decision, semantics=how))
        members.append((member, how is Semantics.SELECTOR))
    return Made(CompiledChain(Chain("random", Shape.CHAIN, tuple(authorizers))), tuple(members), chosen)


def chain(draw: random.Random) -> CompiledChain:
    """A random chain over the resource of INFO, without text functions."""
    return made(draw, texts=False, of=RESOURCES[0]).compiled


def _condition(name: str, node: oracle.Node) -> Condition:
    return Condition(name.lower(), oracle.cel(node))


class _Writer:
    """Writes random conditions."""

    def __init__(self, draw: random.Random, of: Resource, old: bool, texts: bool) -> None:
        self._draw = draw
        self._of = of
        self._variables = ("object", "oldObject") if old else ("object",)
        self._texts = texts

    def condition(self, depth: int) -> oracle.Node:
        draw = self._draw
        if depth and draw.random() < 0.6:
            parts = [self.condition(depth - 1) for _ in range(3)]
            form = draw.choice(["and", "or", "not", "if"])
            return (form, *parts[: {"not": 1, "if": 3}.get(form, 2)])
        return self._test()

    def _test(self) -> oracle.Node:
        draw = self._draw
        kind = draw.choice(["label", "label", *(each.kind for each in self._of.fields)])
        ref = self._label() if kind == "label" else self._field(kind)
        values = CONSTANTS if kind in ("label", Kind.TEXT) else (*VALUES[Kind(kind)][:2], "x", "true", "1")
        wanted = type(draw.choice(values))
        alike = [each for each in values if type(each) is wanted]  # a list has elements of one type
        forms: list[oracle.Node] = [
            ("eq", ref, draw.choice(values)),
            ("ne", ref, draw.choice(values)),
            ("eq", draw.choice(values), ref),
            ("in", ref, draw.sample(alike, min(len(alike), draw.randint(0, 2)))),
            ("has", ref),
            ("has", (ref[0], ref[1][:-1])),
            ("listed", ref[0], draw.choice(LABELS)),
            ("list",),
            ("broken",),
        ]
        if kind == Kind.BOOLEAN:
            forms += [("flag", ref)] * 4
        if kind == Kind.INTEGER or draw.random() < 0.1:
            forms += [("order", ref, draw.choice(["<", "<=", ">", ">="]), draw.choice([0, 1, 7, 2.5]))] * 4
        if self._texts:
            function = draw.choice(["startsWith", "endsWith", "contains"])
            forms += [("function", ref, function, draw.choice(CONSTANTS))] * 3
            forms += [("eq", self._label(), self._label())]
        if self._texts and kind == "label":
            forms += [("size", ref, draw.choice(["<", ">=", "=="]), draw.randint(0, 2))]
        return draw.choice(forms)

    def _label(self) -> oracle.Ref:
        return self._draw.choice(self._variables), ("metadata", "labels", self._draw.choice(LABELS))

    def _field(self, kind: Any) -> oracle.Ref:
        fields = [each for each in self._of.fields if each.kind is kind]
        return self._draw.choice(self._variables), self._draw.choice(fields).path


def requirement(draw: random.Random) -> Requirement:
    """A random term of a label selector."""
    operator = draw.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
    values = frozenset(draw.sample(ASKED, draw.randint(1, 2))) if operator in ("In", "NotIn") else frozenset[str]()
    return Requirement(draw.choice(LABELS), operator, values)


def selection_in(draw: random.Random, of: Resource) -> Selection:
    """A random selection of objects of a resource."""
    labels, terms = [], []
    for _ in range(draw.randint(0, 3)):
        if draw.random() < 0.6:
            labels.append(requirement(draw))
            continue
        field = draw.choice(of.fields)
        texts = sorted({"", *(str(each).lower() for each in NAMED[field.kind])})
        terms.append(FieldTerm(field.name, draw.choice(texts), draw.random() < 0.4))
    return Selection(tuple(labels), tuple(terms), types=of.types)


def selected_by(selection: Selection, of: Resource) -> int:
    """The objects of the domain that a selection takes, as bits."""
    requirements = [(each.key, each.operator, sorted(each.values)) for each in selection.labels]
    terms = [(each.field, each.value, each.negated) for each in selection.fields]
    paths = {each.name: each.path for each in of.fields} | {"metadata.name": ("metadata", "name")}
    found = (oracle.selects(obj, requirements, terms, paths, of.zeros) for obj in of.objects)
    return sum(taken << at for at, taken in enumerate(found))


def check(count: int, seed: int = 1) -> Counter[str]:
    """Compare `count` proofs; returns them by outcome. Raises AssertionError at the first that is wrong."""
    draw, found = random.Random(seed), Counter[str]()
    while found.total() < count:
        own, prover = made(draw), Prover()
        asked = own.asked()
        for _ in range(min(SELECTIONS_PER_CHAIN, count - found.total())):
            selection = selection_in(draw, own.of)
            proof = prover.proof_of(asked, selection)
            shown = f"{proof}: {selection} of {own.of.info.path} under {own.compiled.chain.authorizers}"
            bits = selected_by(selection, own.of)
            if proof.outcome is Outcome.PROVED:
                assert not bits & ~own.allowed, shown
                assert not (proof.is_vacuous and bits), shown
            if proof.model is not None:
                obj = object_of(proof.model)
                assert own.truth(object=obj)[0] != "Allow", f"{obj}: {shown}"
                alone = replace(own.of)
                alone.__dict__["objects"] = [obj]
                assert selected_by(selection, alone), f"{obj}: {shown}"
            found["vacuous" if proof.is_vacuous else str(proof.outcome)] += 1
    return found


def check_suggestions(count: int, seed: int = 1) -> Counter[str]:
    """Compare the suggestions for `count` lists that are refused; returns them by what is claimed of them."""
    draw, found = random.Random(seed), Counter[str]()
    while found["asked"] < count:
        own, prover = made(draw), Prover()
        asked = own.asked()
        bounds = asked.authorized(own.of.types)
        for _ in range(4):
            selection = selection_in(draw, own.of)
            if prover.proof_of(asked, selection).outcome is not Outcome.REFUTED:
                continue
            given = suggestions(prover, asked, bounds, selection, (own.of.info.group, own.of.info.resource))
            wanted = selected_by(selection, own.of) & own.allowed
            shown = f"{list(map(str, (each.selection for each in given.found)))} for {selection} of {own.of.info.path} under "
            shown += f"{own.compiled.chain.authorizers}"
            covered = 0
            for each in given.found:
                bits = selected_by(each.selection, own.of)
                assert not bits & ~wanted, f"refused by {each.selection}: {shown}"
                assert bits, f"selects nothing, {each.selection}: {shown}"
                covered |= bits
            assert not given.is_complete or covered == wanted, f"not complete: {shown}"
            found["asked"] += bool(wanted)
            found["nothing"] += not wanted
            found["suggested"] += len(given.found)
            found["complete"] += given.is_complete and bool(wanted)
            found["only"] += given.only is not None
            found["covered"] += covered == wanted and bool(wanted)
    return found


def check_writes(count: int, seed: int = 1) -> Counter[str]:
    """Compare `count` decisions about writes, some of whose objects were not recorded; returns them by outcome."""
    draw, found = random.Random(seed), Counter[str]()
    while found.total() < count:
        own = made(draw, old=True)
        asked = own.compiled.asked({**request_value(own.of.info, UserInfo("u")), "verb": "update"}, False, {})
        for _ in range(min(SELECTIONS_PER_CHAIN, count - found.total())):
            objects = {name: draw.choice([*draw.sample(own.of.objects, 4), None]) for name in ("object", "oldObject")}
            lost = [name for name in objects if draw.random() < 0.3]
            outcome = asked.on({**objects, **{name: Unknown(name) for name in lost}, "options": None})
            shown = f"{outcome} of {objects} without {lost} under {own.compiled.chain.authorizers}"
            options = [[*draw.sample(own.of.objects, 12), None] if name in lost else [objects[name]] for name in objects]
            truths = [own.truth("update", object=one, oldObject=two) for one, two in itertools.product(*options)]
            if not lost:
                assert outcome is not None, shown
                assert (str(outcome.effect), bool(outcome.error)) == truths[0], f"{truths[0]} instead of {shown}"
            elif outcome is not None:
                assert {effect == "Allow" for effect, _ in truths} == {outcome.effect is Effect.ALLOW}, f"{truths} for {shown}"
            found["known" if not lost else "settled" if outcome is not None else "unknown"] += 1
    return found


if __name__ == "__main__":
    size, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for each in (check, check_writes, check_suggestions):
        print(each.__name__, dict(each(size, start)))
