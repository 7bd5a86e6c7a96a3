"""Who may install stacks, who did, whether a cluster stack is installed twice, and which namespaces a cluster stack connects.

The design 'Stacks Security and Isolation' has two kinds of installs, so that an administrator can keep that of cluster stacks. A
cluster has one version of a cluster stack. Namespaces are environments, which only cluster stacks connect: they serve a claim of
one namespace with an object of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple

from queries import LakeReader

from ...authorization.rbac import Binding, Bindings
from ...cel.library.authorizer import Attributes
from ...request import Known
from .overlay import ClusterRbac
from .sql import statement

GROUP = "stacks.crossplane.io"
INSTALLS = {"clusterstackinstalls": "ClusterStackInstall", "stackinstalls": "StackInstall"}


class Installer(NamedTuple):
    """Somebody who may install stacks of a kind, by a binding; `namespace` is empty for the whole cluster."""

    install: str
    subject: str
    namespace: str
    rule: str


class Install(NamedTuple):
    """A recorded create of an install. `removed_ts` is None while it stays; see sql/installs.sql."""

    cluster: str
    ts: datetime
    audit_id: str
    resource: str
    namespace: str
    name: str
    user_name: str
    is_installed: bool
    version: str
    package: str
    removed_ts: datetime | None

    @property
    def kind(self) -> str:
        """The kind of the install."""
        return INSTALLS[self.resource]


class Flow(NamedTuple):
    """Writes of a stack in one namespace, and the namespace to which the written objects refer; see sql/flows.sql."""

    namespace: str
    resource: str
    from_namespace: str | None
    has_reference: bool
    has_body: bool
    requests: int
    last_ts: datetime
    example: str

    @property
    def crosses(self) -> bool:
        """Whether an object of one namespace serves one of another."""
        return self.from_namespace is not None and self.from_namespace != self.namespace


def installers(objects: ClusterRbac) -> Iterator[Installer]:
    """Everybody who may create installs by roles that are known, by kind. The group system:masters may do everything, too."""
    found: set[Installer] = set()
    for namespace in ("", *sorted(objects.namespaces())):
        for binding in _known(objects.bindings(namespace)):
            place = binding.namespace if binding.role_kind == "Role" else ""
            for rules in objects.role(place, binding.role_name):
                for resource, kind in INSTALLS.items():
                    asked = Attributes("create", "", GROUP, resource, "", namespace)
                    if isinstance(rules, Known) and any(rule.allows(asked) for rule in rules.value or ()):
                        found.update(Installer(kind, subject, namespace, _rule(binding)) for subject in _subjects(binding))
    return iter(sorted(found))


def _known(bindings: Bindings) -> Iterator[Binding]:
    for versions in bindings.every():
        yield from (version.value for version in versions if isinstance(version, Known) and version.value is not None)


def _subjects(binding: Binding) -> Iterator[str]:
    for subject in binding.subjects:
        place = f"{subject.namespace or binding.namespace}:" if subject.kind == "ServiceAccount" else ""
        yield f"{subject.kind} {place}{subject.name}"


def _rule(binding: Binding) -> str:
    kind = "RoleBinding" if binding.namespace else "ClusterRoleBinding"
    return f"{kind} {binding.name} of {binding.role_kind} {binding.role_name}"


def recorded_installs(reader: LakeReader) -> tuple[Install, ...]:
    """Every recorded create of an install, by time."""
    return tuple(Install(**row) for row in reader.arrow(statement("installs")).to_pylist())


def installed_twice(found: Iterable[Install]) -> Iterator[tuple[Install, Install]]:
    """Pairs of installs of one cluster stack that existed at one time, whatever their versions."""
    clusters = [each for each in found if each.is_installed and each.kind == "ClusterStackInstall" and each.package]
    for first, second in combinations(clusters, 2):
        same = (first.cluster, first.package) == (second.cluster, second.package)
        if same and (first.removed_ts is None or first.removed_ts > second.ts):
            yield first, second


def flows(reader: LakeReader, user: str) -> Sequence[Flow]:
    """Where a stack's service account wrote, and to which namespaces the written objects refer."""
    return [Flow(**row) for row in reader.arrow(statement("flows"), {"user": user}).to_pylist()]
