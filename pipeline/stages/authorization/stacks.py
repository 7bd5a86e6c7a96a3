"""Stacks of Crossplane's design 'Stacks Security and Isolation': the roles of a model, and whether a stack stays in its namespace.

The models are those of the design's revisions. `stack-2019` is its text in revision 1.0: some core kinds, the stack's own kinds and
those it depends on, with the same verbs, all of them namespaced. `stack-2019-figure` is what the figures show: whole API groups.
`stack-2020` (revisions 1.1 to 1.3) allows cluster-scoped kinds and adds subresources. `crossplane-1` is today's provider role.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from ingest.errors import InputError

from ...authorization.attributes import attributes_of
from ...authorization.given import GivenRbac
from ...authorization.rbac import SERVICE_ACCOUNT_PREFIX, authorize
from ...cel.library.authorizer import Attributes
from ...request import Object, Unknown
from .asked import Question
from .judging import recorded_of
from .overlay import NoRbac, Proposal
from .stack_model import Place, StackModel
from .unused import GrantedRule, Use, granted_rules
from .used_rights import was_allowed

_RBAC = "rbac.authorization.k8s.io"
CLUSTER, NAMESPACED = "Cluster", "Namespaced"
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_CRD_NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_CORE = ("configmaps", "secrets", "events")
# The kind of install that each scope of permissions needs.
_INSTALLS = {"ClusterStackInstall": CLUSTER, "StackInstall": NAMESPACED}
# Requests that every client makes, and that tell nothing about a namespace.
_NO_DECISION = "the log has no decision of the authorizer"
_EXEMPT = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    }
)
_READS = frozenset({"get", "list", "watch"})


class StackKind(NamedTuple):
    """A custom kind that a stack owns or depends on. `scope` is empty where its definition is not known."""

    resource: str
    group: str
    scope: str = ""
    has_scale: bool = False

    @property
    def name(self) -> str:
        """As its definition is named."""
        return f"{self.resource}.{self.group}"


class Stack(NamedTuple):
    """A stack: what it asks for, and where it runs."""

    title: str
    scope: str  # Cluster or Namespaced
    owned: tuple[StackKind, ...]
    depends_on: tuple[StackKind, ...]
    namespace: str
    service_account: str

    @property
    def user(self) -> str:
        """The user name of its service account."""
        return f"{SERVICE_ACCOUNT_PREFIX}{self.namespace}:{self.service_account}"


def check_install(scope: str, install_kind: str) -> None:
    """Raise InputError, in the words of the original implementation, if a kind of install does not fit the declared scope."""
    expected = _INSTALLS.get(install_kind)
    if expected is None:
        raise InputError(f"--install: {install_kind!r} is no kind of install", f"give {' or '.join(_INSTALLS)}")
    if scope != expected:
        raise InputError(
            f'Stack permissionScope "{scope}" is not permitted by unpack invocation parameters (expected "{expected}")'
        )


def stack_of(app: Any, source: str, definitions: Iterable[Object], namespace: str, service_account: str) -> Stack:
    """A stack from its app.yaml and the definitions of the kinds that it owns. Raises InputError.

    A dependency that is not among the definitions has an unknown scope.
    """
    if not isinstance(app, dict) or app.get("permissionScope") not in (CLUSTER, NAMESPACED):
        found = reprlib.repr(app.get("permissionScope") if isinstance(app, dict) else app)
        raise InputError(f"{source}: permissionScope is {found}", f"it must be {CLUSTER} or {NAMESPACED}")
    kinds = {kind.name: kind for kind in map(_kind_of, definitions)}
    entries = app.get("dependsOn") or []
    names = [str(entry.get("crd")) if isinstance(entry, dict) else "" for entry in (entries if isinstance(entries, list) else [""])]
    if not all(_CRD_NAME.fullmatch(name) for name in names):
        raise InputError(f"{source}: dependsOn has an entry without a definition", "name each as `crd: RESOURCE.GROUP`")
    depends_on = tuple(kinds.get(name) or StackKind(name.partition(".")[0], name.partition(".")[2]) for name in names)
    owned = tuple(kind for name, kind in kinds.items() if name not in names)
    return Stack(str(app.get("title") or ""), app["permissionScope"], owned, depends_on, namespace, service_account)


def _kind_of(definition: Object) -> StackKind:
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    versions = spec.get("versions") or []
    has_scale = any("scale" in (version.get("subresources") or {}) for version in [*versions, spec])
    return StackKind(names.get("plural") or "", spec.get("group") or "", spec.get("scope") or NAMESPACED, has_scale)


def model_objects(stack: Stack, model: StackModel) -> list[Object]:
    """The role and the binding that a model gives a stack. Raises InputError for kinds that the model does not allow."""
    kinds = (*stack.owned, *stack.depends_on)
    if model in (StackModel.STACK_2019, StackModel.STACK_2019_FIGURE):
        wide = sorted(kind.name for kind in kinds if kind.scope == CLUSTER)
        if wide:
            names = ", ".join(wide)
            raise InputError(f"{model} allows namespaced kinds only; of scope {CLUSTER}: {names}", "try --model stack-2020")
    is_cluster = stack.scope == CLUSTER or model is StackModel.CROSSPLANE_1
    name = f"stack-{stack.namespace}-{stack.service_account}"
    place = {} if is_cluster else {"namespace": stack.namespace}
    kind = "ClusterRole" if is_cluster else "Role"
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": kind,
            "metadata": {"name": name, **place},
            "rules": list(_rules(stack, model)),
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": name, **place},
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": stack.service_account, "namespace": stack.namespace}],
        },
    ]


def _rules(stack: Stack, model: StackModel) -> Iterator[Object]:
    groups = list(dict.fromkeys(kind.group for kind in (*stack.owned, *stack.depends_on)))
    if model is StackModel.STACK_2019_FIGURE:
        yield _rule(groups, ["*"], ["*"])
        return
    if model is StackModel.CROSSPLANE_1:
        own = list(dict.fromkeys(kind.group for kind in stack.owned))
        for group in own:
            resources = [kind.resource for kind in stack.owned if kind.group == group]
            yield _rule(
                [group],
                [*resources, *(f"{resource}/status" for resource in resources)],
                ["get", "list", "watch", "update", "patch", "create"],
            )
        yield _rule(own, ["*/finalizers"], ["update"])
        yield _rule(["", "coordination.k8s.io"], ["secrets", "configmaps", "events", "leases"], ["*"])
        return
    yield _rule([""], list(_CORE), list(_VERBS))
    for kind in (*stack.owned, *stack.depends_on):
        further = []
        if model is StackModel.STACK_2020:
            further = [f"{kind.resource}/status", *([f"{kind.resource}/scale"] if kind.has_scale else [])]
            further.append(f"{kind.resource}/finalizers")
        yield _rule([kind.group], [kind.resource, *further], list(_VERBS))


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


class Severity(StrEnum):
    """How bad a request outside of the namespace is."""

    WRITE = "write"
    SECRET = "secret read"
    READ = "read"


class Isolated(NamedTuple):
    """Requests of a stack that went to the same place with the same question. `why` says why the place is unknown.

    Where the log does not show the question, `asked` has the verb alone.
    """

    place: Place
    severity: Severity | None
    asked: Attributes
    question: Question
    why: str = ""


def isolation(questions: Iterable[Question], stack: Stack) -> Iterator[Isolated]:
    """Where each request of a stack's service account went."""
    for question in questions:
        if question.identity.user.username != stack.user:
            continue
        asked = attributes_of(question.event)
        if isinstance(asked, Unknown):
            yield Isolated(Place.UNKNOWN, None, Attributes(question.event.verb), question, asked.reason)
            continue
        place = _place(asked, question, stack)
        severity = _severity(asked) if place in (Place.BREACH, Place.ATTEMPT) else None
        yield Isolated(place, severity, asked, question, _NO_DECISION if place is Place.UNKNOWN else "")


def _place(asked: Attributes, question: Question, stack: Stack) -> Place:
    if stack.scope == CLUSTER:
        return Place.CLUSTER_STACK
    if not asked.is_resource_request or (asked.group, asked.resource) in _EXEMPT:
        return Place.EXEMPT
    if asked.namespace == stack.namespace:
        return Place.INSIDE
    allowed = recorded_of(question.event).allowed
    if allowed is None and not was_allowed(question):
        return Place.UNKNOWN
    return Place.ATTEMPT if allowed is False else Place.BREACH


def _severity(asked: Attributes) -> Severity:
    if asked.verb not in _READS:
        return Severity.WRITE
    is_secret = (asked.group, asked.resource) == ("", "secrets")
    return Severity.SECRET if is_secret else Severity.READ


class StackRight(NamedTuple):
    """Requests of a stack that asked the same, and whether its model grants this. None: the log does not show what they asked."""

    asked: Attributes
    is_granted: bool | None
    question: Question


def used_rights(questions: Iterable[Question], stack: Stack, model: Iterable[Object]) -> Iterator[StackRight]:
    """What a stack was allowed to do, and whether the roles of a model would allow it: those that would not break it."""
    roles = GivenRbac(model)
    for question in questions:
        asked = attributes_of(question.event)
        if question.identity.user.username != stack.user or not was_allowed(question):
            continue
        if isinstance(asked, Unknown):
            yield StackRight(Attributes(question.event.verb), None, question)
            continue
        if (asked.group, asked.resource) in _EXEMPT or not asked.is_resource_request:
            continue
        yield StackRight(asked, authorize(roles, question.identity.user, asked).allowed, question)


def unused_rights(used: Iterable[StackRight], model: Iterable[Object]) -> Iterator[GrantedRule]:
    """The rules of a model with verbs or resources that the stack did not use."""
    ground = Proposal.from_objects(((value, "model") for value in model), is_only=True).over(NoRbac())
    told = ((each.question, each.asked if each.asked.path or each.asked.resource else None) for each in used)
    uses = [Use(question.identity.user, asked, question.requests) for question, asked in told]
    for rule in granted_rules(ground, ground.namespaces(), uses):
        if rule.unused_verbs or rule.unused_resources:
            yield rule
