"""What generated roles allow in addition to what was recorded: in words that say how far it goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from ...cel.library.authorizer import Attributes
from .least import Atom, LeastRules, granted_atoms
from .needs import Grant

_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})


class Extent(StrEnum):
    """How far a right goes beyond its recorded uses."""

    WILDCARD = "a wildcard"
    HELD = "not used: a rule of a role that the subject wrote"
    VERB = "a verb that was not used"
    NAMESPACES = "every namespace"
    NAMES = "every name"
    COLLECTION = "all objects, also later ones"


class Beyond(NamedTuple):
    """One right that allows more than was recorded. `names` is the number of distinct names that were used."""

    namespace: str
    verb: str
    resource: str
    extent: Extent
    names: int


def beyond(rules: LeastRules, used: Iterable[Attributes | Grant]) -> Iterator[Beyond]:
    """The rights of some rules that allow more than the recorded questions, by namespace, resource and verb."""
    items = list(used)
    asked = [each for each in items if isinstance(each, Attributes)]
    held = {
        atom._replace(namespace=each.namespace) for each in items if isinstance(each, Grant) for atom in granted_atoms(each.rules)
    }
    uses = _uses(asked)
    found = set()
    for namespace, own in rules.items():
        for atom in granted_atoms(own):
            atom = atom._replace(namespace=namespace)
            extent = _extent(atom, uses, atom in held)
            if extent is not None:
                target = atom.path or (f"{atom.resource}.{atom.group}" if atom.group else atom.resource)
                found.add(Beyond(namespace, atom.verb, target, extent, len(_names(atom, uses))))
    return iter(sorted(found, key=lambda each: (list(Extent).index(each.extent), each)))


# For each verb, group and resource: the names that were used, by namespace.
Uses = Mapping[tuple[str, str, str], Mapping[str, set[str]]]


def _uses(asked: Iterable[Attributes]) -> Uses:
    found: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in asked:
        resource = f"{each.resource}/{each.subresource}" if each.subresource else each.resource
        found[each.verb, each.group, each.path or resource][each.namespace].add(each.name)
    return found


def _places(atom: Atom, uses: Uses) -> Mapping[str, set[str]]:
    every = uses.get((atom.verb, atom.group, atom.path or atom.resource), {})
    return {place: names for place, names in every.items() if atom.namespace in ("", place)}


def _names(atom: Atom, uses: Uses) -> set[str]:
    return {name for names in _places(atom, uses).values() for name in names if name}


def _extent(atom: Atom, uses: Uses, is_held: bool) -> Extent | None:
    """How far a right goes beyond its uses; None if it allows no more than they did."""
    places = _places(atom, uses)
    if atom.verb == "*" or atom.group == "*" or atom.resource.startswith("*") or atom.path.endswith("*"):
        return Extent.WILDCARD
    if not places:
        return Extent.HELD if is_held else Extent.VERB
    if atom.name is not None and atom.name in places.get("", ()):
        return None
    if not atom.namespace and any(places):
        return Extent.NAMESPACES
    if atom.path or atom.name is not None:
        return None
    if "" not in {name for names in places.values() for name in names}:
        return Extent.NAMES
    return Extent.COLLECTION if atom.verb in _COLLECTIONS else None
