"""The smallest roles under which a user can do what it did: exact by default, wider where the options say so.

Every rule is a product of verbs, resources and names, and each combination in it was used. So no verb, resource or name can be
taken away without a recorded request that is then refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...authorization.covering import uncovered
from ...authorization.rbac import Rule, Rules
from ...cel.library.authorizer import Attributes
from .needs import Grant

# audit2rbac's expansions: whoever uses one of these verbs usually needs the others, too.
EXPANSIONS: Mapping[str, tuple[str, ...]] = {
    "watch": ("get", "list"),
    "list": ("get", "watch"),
    "update": ("get", "patch"),
    "patch": ("get", "update"),
}
# These verbs never have a name in the URL that a rule should hold: objects are created under ever new names.
_UNNAMED_VERBS = frozenset({"create", "deletecollection"})


@dataclass(frozen=True, slots=True)
class LeastOptions:
    """How wide the roles are.

    `names_max`: a rule with more names than this number is for every name. `expands_verbs` adds the verbs that clients use
    together. `collapses_namespaces` grants rights in all namespaces if they were used in more than one. `counts_on_defaults`
    leaves out the rights that Kubernetes gives to every authenticated user. `widens_made_names` grants rights for every name in
    place of names that a server, a controller or a script made.
    """

    names_max: int = 5
    expands_verbs: bool = False
    collapses_namespaces: bool = False
    counts_on_defaults: bool = True
    widens_made_names: bool = True


class Atom(NamedTuple):
    """One right: in a namespace, or in the cluster for the empty one. `name` is None for every name; `path` is a URL."""

    namespace: str
    verb: str
    group: str = ""
    resource: str = ""
    name: str | None = None
    path: str = ""


# The rules of each namespace; those of the empty one are for the whole cluster.
LeastRules: TypeAlias = Mapping[str, Rules]


def least_rules(used: Iterable[Attributes | Grant], options: LeastOptions | None = None) -> LeastRules:
    """The fewest rights that give every question and hold every granted rule, as few rules."""
    options = options or LeastOptions()
    atoms: set[Atom] = set()
    for each in used:
        if isinstance(each, Grant):
            atoms.update(atom._replace(namespace=each.namespace) for atom in granted_atoms(each.rules))
        else:
            atoms.update(_atoms_of(each, options))
    if options.collapses_namespaces:
        atoms = set(_collapsed(atoms))
    return _rules_of(_without_covered(_with_few_names(atoms, options.names_max)))


def _with_few_names(atoms: Collection[Atom], names_max: int) -> set[Atom]:
    """The atoms, where rights for more names than these are for every name."""
    names: dict[Atom, set[str | None]] = defaultdict(set)
    for atom in atoms:
        names[atom._replace(name=None)].add(atom.name)
    found = set()
    for atom, own in names.items():
        found.update({atom} if None in own or len(own) > names_max else {atom._replace(name=name) for name in own})
    return found


def _without_covered(atoms: Collection[Atom]) -> set[Atom]:
    """The atoms that no other one covers: none for all names, for the whole cluster, or with a star."""
    stars = [(atom, _rule_of(atom)) for atom in atoms if _has_star(atom)]
    every = frozenset(atoms)

    def is_covered(atom: Atom) -> bool:
        wider = {atom._replace(name=None), atom._replace(namespace=""), atom._replace(name=None, namespace="")} - {atom}
        if not every.isdisjoint(wider):
            return True
        return any(
            star.namespace in ("", atom.namespace) and star != atom and not uncovered((rule,), (_rule_of(atom),))
            for star, rule in stars
        )

    return {atom for atom in atoms if not is_covered(atom)}


def _has_star(atom: Atom) -> bool:
    return "*" in (atom.verb, atom.group) or "*" in atom.resource or "*" in atom.path


def _rule_of(atom: Atom) -> Rule:
    if atom.path:
        return Rule((atom.verb,), urls=(atom.path,))
    return Rule((atom.verb,), (atom.group,), (atom.resource,), () if atom.name is None else (atom.name,))


def _atoms_of(asked: Attributes, options: LeastOptions) -> Iterator[Atom]:
    verbs = (asked.verb, *(EXPANSIONS.get(asked.verb, ()) if options.expands_verbs else ()))
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    for verb in verbs:
        if asked.path:
            if verb == asked.verb:
                yield Atom("", verb, path=asked.path)
        elif asked.name and (verb not in _UNNAMED_VERBS or asked.subresource):
            yield Atom(asked.namespace, verb, asked.group, resource, asked.name)
        else:
            yield Atom(asked.namespace, verb, asked.group, resource)


def granted_atoms(rules: Iterable[Rule]) -> Iterator[Atom]:
    """Rules as atoms without a namespace."""
    for rule in rules:
        for verb in rule.verbs:
            for group in rule.groups:
                for resource in rule.resources:
                    for name in rule.names or (None,):
                        yield Atom("", verb, group, resource, name)
            for path in rule.urls:
                yield Atom("", verb, path=path)


def _collapsed(atoms: Collection[Atom]) -> Iterator[Atom]:
    """The atoms, with those that are used in more than one namespace once for the cluster."""
    places: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for atom in atoms:
        places[atom.verb, atom.group, atom.resource].add(atom.namespace)
    for atom in atoms:
        is_wide = len(places[atom.verb, atom.group, atom.resource]) > 1
        yield atom._replace(namespace="") if is_wide and not atom.path else atom


def _rules_of(atoms: Iterable[Atom]) -> dict[str, Rules]:
    """The rules of each namespace."""
    names: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    paths: dict[str, set[str]] = defaultdict(set)
    for atom in atoms:
        if atom.path:
            paths[atom.verb].add(atom.path)
        else:
            names[atom.namespace, atom.verb, atom.group, atom.resource] |= set() if atom.name is None else {atom.name}
    by_namespace: dict[str, dict[tuple[str, str, tuple[str, ...]], set[str]]] = defaultdict(lambda: defaultdict(set))
    for (namespace, verb, group, resource), own in names.items():
        by_namespace[namespace][group, resource, tuple(sorted(own))].add(verb)
    rules = {namespace: _merged(found) for namespace, found in by_namespace.items()}
    if paths:
        rules[""] = (*rules.get("", ()), *_path_rules(paths))
    return dict(sorted(rules.items()))


def _merged(verbs: Mapping[tuple[str, str, tuple[str, ...]], set[str]]) -> Rules:
    """Rules of one namespace: resources of one group with equal verbs and names are one rule, then groups with equal resources."""
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], set[str]] = defaultdict(set)
    for (group, resource, names), found in verbs.items():
        resources[group, tuple(_in_order(found)), names].add(resource)
    groups: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], set[str]] = defaultdict(set)
    for (group, own, names), several in resources.items():
        groups[own, tuple(sorted(several)), names].add(group)
    merged = [Rule(own, tuple(sorted(several)), kinds, names) for (own, kinds, names), several in groups.items()]
    return tuple(sorted(merged, key=lambda rule: (rule.groups, rule.resources, rule.names, rule.verbs)))


_ORDER = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def _in_order(verbs: Iterable[str]) -> list[str]:
    """Verbs as people write them: reads first, special ones last."""
    return sorted(verbs, key=lambda verb: (_ORDER.index(verb) if verb in _ORDER else len(_ORDER), verb))


def _path_rules(paths: Mapping[str, set[str]]) -> Rules:
    verbs: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for verb, found in paths.items():
        verbs[tuple(sorted(found))].add(verb)
    return tuple(Rule(tuple(_in_order(own)), urls=urls) for urls, own in sorted(verbs.items()))
