"""Selectors that a client may ask for instead of a list or a watch that is not allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from ....matching.field_text import FieldTerm
from ....matching.selectors import Requirement
from ..compiled import Asked, Bounds
from ..fields import Fields
from ..known import State, model_of
from ..selection import Range, Selection
from .formula import Key, Values, is_true
from .primes import Box, alternatives
from .proof import Outcome, Prover
from .steps import SEARCH_STEPS_MAX

_KNOWN_MAX = 200  # known objects that alternatives may start from
_PARTS_MAX = 64  # selections that one alternative may be split into
_Part: TypeAlias = "tuple[Requirement | FieldTerm, ...]"


class Suggested(NamedTuple):
    """One selection that is proved to be allowed, with how many of the known objects that the client may see it keeps."""

    selection: Selection
    kept: int


class Suggestions(NamedTuple):
    """Selections inside one that is not allowed, the most useful first.

    `known`: the known objects that the client asked for and may see. `is_complete`: together the selections are all of that.
    """

    found: tuple[Suggested, ...]
    known: int
    is_complete: bool

    @property
    def only(self) -> Selection | None:
        """The one selection that is all that the client may see; None if one is not enough."""
        return self.found[0].selection if self.is_complete and len(self.found) == 1 else None


def suggestions(
    prover: Prover,
    asked: Asked,
    bounds: Bounds,
    selection: Selection,
    resource: tuple[str, str],
    states: Sequence[State] = (),
    is_namespaced: bool | None = None,
) -> Suggestions:
    """The selections to ask for, each proved. `resource` is its group and name, and `states` are known objects."""
    if not selection.types.resource:
        selection = replace(selection, types=Fields(*resource))
    keys, paths = prover.reads(bounds.low)
    within = selection.ranges()
    models = [(state, model_of(state.object, (*keys, *within), paths)) for state in states if selection.selects(state.object)]
    seen = [(state, model) for state, model in models if is_true(bounds.low, model)]
    with prover.steps.within(SEARCH_STEPS_MAX):
        found = alternatives(prover, bounds.low, within, is_namespaced, [model for _, model in seen[:_KNOWN_MAX]])
    narrowed = [part for box in found.boxes for part in _rendered(box, selection)]
    proofs = {part: prover.proof_of(asked, part, is_namespaced) for part in dict.fromkeys(narrowed) if part is not None}
    # What selects nothing adds nothing, so that it is neither shown nor missed.
    proved = [
        part
        for part, proof in proofs.items()
        if proof.outcome is Outcome.PROVED and not proof.is_vacuous and not part.is_of_nothing
    ]
    is_whole = None not in narrowed and all(proof.outcome is Outcome.PROVED for proof in proofs.values())
    ranked = [Suggested(each, sum(each.selects(state.object) for state, _ in seen)) for each in proved]
    ranked.sort(key=lambda each: (-each.kept, len(each.selection.labels) + len(each.selection.fields), str(each.selection)))
    return Suggestions(tuple(ranked), len(seen), is_whole and found.is_complete and bounds.is_exact)


def selections_of(box: Box, selection: Selection) -> Iterator[Selection]:
    """The parts of a box that selectors can express, inside a selection."""
    yield from (each for each in _rendered(box, selection) if each is not None)


def _rendered(box: Box, selection: Selection) -> Iterator[Selection | None]:
    """A box inside a selection, as selections that together are all of it; None for a part that is not expressed."""
    within = selection.ranges()
    choices: list[Sequence[_Part | None]] = []
    for key, values in box:
        taken = within.get(key, Range())
        if not _is_implied(taken, values):
            choices.append(_of_label(key, values, taken) if key.is_label else _of_field(key, values, taken, selection.types))
    if prod(map(len, choices)) > _PARTS_MAX:
        yield None
        return
    for parts in product(*choices):
        if any(part is None for part in parts):
            yield None
            continue
        terms = [term for part in parts if part is not None for term in part]
        labels = dict.fromkeys([*selection.labels, *(term for term in terms if isinstance(term, Requirement))])
        fields = dict.fromkeys([*selection.fields, *(term for term in terms if isinstance(term, FieldTerm))])
        yield selection_like(selection, labels, fields)


def selection_like(selection: Selection, labels: Iterable[Requirement], fields: Iterable[FieldTerm]) -> Selection:
    """A selection in the same place with other terms."""
    return replace(selection, labels=tuple(sorted(labels, key=str)), fields=tuple(sorted(fields, key=str)), ignored="")


def _is_implied(taken: Range, values: Values) -> bool:
    """Whether the values that are taken anyway lie in a set."""
    return taken.values.both(values.complement()).is_empty


def _of_label(key: Key, values: Values, taken: Range) -> Sequence[_Part | None]:
    name = key.path[-1]
    if values.negated:
        excluded = (Requirement(name, "NotIn", values.texts),) if values.texts else ()
        return [excluded if values.absent else (Requirement(name, "Exists"), *excluded)]
    texts = frozenset(text for text in values.texts if taken.holds(text))
    found: list[_Part | None] = [(Requirement(name, "In", texts),)] if texts else []
    if values.absent and taken.holds(None):
        found.append((Requirement(name, "DoesNotExist"),))
    return found


def _of_field(key: Key, values: Values, taken: Range, fields: Fields) -> Sequence[_Part | None]:
    """A selector takes an absent field for its zero value, so that it can select both or neither."""
    name = fields.name_of(key)
    if name is None:
        return [None]
    zero = [values.absent] * taken.holds(None) + [values.holds(key.absent)] * (key.may_be(key.absent) and taken.holds(key.absent))
    lost: list[_Part | None] = [None] if any(zero) and not all(zero) else []
    texts = sorted(text for text in values.texts - {key.absent} if key.may_be(text) and taken.holds(text))
    if values.negated:
        excluded = texts + ([] if all(zero) else [key.absent])
        return [tuple(FieldTerm(name, text, True) for text in excluded), *lost]
    texts += [key.absent] if zero and all(zero) else []
    return [*((FieldTerm(name, text),) for text in texts), *lost]
