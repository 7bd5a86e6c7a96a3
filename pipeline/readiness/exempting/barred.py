"""The fields that an exemption may not select on: those that the denying expressions of its policy read.

An exemption of such a field's value would exempt the value that the policy forbids. For example, a policy against the label
`cost-center=99` with an exemption of that label forbids nothing. A policy about users does not mean to keep out
controllers of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...cel import ReadSet
from ...cel.readset import Reads
from .exclusions import Exclusion, Kind

_OBJECTS = ("object", "oldObject")
_BY_NAME = frozenset([Kind.OBJECT, Kind.WORKLOAD])
_BY_USER = frozenset([Kind.USER, Kind.USER_IN_NAMESPACE, Kind.GROUP])


@dataclass(frozen=True, slots=True)
class Barred:
    """Kinds of exclusions, and keys of labels, that are not proposed. `labels` None bars every label."""

    kinds: frozenset[Kind] = frozenset([Kind.CONTROLLER])
    labels: frozenset[str] | None = frozenset()

    def bars(self, exclusion: Exclusion) -> bool:
        """Whether an exclusion selects on something barred."""
        if exclusion.kind is Kind.LABEL and (self.labels is None or exclusion.subject.partition("=")[0] in self.labels):
            return True
        return exclusion.kind in self.kinds

    def and_kinds(self, kinds: Iterable[Kind]) -> Barred:
        """With more kinds barred."""
        return Barred(self.kinds | frozenset(kinds), self.labels)


def barred_by(reads: ReadSet) -> Barred:
    """The bar that follows from these reads of expressions. An expression that only tests whether labels exist bars no label."""
    kinds: set[Kind] = set()
    request = reads.of("request")
    if _is_read(request, "userInfo") or "authorizer" in {name.partition(".")[0] for name in reads.variables()}:
        kinds |= _BY_USER
    else:
        kinds.add(Kind.CONTROLLER)
    if _is_read(request, "name") or any(_is_read(reads.of(each), "metadata", "name") for each in _OBJECTS):
        kinds |= _BY_NAME
    if any(_is_read(reads.of(each), "metadata", "generateName") for each in _OBJECTS):
        kinds |= _BY_NAME
    if (
        _is_read(request, "namespace")
        or _is_read(reads.of("namespaceObject"), "metadata", "name")
        or any(_is_read(reads.of(each), "metadata", "namespace") for each in _OBJECTS)
    ):
        kinds.add(Kind.NAMESPACE)
    keys: set[str] = set()
    for each in _OBJECTS:
        labels = _below(reads.of(each), "metadata", "labels")
        if labels is None:
            continue
        if _is_open(labels):
            return Barred(frozenset(kinds), None)
        keys |= set(labels.fields)
    return Barred(frozenset(kinds), frozenset(keys))


def _is_open(node: Reads) -> bool:
    """Whether more of a value is read than named fields."""
    return node.whole or node.members or node.elements is not None


def _below(node: Reads, *path: str) -> Reads | None:
    """The reads at a path; a node that reads everything if a node above does so; None if nothing is read there."""
    for name in path:
        if _is_open(node):
            return Reads(whole=True)
        found = node.fields.get(name)
        if found is None:
            return None
        node = found
    return node


def _is_read(node: Reads, *path: str) -> bool:
    # A comparison with a constant reads the field's kind only; for a string that is the string itself.
    return _below(node, *path) is not None
