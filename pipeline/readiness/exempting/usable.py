"""Who can use an exemption: every subject whose requests can match it.

Writers in a namespace can use an exemption of it. An exemption by name or label is open to all who may write such objects there,
because writers choose names and labels. A user's exemption is open to that user. The roles at the end of the window, if known, say
who may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import TypeAlias

from ...authorization import RecordedRbac, holders, is_service_account
from ...authorization.rbac import SERVICE_ACCOUNT_PREFIX
from ...cel.library.authorizer import Attributes
from .exclusions import Exclusion, Kind, is_of_the_cluster
from .search import Places

# How many subjects are named; the others are counted.
_NAMED_MAX = 3
# The subjects that may write resources of clusters in a namespace; and whether these are all.
_Writers: TypeAlias = Callable[[tuple[str, ...], tuple[tuple[str, str], ...], str], tuple[list[str], bool]]
_VERBS = ("create", "update", "patch")
_EVERYBODY = {
    "system:authenticated": "every user of the cluster",
    "system:unauthenticated": "anyone at all",
    "system:serviceaccounts": "every service account",
}
# Resources that make Pods, and their makers: a writer of one of them chooses the names and labels of its Pods.
_MAKERS = (
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("", "replicationcontrollers"),
)
_MADE = (("", "pods"), ("apps", "replicasets"), ("batch", "jobs"))


def who_can_use(places: Mapping[Exclusion, Places], rbac: RecordedRbac | None, moment: datetime | None) -> dict[Exclusion, str]:
    """The subjects of each exclusion in words. `places` are where it takes out would-be denials.

    Without `rbac` or a moment roles are not known.
    """
    writers = None if rbac is None or moment is None else cache(partial(_writers, rbac, moment))
    return {exclusion: _named(exclusion, *found, writers) for exclusion, found in places.items()}


def _named(exclusion: Exclusion, clusters: list[str], resources: list[tuple[str, str]], writers: _Writers | None) -> str:
    match exclusion.kind:
        case Kind.CONTROLLER:
            return f"{exclusion.subject}, which is a part of the cluster"
        case Kind.USER | Kind.USER_IN_NAMESPACE if is_service_account(exclusion.subject):
            namespace, _, name = exclusion.subject.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
            return f"service account {name} of namespace {namespace}, and whoever may run Pods as it"
        case Kind.USER | Kind.USER_IN_NAMESPACE:
            return f"user {exclusion.subject}, and whoever may impersonate them"
        case Kind.GROUP:
            return f"every member of group {exclusion.subject}"
    namespace = exclusion.subject if exclusion.kind is Kind.NAMESPACE else exclusion.namespace
    names = ", ".join(resource for _, resource in resources) or "objects"
    asked = {*resources, *(_MAKERS if set(resources) & set(_MADE) else ())}
    where = f"in namespace {namespace}" if namespace else "in the cluster"
    anyone = f"anyone who may write {names}{' or what makes them' if len(asked) > len(resources) else ''} {where}"
    if writers is None:
        return anyone
    known, is_whole = writers(tuple(clusters), tuple(sorted(asked)), namespace)
    if not known:
        return f"{anyone}: by the recorded roles, only the cluster's own parts and administrators" if is_whole else anyone
    return f"{anyone}: {'' if is_whole else 'at least '}{_listed(known)}"


def _writers(
    rbac: RecordedRbac, moment: datetime, clusters: Iterable[str], resources: Iterable[tuple[str, str]], namespace: str
) -> tuple[list[str], bool]:
    """The subjects that may write any of these resources, without the cluster's own parts; and whether these are all."""
    found: set[tuple[str, str]] = set()
    is_whole = True
    for cluster in clusters:
        objects = rbac.at(cluster, moment)
        for group, resource in resources:
            for verb in _VERBS:
                each = holders(objects, Attributes(verb, group=group, resource=resource, namespace=namespace))
                found |= each.subjects
                is_whole = is_whole and not each.missing
    people = [(kind, name) for kind, name in found if name in _EVERYBODY or not is_of_the_cluster(name)]
    return [_words(kind, name) for kind, name in sorted(people, key=lambda each: (each[1] not in _EVERYBODY, each))], is_whole


def _words(kind: str, name: str) -> str:
    if name in _EVERYBODY:
        return _EVERYBODY[name]
    if is_service_account(name):
        namespace, _, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        return f"service account {namespace}/{account}"
    return f"{kind.lower()} {name}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_MAX])
    return shown + (f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else "")
