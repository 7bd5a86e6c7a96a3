"""The roles and bindings that the log and snapshots show of a cluster at a moment, as a proposal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ingest.errors import EvidenceError
from queries import LakeReader

from ...authorization.recorded import GROUP, RecordedRbac
from ...history.snapshots import ResourceName
from ...history.world import LogHistory
from ...request import Known, Object
from ...requests.past import load_history
from ...runs.window import Window
from .overlay import Proposal

_KINDS = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}


def roles_as_of(reader: LakeReader, cluster: str, moment: datetime, given: Proposal, replaces_all: bool) -> Proposal:
    """The versions at `moment` of the objects that `given` names; with `replaces_all`, all roles and bindings of that moment.

    An object that did not exist then grants nothing. Raises EvidenceError where an object of that moment is not known.
    """
    history = load_history(reader, (), Window())
    if replaces_all:
        _check_complete(RecordedRbac(history), cluster, moment)
    wanted = None if replaces_all else frozenset(given.sources)
    found = Proposal.from_objects(_objects(history, cluster, moment, wanted), replaces_all)
    return found if replaces_all else found.without(given)


def _objects(
    history: LogHistory, cluster: str, moment: datetime, wanted: frozenset[tuple[str, str, str]] | None
) -> Iterator[tuple[Object, str]]:
    for resource, kind in _KINDS.items():
        for key in history.keys(cluster, ResourceName(GROUP, resource)):
            if wanted is not None and (kind, key.namespace, key.name) not in wanted:
                continue
            found = history.object_at(key, moment)
            name = f"{kind} {key.namespace}/{key.name}".replace(" /", " ")
            if not isinstance(found, Known):
                raise EvidenceError(
                    f"{name} of cluster {cluster} at {moment.isoformat()} is unknown: {found.reason}", "give another time"
                )
            if found.value is not None:
                yield {**found.value, "kind": kind}, f"the log: {name}"


def _check_complete(rbac: RecordedRbac, cluster: str, moment: datetime) -> None:
    missing = rbac.cluster_roles(cluster, moment).missing or rbac.bindings(cluster, "", moment).missing
    if missing:
        raise EvidenceError(
            f"not all roles and bindings of cluster {cluster} at {moment.isoformat()} are known: {missing}",
            "ingest a snapshot of roles, clusterroles, rolebindings and clusterrolebindings",
        )
