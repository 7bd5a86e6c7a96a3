"""Role-based access control: which rule of which binding allows what is asked.

Follows kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go and
pkg/apis/rbac/v1/evaluation_helpers.go. RBAC only ever allows; what it does not allow it has no opinion on. So an object that nobody
recorded can take nothing away: it makes a request unknown only where no other object allows it.

Each object is given as all the versions that a request may have met: one, or several if it was being changed just then. Bindings
are visited in an order that the server does not define (its informers keep them in Go maps), so that there may be several reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ..cel.library.authorizer import Attributes
from ..request import Evidence, Known, Unknown, UserInfo

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

T = TypeVar("T")
# The versions of one object that a request may have met; Known(None) means that it was not there.
Versions: TypeAlias = tuple[Evidence[T | None], ...]


class Rule(NamedTuple):
    """One rule of a role. Empty `names` mean every name."""

    verbs: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule covers what is asked. `pods` does not cover `pods/log`, and `pods/*` covers nothing at all."""
        if asked.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not asked.is_resource_request:
            return any(_covers_path(url, asked.path) for url in self.urls)
        if asked.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and asked.name not in self.names:
            return False
        return "*" in self.resources or not self.resources.isdisjoint(_spellings(asked.resource, asked.subresource))


def _spellings(resource: str, subresource: str) -> tuple[str, ...]:
    """How a rule may name a resource, in addition to `*`."""
    return (f"{resource}/{subresource}", f"*/{subresource}") if subresource else (resource,)


def _covers_path(url: str, path: str) -> bool:
    # All stars at the end are taken off, and only there does a star mean anything.
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))


Rules: TypeAlias = tuple[Rule, ...]


class Subject(NamedTuple):
    """Who a binding is for. `kind` is User, Group or ServiceAccount; anything else is nobody."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or a ClusterRoleBinding if `namespace` is empty."""

    name: str
    namespace: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]

    def subject_keys(self) -> Iterator[tuple[str, str]]:
        """What a user must be or belong to for each subject, in their order: see keys_of."""
        for kind, name, namespace in self.subjects:
            if kind in ("User", "Group"):
                yield kind, name
            elif kind == "ServiceAccount" and (namespace or self.namespace):
                yield "User", f"{SERVICE_ACCOUNT_PREFIX}{namespace or self.namespace}:{name}"
            else:
                yield "", ""

    def subject_of(self, keys: frozenset[tuple[str, str]]) -> Subject | None:
        """The first subject that a user with these keys is."""
        found = (subject for subject, key in zip(self.subjects, self.subject_keys(), strict=True) if key in keys)
        return next(found, None)

    def allowing(self, subject: Subject) -> str:
        """The server's words for an allowance by this binding."""
        kind, name = ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        whom = subject.name
        if subject.kind == "ServiceAccount":
            whom = f"{subject.name}/{subject.namespace or self.namespace}"
        return (
            f"RBAC: allowed by {kind} {quoted(name)} of {self.role_kind} {quoted(self.role_name)} to {subject.kind} {quoted(whom)}"
        )


def quoted(text: str) -> str:
    """In double quotes, as Go prints with %q; names of RBAC objects hold nothing unprintable."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def keys_of(user: UserInfo) -> frozenset[tuple[str, str]]:
    """What a user is and belongs to, as the keys of subjects. A service account is a user with a name of a certain form."""
    return frozenset([("User", user.username), *(("Group", group) for group in user.groups)])


class Bindings:
    """The ClusterRoleBindings of a cluster, or the RoleBindings of a namespace, by subject."""

    def __init__(self, bindings: Iterable[Versions[Binding]], missing: str = "") -> None:
        """`missing` says why there may be bindings next to these, if so."""
        bindings = tuple(bindings)
        self.missing = missing
        self._every = bindings
        self._by_key: dict[tuple[str, str], list[Versions[Binding]]] = {}
        self._for_anyone: list[Versions[Binding]] = []
        for versions in bindings:
            if any(isinstance(version, Unknown) for version in versions):
                self._for_anyone.append(versions)
                continue
            known = (version.value for version in versions if isinstance(version, Known) and version.value is not None)
            for key in dict.fromkeys(key for binding in known for key in binding.subject_keys() if key[0]):
                self._by_key.setdefault(key, []).append(versions)

    def every(self) -> Sequence[Versions[Binding]]:
        """All of them, whoever they are for."""
        return self._every

    def of(self, keys: frozenset[tuple[str, str]]) -> Sequence[Versions[Binding]]:
        """The bindings that may be for a user with these keys, each once."""
        found = {id(versions): versions for key in keys for versions in self._by_key.get(key, ())}
        return [*found.values(), *self._for_anyone]


class RbacObjects(Protocol):
    """The RBAC objects of a cluster, as one request met them."""

    def bindings(self, namespace: str) -> Bindings:
        """The RoleBindings of a namespace; the ClusterRoleBindings for the empty one."""
        ...

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """The rules of a Role; of a ClusterRole for the empty namespace."""
        ...


class Opinion(NamedTuple):
    """What RBAC says. `allowed` is None if nobody knows; `why` then says what is missing.

    `reasons` holds every reason that the server may have given, and None if it may have given one that nobody knows.
    """

    allowed: bool | None
    reasons: frozenset[str | None] = frozenset([""])
    why: str = ""

    @property
    def reason(self) -> str | None:
        """The only possible reason; None if there are several."""
        return next(iter(self.reasons)) if len(self.reasons) == 1 else None


class _Visit:
    """What the bindings of one user say of one question."""

    def __init__(self, objects: RbacObjects, user: UserInfo, asked: Attributes) -> None:
        self._objects = objects
        self._keys = keys_of(user)
        self._asked = asked
        self.reasons: set[str | None] = set()
        self.errors: set[str] = set()
        self.doubts: set[str] = set()
        self.is_in_flight = False  # something that was looked at was being changed

    def scope(self, namespace: str) -> bool:
        """Look through the bindings of a namespace, or of the cluster. True if one of them is sure to allow."""
        bindings = self._objects.bindings(namespace)
        if bindings.missing:
            self.doubts.add(bindings.missing)
        is_sure = False
        for versions in bindings.of(self._keys):
            # A binding that is being changed allows for sure only if it does so before and after.
            self.is_in_flight |= len(versions) > 1
            allowances = [self._version(version) for version in versions]
            is_sure |= all(allowances)
        return is_sure

    def _version(self, version: Evidence[Binding | None]) -> bool:
        if isinstance(version, Unknown):
            self.doubts.add(version.reason)
            return False
        binding = version.value
        if binding is None:
            return False
        if binding.role_kind not in ("Role", "ClusterRole"):
            return self._error(binding, f"unsupported role reference kind: {quoted(binding.role_kind)}")
        rules = self._objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
        self.is_in_flight |= len(rules) > 1
        allowances = [self._rules(binding, each) for each in rules]
        return all(allowances)

    def _rules(self, binding: Binding, rules: Evidence[Rules | None]) -> bool:
        if isinstance(rules, Unknown):
            self.doubts.add(rules.reason)
            return False
        if rules.value is None:
            return self._error(
                binding, f"{binding.role_kind.lower()}.rbac.authorization.k8s.io {quoted(binding.role_name)} not found"
            )
        if not any(rule.allows(self._asked) for rule in rules.value):
            return False
        # Asked last, because it was the user for whom the binding was found: only one that is being changed may be for others.
        subject = binding.subject_of(self._keys)
        if subject is None:
            return False
        self.reasons.add(binding.allowing(subject))
        return True

    def no_opinion(self) -> str | None:
        """The reason where nothing allows. Several errors are printed in the order of the bindings, which is not defined."""
        if not self.errors:
            return ""
        return None if self.is_in_flight or len(self.errors) > 1 else f"RBAC: {next(iter(self.errors))}"

    def _error(self, binding: Binding, message: str) -> bool:
        if binding.subject_of(self._keys) is not None:
            self.errors.add(message)
        return False


def authorize(objects: RbacObjects, user: UserInfo, asked: Attributes) -> Opinion:
    """What RBAC says of a user who asks for something: ClusterRoleBindings first, then the RoleBindings of the namespace."""
    visit = _Visit(objects, user, asked)
    if visit.scope("") or (asked.namespace and visit.scope(asked.namespace)):
        return Opinion(True, frozenset([*visit.reasons, *([None] if visit.doubts else [])]))
    if visit.doubts:
        return Opinion(None, why="; ".join(sorted(visit.doubts)))
    if visit.reasons:
        return Opinion(
            None, why="a role or binding that allows it was changed just before, and either version may have been in force"
        )
    return Opinion(False, frozenset([visit.no_opinion()]))
