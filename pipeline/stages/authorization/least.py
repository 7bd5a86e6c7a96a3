"""The smallest roles under which a user can do what it did: exact by default, wider where the options say so.

Every rule is a product of verbs, resources and names, and each combination in it was used. So no verb, resource or name can be
taken away without a recorded request that is then refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...authorization.covering import uncovered
from ...authorization.rbac import SERVICE_ACCOUNT_PREFIX, Rule, Rules
from ...authorization.recorded import GROUP
from ...cel.library.authorizer import Attributes
from ...request import Object
from .asked import Question
from .judging import recorded_of
from .needs import Ask, Grant, Need, NeedKind, Way
from .overlay import Proposal

# What every authenticated user may do, by the bindings of system:discovery, system:basic-user and system:public-info-viewer
# (kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
EVERYBODYS: Rules = (
    Rule(
        ("get",),
        urls=(
            *("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),
            *("/healthz", "/livez", "/readyz", "/version", "/version/"),
        ),
    ),
    Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
)
# audit2rbac's expansions: whoever uses one of these verbs usually needs the others, too.
EXPANSIONS: Mapping[str, tuple[str, ...]] = {
    "watch": ("get", "list"),
    "list": ("get", "watch"),
    "update": ("get", "patch"),
    "patch": ("get", "update"),
}
# These verbs never have a name in the URL that a rule should hold: objects are created under ever new names.
_UNNAMED_VERBS = frozenset({"create", "deletecollection"})
_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9.-]+")
_AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class LeastOptions:
    """How wide the roles are.

    `names_max`: a rule with more names than this number is for every name. `expands_verbs` adds the verbs that clients use
    together. `collapses_namespaces` grants rights in all namespaces if they were used in more than one. `counts_on_defaults`
    leaves out the rights that Kubernetes gives to every authenticated user.
    """

    names_max: int = 5
    expands_verbs: bool = False
    collapses_namespaces: bool = False
    counts_on_defaults: bool = True


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


def needed(question: Question, needs: Iterable[Need], user: str, options: LeastOptions) -> Iterator[Attributes | Grant]:
    """What a user has to be allowed so that its recorded requests still find their permissions: questions, and rules to hold.

    Permissions that the server refused are left out. Of several modes of impersonation, the recorded one counts. To write a
    binding, the verb bind on its role is enough. To write a role, the user has to hold the rules in it, because the verb escalate
    would let it write any rules.
    """
    recorded = recorded_of(question.event)
    for need in needs:
        if recorded.refused is not None and not need.kind.precedes(recorded.refused):
            return
        if need.grants and need.grants[0].role_ref is None:
            if need.grants[0].user.username == user:
                yield from need.grants
            continue
        way = _used_way(need, question.constraint)
        yield from (ask.asked for ask in way if ask.user.username == user and not _is_everybodys(ask, options))


def _used_way(need: Need, constraint: str) -> Way:
    """The way by which a permission was given: by the recorded mode of impersonation, else the first one."""
    ways = need.readings[0]
    if need.kind is NeedKind.IMPERSONATION:
        by_mode = [way for way in ways if any(ask.asked.verb == (constraint or "impersonate") for ask in way)]
        ways = tuple(by_mode) or ways
    return ways[0] if ways else ()


def was_allowed(question: Question) -> bool:
    """Whether the authorizers let a request pass: by their decision or, in a log without decisions, by its answer."""
    recorded = recorded_of(question.event)
    if recorded.refused is not None:
        return NeedKind.REQUEST.precedes(recorded.refused)
    if recorded.allowed is None:
        return 0 < question.event.code < 400
    return recorded.allowed


def _is_everybodys(ask: Ask, options: LeastOptions) -> bool:
    """Whether the default bindings allow it to every authenticated user."""
    is_default = options.counts_on_defaults and _AUTHENTICATED in ask.user.groups
    return is_default and any(rule.allows(ask.asked) for rule in EVERYBODYS)


def least_rules(used: Iterable[Attributes | Grant], options: LeastOptions | None = None) -> LeastRules:
    """The fewest rights that give every question and hold every granted rule, as few rules."""
    options = options or LeastOptions()
    atoms: set[Atom] = set()
    for each in used:
        if isinstance(each, Grant):
            atoms.update(atom._replace(namespace=each.namespace) for atom in _granted_atoms(each.rules))
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


def _granted_atoms(rules: Iterable[Rule]) -> Iterator[Atom]:
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


def default_name(user: str) -> str:
    """The name of a user's roles and bindings, such as `least-ci-deployer` for a service account."""
    short = user.removeprefix(SERVICE_ACCOUNT_PREFIX)
    return f"least-{_NAME_CHARACTERS.sub('-', short).strip('-.') or 'user'}"


def manifests(rules: LeastRules, user: str, name: str) -> list[Object]:
    """Roles and bindings that give the rules to a user, in the form of the API: those of the cluster first."""
    found: list[Object] = []
    for namespace, own in sorted(rules.items()):
        place = {"namespace": namespace} if namespace else {}
        kind = "Role" if namespace else "ClusterRole"
        found.append(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": kind,
                "metadata": {"name": name, **place},
                "rules": [_rule_object(rule) for rule in own],
            }
        )
        found.append(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": name, **place},
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [subject_object(user)],
            }
        )
    return found


def subject_object(user: str) -> Object:
    """A user as the subject of a binding."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if user.startswith(SERVICE_ACCOUNT_PREFIX) and namespace and name and ":" not in name:
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": "User", "name": user}


def _rule_object(rule: Rule) -> Object:
    if rule.urls:
        return {"nonResourceURLs": list(rule.urls), "verbs": list(rule.verbs)}
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


def everybodys_manifests() -> list[Object]:
    """The default rights of every authenticated user, as a ClusterRole and its binding."""
    name = "system:authenticated defaults"
    return [
        {"kind": "ClusterRole", "metadata": {"name": name}, "rules": [_rule_object(rule) for rule in EVERYBODYS]},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "Group", "name": _AUTHENTICATED}],
        },
    ]


def proposal_of(objects: Iterable[Object], options: LeastOptions) -> Proposal:
    """Generated objects as the only ones of a cluster, with the default rights if the options count on these."""
    defaults = everybodys_manifests() if options.counts_on_defaults else []
    return Proposal.from_objects(((value, "generated") for value in (*objects, *defaults)), is_only=True)
