"""Finds out which evidence the audit policy in force withholds from a replay, from the levels of recorded events in a lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingest.server.audit_policy import LEVELS, Attributes, AuditPolicy
from ingest.server.recommended import WRITES
from queries import LakeReader

_RECORDED = f"""
    SELECT
        cluster, api_group, resource, coalesce(subresource, '') AS subresource, verb, level,
        resource_label(api_group, resource, subresource), count(*)
    FROM requests
    WHERE resource IS NOT NULL AND verb IN {WRITES}
    GROUP BY ALL
    ORDER BY count(*) DESC, 1, 7, verb, level"""
# The parts of a cluster's state that a replay needs for any moment: (part, group, resources, kinds of a snapshot).
_STATE = (
    ("namespaces, for selectors", "", ("namespaces",), ("Namespace",)),
    (
        "policies and bindings, for when they were in force",
        "admissionregistration.k8s.io",
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    ),
    (
        "roles and bindings, for the CEL authorizer",
        "rbac.authorization.k8s.io",
        ("roles", "clusterroles", "rolebindings", "clusterrolebindings"),
        ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    ),
    (
        "custom resource definitions, for kinds and schemas",
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("CustomResourceDefinition",),
    ),
)


@dataclass(frozen=True, slots=True)
class Withheld:
    """Writes of one kind whose recorded level is lower than a replay needs. `rule` is the rule of the given policy that sets the
    level."""

    cluster: str
    resource: str
    verb: str
    requests: int
    recorded: str
    needed: str
    rule: str


@dataclass(frozen=True, slots=True)
class StateKnown:
    """The lake's evidence for one part of a cluster's state: recorded writes, those with a body, and objects of snapshots.

    `listed` is None if no snapshot lists any of the kinds; 0 means that the lists were empty.
    """

    cluster: str
    what: str
    writes: int
    with_body: int
    listed: int | None

    @property
    def verdict(self) -> str:
        """The consequence for a replay, as far as it is known."""
        if self.with_body < self.writes:
            return "recorded without bodies: raise the level to RequestResponse"
        if self.listed is None:
            end = "" if self.writes else "; none written, or not recorded: the log cannot tell"
            return f"not known before its first write: ingest a snapshot{end}"
        return "known" if self.writes else "known from the snapshot; none written since, or not recorded: the log cannot tell"


def withheld(reader: LakeReader, needed: AuditPolicy, given: AuditPolicy | None = None) -> Iterator[Withheld]:
    """The kinds of writes in the lake that were recorded at a lower level than `needed` gives them, most first.

    A resource at level None has no row at all; the ledger has traces of it (unseen_write).
    """
    for cluster, group, resource, subresource, verb, level, label, requests in reader.sql(_RECORDED).fetchall():
        attributes = Attributes(verb, group, resource, subresource)
        wanted = needed.level_for(attributes)
        # A level that no API server writes says nothing about the bodies, so it is below every other one.
        recorded = LEVELS.index(level) if level in LEVELS else 0
        if recorded < LEVELS.index(wanted):
            said = level if level in LEVELS else f"unknown ({level!r})"
            yield Withheld(cluster, label, verb, requests, said, wanted, _rule(given, attributes))


def state_known(reader: LakeReader) -> Iterator[StateKnown]:
    """The lake's evidence for the state that decides how policies are evaluated, by cluster."""
    clusters = [name for (name,) in reader.sql("SELECT DISTINCT cluster FROM events ORDER BY cluster").fetchall()]
    for cluster in clusters:
        for what, group, resources, kinds in _STATE:
            ((writes, with_body),) = reader.sql(
                "SELECT count(*), count(coalesce(request_object, response_object)) FROM requests"
                " WHERE cluster = ? AND api_group = ? AND list_contains(?, resource) AND verb IN ('create', 'update', 'patch')"
                " AND outcome = 'allowed'",
                [cluster, group, list(resources)],
            ).fetchall()
            ((listed,),) = reader.sql(
                "SELECT sum(objects)::BIGINT FROM object_lists WHERE cluster = ? AND list_contains(?, kind)", [cluster, list(kinds)]
            ).fetchall()
            yield StateKnown(cluster, what, writes, with_body, listed)


def _rule(given: AuditPolicy | None, attributes: Attributes) -> str:
    if given is None:
        return ""
    rule = given.rule_for(attributes)
    return f"rule {rule.number} ({rule.level})" if rule else "no rule (None)"
