"""Selectors that a client may ask for instead of a list or a watch that is not allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ....matching.field_text import FieldTerm
from ....matching.selectors import Requirement
from ..compiled import Asked, Bounds
from ..known import State, model_of
from ..selection import Range, Selection
from .formula import NAME, NAMESPACE, Key, Values, is_true
from .primes import Box, alternatives
from .proof import Outcome, Prover

# The fields that the API server can select by, in addition to a name and a namespace (kubernetes pkg/apis/*/v1/conversion.go).
_SELECTABLE = {
    ("", "secrets"): ("type",),
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "events"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason", "type", "source",
    ),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}  # fmt: skip
_KNOWN_MAX = 200  # known objects that alternatives may start from


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
    keys, paths = prover.reads(bounds.low)
    within = selection.ranges()
    models = [(state, model_of(state.object, (*keys, *within), paths)) for state in states if selection.selects(state.object)]
    seen = [(state, model) for state, model in models if is_true(bounds.low, model)]
    found = alternatives(prover, bounds.low, within, is_namespaced, (model for _, model in seen[:_KNOWN_MAX]))
    is_complete = found.is_complete
    rendered: dict[Selection, None] = {}
    for box in found.boxes:
        for narrowed in _rendered(box, selection, resource):
            is_complete = is_complete and narrowed is not None
            if narrowed is not None and prover.prove(asked, bounds, narrowed, is_namespaced).outcome is Outcome.PROVED:
                rendered[narrowed] = None
    ranked = [Suggested(each, sum(each.selects(state.object) for state, _ in seen)) for each in rendered]
    ranked.sort(key=lambda each: (-each.kept, len(each.selection.labels) + len(each.selection.fields), str(each.selection)))
    return Suggestions(tuple(ranked), len(seen), is_complete)


def selections_of(box: Box, selection: Selection, resource: tuple[str, str]) -> Iterator[Selection]:
    """The parts of a box that selectors can express, inside a selection."""
    yield from (each for each in _rendered(box, selection, resource) if each is not None)


def _rendered(box: Box, selection: Selection, resource: tuple[str, str]) -> Iterator[Selection | None]:
    """A box inside a selection, as selections that together are all of it; None for a part that no selector can express."""
    within = selection.ranges()
    choices: list[list[tuple[Requirement | FieldTerm, ...] | None]] = []
    for key, values in box:
        if _is_implied(within.get(key), values):
            continue
        choices.append(_of_label(key, values) if key.is_label else _of_field(key, values, resource))
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
    return Selection(tuple(sorted(labels, key=str)), tuple(sorted(fields, key=str)), selection.namespace, selection.name)


def _is_implied(taken: Range | None, values: Values) -> bool:
    """Whether the values that are taken anyway lie in a set."""
    return taken is not None and taken.values.both(values.complement()).is_empty


def _of_label(key: Key, values: Values) -> list[tuple[Requirement | FieldTerm, ...] | None]:
    name = key.path[-1]
    if values.negated:
        excluded = (Requirement(name, "NotIn", values.texts),) if values.texts else ()
        return [excluded if values.absent else (Requirement(name, "Exists"), *excluded)]
    found: list[tuple[Requirement | FieldTerm, ...] | None] = []
    if values.texts:
        found.append((Requirement(name, "In", values.texts),))
    if values.absent:
        found.append((Requirement(name, "DoesNotExist"),))
    return found


def _of_field(key: Key, values: Values, resource: tuple[str, str]) -> list[tuple[Requirement | FieldTerm, ...] | None]:
    """A selector takes an absent field for an empty one, so that it can select both or neither."""
    name = str(key)
    if key not in (NAME, NAMESPACE) and name not in _SELECTABLE.get(resource, ()):
        return [None]
    takes_empty = values.absent and values.holds("")
    if values.negated:
        excluded = sorted(values.texts - {""}) + ([] if takes_empty else [""])
        return [tuple(FieldTerm(name, text, True) for text in excluded)]
    texts = sorted(values.texts - {""}) + ([""] if takes_empty else [])
    return [(FieldTerm(name, text),) for text in texts] or [None]
