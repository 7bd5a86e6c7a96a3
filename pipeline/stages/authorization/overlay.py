"""Proposed roles and bindings over those of a cluster: what the files name is as they say, and everything else stays.

A ClusterRole with an aggregationRule has the rules that a controller gathers for it: see gathering.py. A recorded role keeps its
stored rules, unless the files change a role that it gathers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ingest.errors import InputError

from ...authorization.documents import BINDINGS, ClusterRole, binding_from_object, cluster_role_from_object, rules_from_object
from ...authorization.rbac import Binding, Bindings, Opinion, Opinions, RbacObjects, Rule, Rules, Versions
from ...authorization.recorded import ClusterRoles
from ...cel.library.authorizer import Attributes
from ...request import Evidence, Known, Object, Unknown, UserInfo
from .gathering import Members, RuleIndex, gathering_of

_CHANGING = "a ClusterRole that it gathers was changed just before, and either version may have been in force"


class ClusterRbac(RbacObjects, Protocol):
    """The RBAC objects of a cluster at a moment, with the labels of its ClusterRoles."""

    def cluster_roles(self) -> ClusterRoles:
        """Every ClusterRole with its labels and its aggregation rule."""
        ...

    def namespaces(self) -> Iterable[str]:
        """The namespaces that have bindings at any time."""
        ...


class NoRbac:
    """A cluster without roles and bindings: the ground for files that replace everything."""

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        return Bindings(())

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        return (Known(None, "the files name no such role"),)

    def cluster_roles(self) -> ClusterRoles:
        """See ClusterRbac."""
        return ClusterRoles(())

    def namespaces(self) -> Iterable[str]:
        """See ClusterRbac."""
        return ()


@dataclass(frozen=True)
class Proposal:
    """Proposed roles and bindings. With `is_only`, nothing but these exists.

    `sources` says for each object, by (kind, namespace, name), where it was found. `document` has the parts of the objects that
    decide, as JSON values in a fixed order.
    """

    roles: Mapping[tuple[str, str], Rules]
    cluster_roles: Mapping[str, ClusterRole]
    bindings: Mapping[str, tuple[Binding, ...]]
    is_only: bool = False
    sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    document: tuple[Object, ...] = ()

    @classmethod
    def from_objects(cls, objects: Iterable[tuple[Object, str]], is_only: bool = False) -> Proposal:
        """Read objects with their places in files; of two with one name the later one counts. Raises InputError.

        Objects of other kinds are left out.
        """
        roles: dict[tuple[str, str], Rules] = {}
        cluster_roles: dict[str, ClusterRole] = {}
        bindings: dict[tuple[str, str], Binding] = {}
        sources: dict[tuple[str, str, str], str] = {}
        parts: dict[tuple[str, str, str], Object] = {}
        for value, source in objects:
            kind, metadata = value.get("kind"), value.get("metadata") or {}
            if not isinstance(metadata, dict):
                where = f"{source}: " if source else ""
                raise InputError(f"{where}metadata must be an object, not {type(metadata).__name__}", "see kubectl explain Role")
            namespace, name = "", str(metadata.get("name") or "")
            if kind == "Role":
                namespace = str(metadata.get("namespace") or "default")
                roles[namespace, name] = rules_from_object(value, source)
            elif kind == "ClusterRole":
                cluster_roles[name] = cluster_role_from_object(value, source)
            elif kind in BINDINGS:
                binding = binding_from_object(value, source)
                namespace = binding.namespace
                bindings[namespace, name] = binding
            else:
                continue
            sources[str(kind), namespace, name] = source
            labels = {"labels": metadata["labels"]} if kind == "ClusterRole" and metadata.get("labels") else {}
            own = {part: value[part] for part in ("rules", "aggregationRule", "roleRef", "subjects") if value.get(part)}
            parts[str(kind), namespace, name] = {"kind": kind, "namespace": namespace, "name": name, **labels, **own}
        by_namespace: dict[str, list[Binding]] = {}
        for (namespace, _), binding in bindings.items():
            by_namespace.setdefault(namespace, []).append(binding)
        document = tuple(part for _, part in sorted(parts.items()))
        given = {namespace: tuple(found) for namespace, found in by_namespace.items()}
        return cls(roles, cluster_roles, given, is_only, sources, document)

    @cached_property
    def binding_names(self) -> Mapping[str, frozenset[str]]:
        """The names of the bindings of each namespace."""
        return {namespace: frozenset(each.name for each in found) for namespace, found in self.bindings.items()}

    @cached_property
    def gathers(self) -> bool:
        """Whether some role of the files gathers others."""
        return any(role.selectors is not None for role in self.cluster_roles.values())

    @cached_property
    def _rules_of_cluster(self) -> RuleIndex:
        return RuleIndex(rule for role in self.cluster_roles.values() for rule in role.rules)

    @cached_property
    def _rules_of_namespaces(self) -> Mapping[str, RuleIndex]:
        found: dict[str, list[Rule]] = {}
        for (namespace, _), rules in self.roles.items():
            found.setdefault(namespace, []).extend(rules)
        return {namespace: RuleIndex(rules) for namespace, rules in found.items()}

    def has_rule(self, asked: Attributes) -> bool:
        """Whether some rule of the files allows a question, to whomever it is given."""
        own = self._rules_of_namespaces.get(asked.namespace)
        return self._rules_of_cluster.allows(asked) or (own is not None and own.allows(asked))

    @property
    def reads_names(self) -> bool:
        """Whether some rule of the files is for some names only."""
        every = [*self.roles.values(), *(role.rules for role in self.cluster_roles.values())]
        return any(rule.names for rules in every for rule in rules)

    def place(self, kind: str, namespace: str, name: str) -> str:
        """Where an object was found, and which it is."""
        shown = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        source = self.sources.get((kind, namespace, name), "")
        return f"{source}: {shown}" if source else shown

    def joined(self, other: Proposal) -> Proposal:
        """This proposal with the objects of another one, whose names are its own."""
        bindings = {
            namespace: (*self.bindings.get(namespace, ()), *other.bindings.get(namespace, ()))
            for namespace in {*self.bindings, *other.bindings}
        }
        return Proposal(
            {**self.roles, **other.roles},
            {**self.cluster_roles, **other.cluster_roles},
            bindings,
            self.is_only,
            {**self.sources, **other.sources},
            (*self.document, *other.document),
        )

    def without(self, before: Proposal) -> Proposal:
        """This proposal, where every object that only `before` names grants nothing."""
        own = {(part["kind"], part["namespace"], part["name"]) for part in self.document}
        gone = [part for part in before.document if (part["kind"], part["namespace"], part["name"]) not in own]
        if not gone:
            return self
        empty = (
            {
                "kind": part["kind"],
                "metadata": {"name": part["name"], "namespace": part["namespace"]},
                **({"roleRef": part["roleRef"], "subjects": []} if part["kind"] in BINDINGS else {"rules": []}),
            }
            for part in gone
        )
        return self.joined(Proposal.from_objects((each, "removed") for each in empty))

    def over(self, ground: ClusterRbac) -> Overlay:
        """The proposal over the objects of a cluster at a moment."""
        return Overlay(self, ground)


class Overlay:
    """A proposal over the objects of a cluster at one moment; implements ClusterRbac. It keeps what it has found.

    `ground` are the cluster's own objects, also where the proposal replaces everything.
    """

    def __init__(self, proposal: Proposal, ground: ClusterRbac) -> None:
        self.proposal = proposal
        self.ground = ground
        self._base: ClusterRbac = NoRbac() if proposal.is_only else ground
        self._bindings: dict[str, Bindings] = {}
        self._roles: dict[tuple[str, str], Versions[Rules]] = {}
        self._gathering: dict[str, ClusterRole] | None = None
        self._members: Members | Unknown | None = None
        self._touched: dict[tuple[str, bool], Bindings] = {}
        self._opinions = Opinions(self)

    def opinion(self, user: UserInfo, asked: Attributes) -> Opinion:
        """RBAC's opinion; see Opinions."""
        return self._opinions.of(user, asked)

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        found = self._bindings.get(namespace)
        if found is None:
            found = self._bindings[namespace] = self._bindings_of(namespace)
        return found

    def _bindings_of(self, namespace: str) -> Bindings:
        ground, given = self._base.bindings(namespace), self.proposal.bindings.get(namespace, ())
        if not given:
            return ground
        replaced = {binding.name for binding in given}
        kept = [(name, versions) for name, versions in zip(ground.names, ground.every(), strict=True) if name not in replaced]
        proposed: list[tuple[str, Versions[Binding]]] = [(binding.name, (Known(binding, "proposed"),)) for binding in given]
        every = [*kept, *proposed]
        return Bindings((versions for _, versions in every), ground.missing, [name for name, _ in every])

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        found = self._roles.get((namespace, name))
        if found is None:
            found = self._roles[namespace, name] = self._role_of(namespace, name)
        return found

    def _role_of(self, namespace: str, name: str) -> Versions[Rules]:
        if namespace:
            given = self.proposal.roles.get((namespace, name))
            return self._base.role(namespace, name) if given is None else (Known(given, "proposed"),)
        role = self.proposal.cluster_roles.get(name)
        if role is not None and role.selectors is None:
            return (Known(role.rules, "proposed"),)
        if role is None:
            role = self._gathers().get(name)
        return self._base.role("", name) if role is None else (self._gathered(role),)

    def touches_binding(self, namespace: str, name: str) -> bool:
        """Whether a binding is another one than the cluster's: the files name it, or replace everything."""
        return self.proposal.is_only or name in self.proposal.binding_names.get(namespace, ())

    def touched_bindings(self, namespace: str, may_allow: bool) -> Bindings:
        """The bindings that the files change, or whose role they change. `may_allow`: also those that may be changed."""
        found = self._touched.get((namespace, may_allow))
        if found is None:
            every = self.bindings(namespace)
            kept = [
                versions
                for name, versions in zip(every.names, every.every(), strict=True)
                if self.touches_binding(namespace, name) or any(self._refers(version, may_allow) for version in versions)
            ]
            found = self._touched[namespace, may_allow] = Bindings(kept, every.missing if may_allow else "")
        return found

    def _refers(self, version: Evidence[Binding | None], may_allow: bool) -> bool:
        """Whether a binding refers to a changed role, or may."""
        if not isinstance(version, Known):
            return may_allow
        binding = version.value
        return binding is not None and self.touches_role(binding.role_kind, binding.namespace, binding.role_name)

    def touches_role(self, kind: str, namespace: str, name: str) -> bool:
        """Whether a role may be another one than the cluster's: the files name it or one that it gathers, or replace everything."""
        if self.proposal.is_only:
            return True
        if kind == "Role":
            return (namespace, name) in self.proposal.roles
        return name in self.proposal.cluster_roles or name in self._gathers()

    def namespaces(self) -> tuple[str, ...]:
        """Every namespace that has bindings, in the cluster or in the files."""
        return tuple(sorted({*self.ground.namespaces(), *self.proposal.bindings} - {""}))

    def cluster_roles(self) -> ClusterRoles:
        """See ClusterRbac."""
        base, given = self._base.cluster_roles(), self.proposal.cluster_roles
        kept = [versions for versions in base.found if not _names(versions) & given.keys()]
        proposed: list[Versions[ClusterRole]] = [(Known(role, "proposed"),) for role in given.values()]
        return ClusterRoles((*kept, *proposed), base.missing)

    def may_allow(self, asked: Attributes) -> bool:
        """Whether some role that the files change may have a rule that allows a question which no rule of the cluster allowed."""
        return self.proposal.is_only or self.proposal.gathers or self.proposal.has_rule(asked)

    def _gathers(self) -> dict[str, ClusterRole]:
        """The cluster's own roles that gather another one because of the files, by name."""
        if self._gathering is None:
            self._gathering = {role.name: role for role in self._regathered()}
        return self._gathering

    def _regathered(self) -> Iterator[ClusterRole]:
        given = self.proposal.cluster_roles
        if not given:
            return
        ground = [role for role in self._ground_roles() if role is not None]
        changed = [*given.values(), *(role for role in ground if role.name in given)]
        yield from gathering_of(changed, (role for role in ground if role.name not in given))

    def _ground_roles(self) -> Iterator[ClusterRole | None]:
        """Every version of every ClusterRole of the cluster; None for one that is not known."""
        for versions in self._base.cluster_roles().found:
            for version in versions:
                if isinstance(version, Unknown):
                    yield None
                elif version.value is not None:
                    yield version.value

    def _gathered(self, role: ClusterRole) -> Known[Rules | None] | Unknown:
        if self._members is None:
            self._members = self._members_of()
        if isinstance(self._members, Unknown):
            why = self._members.reason
            return self._members if why == _CHANGING else Unknown(f"which ClusterRoles {role.name} gathers: {why}")
        return Known(self._members.gathered(role), "gathered from the proposed roles")

    def _members_of(self) -> Members | Unknown:
        """The roles that others may gather, or why they are unknown."""
        ground = self._base.cluster_roles()
        if ground.missing:
            return Unknown(ground.missing)
        members = dict(self.proposal.cluster_roles)
        for versions in ground.found:
            if len(versions) > 1:
                return Unknown(_CHANGING)
            (version,) = versions
            if isinstance(version, Unknown):
                return Unknown(version.reason)
            if version.value is not None:
                members.setdefault(version.value.name, version.value)
        return Members(members.values())


def _names(versions: Versions[ClusterRole]) -> set[str]:
    return {version.value.name for version in versions if isinstance(version, Known) and version.value is not None}
