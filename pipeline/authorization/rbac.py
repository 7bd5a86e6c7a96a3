"""Role-based access control: finds the rule and the binding that allow a request.

Follows kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go and
pkg/apis/rbac/v1/evaluation_helpers.go. RBAC only allows; otherwise it has no opinion. So a missing object cannot make RBAC deny a
request. It makes the request unknown only where no other object allows it.

Each object is given as all versions that a request may have met: one, or several if it was changing at that moment. The server
defines no order of the bindings (its informers keep them in Go maps), so several reasons may be possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, permutations, product
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ingest.redaction.forms import clean_text

from ..cel.library.authorizer import Attributes
from ..request import Evidence, Known, Unknown, UserInfo
from ..withheld import before_placeholder

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
# Of this many errors in one scope, every order is a possible reason; of more, the reason is open.
_ERRORS_MAX = 4

GROUPS_UNKNOWN = "a group may allow it, and the user's groups were not recorded"
REDACTED_USER = "a binding may allow it, and the user's name or a group was redacted"
REDACTED_QUESTION = "a rule may allow it, and the name or the path of the request was redacted"

T = TypeVar("T")
# The versions of one object that a request may have met; Known(None) means that it did not exist.
Versions: TypeAlias = tuple[Evidence[T | None], ...]


class Rule(NamedTuple):
    """One rule of a role, in the order of its object. Empty `names` mean every name."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule covers the request. `pods` does not cover `pods/log`, and `pods/*` covers nothing at all."""
        if asked.verb not in self.verbs and "*" not in self.verbs:
            return False
        if not asked.is_resource_request:
            return any(covers_path(url, asked.path) for url in self.urls)
        if asked.group not in self.groups and "*" not in self.groups:
            return False
        if self.names and asked.name not in self.names:
            return False
        return "*" in self.resources or any(name in self.resources for name in _spellings(asked.resource, asked.subresource))

    def may_allow(self, asked: Attributes) -> bool:
        """The same where redaction replaced a name or a part of a path: whether the rule covers what may have been there."""
        if not asked.is_redacted or self.allows(asked):
            return self.allows(asked)
        if asked.is_resource_request:
            return self._replace(names=()).allows(asked)
        start = before_placeholder(asked.path)
        return self._replace(urls=("*",)).allows(asked) and any(url.startswith(start) for url in self.urls)


def _spellings(resource: str, subresource: str) -> tuple[str, ...]:
    """The names, in addition to `*`, by which a rule may name a resource."""
    return (f"{resource}/{subresource}", f"*/{subresource}") if subresource else (resource,)


def covers_path(url: str, path: str) -> bool:
    """Whether a nonResourceURL stands for a path, or for all paths of another nonResourceURL."""
    # Upstream removes all stars at the end, and a star has a meaning only there.
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))


Rules: TypeAlias = tuple[Rule, ...]


class Subject(NamedTuple):
    """The subject of a binding. `kind` is User, Group or ServiceAccount; any other kind matches no user."""

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
        """For each subject, in order, the key of a user or group that it matches: see keys_of."""
        for kind, name, namespace in self.subjects:
            if kind in ("User", "Group"):
                yield kind, name
            elif kind == "ServiceAccount" and (namespace or self.namespace):
                yield "User", f"{SERVICE_ACCOUNT_PREFIX}{namespace or self.namespace}:{name}"
            else:
                yield "", ""

    def subject_of(self, keys: frozenset[tuple[str, str]]) -> Subject | None:
        """The first subject that matches a user with these keys."""
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


def missing_role(binding: Binding) -> str:
    """The server's words for a binding whose role does not exist."""
    return f"{binding.role_kind.lower()}.rbac.authorization.k8s.io {quoted(binding.role_name)} not found"


def quoted(text: str) -> str:
    """The text in double quotes, as Go prints with %q; names of RBAC objects hold no unprintable characters."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def keys_of(user: UserInfo) -> frozenset[tuple[str, str]]:
    """The user and its groups, as the keys of subjects. A service account is a user whose name has a certain form."""
    return frozenset([("User", user.username), *(("Group", group) for group in user.groups)])


class Bindings:
    """The ClusterRoleBindings of a cluster, or the RoleBindings of a namespace, by subject."""

    def __init__(self, bindings: Iterable[Versions[Binding]], missing: str = "", names: Sequence[str] = ()) -> None:
        """`missing` says why there may be further bindings; empty if all are known. `names` are the names, if anyone asks."""
        bindings = tuple(bindings)
        self.missing = missing
        self.names = names
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
        """All bindings, for all subjects."""
        return self._every

    def of(self, keys: frozenset[tuple[str, str]]) -> Sequence[Versions[Binding]]:
        """The bindings that may match a user with these keys, each once."""
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
    """RBAC's opinion. `allowed` is None if it is unknown; `why` then says what evidence is missing.

    `reasons` holds every reason that the server may have given. It also holds None if the server may have given an unknown reason.
    """

    allowed: bool | None
    reasons: frozenset[str | None] = frozenset([""])
    why: str = ""

    @property
    def reason(self) -> str | None:
        """The only possible reason; None if there are several."""
        return next(iter(self.reasons)) if len(self.reasons) == 1 else None


class _Visit:
    """The search through the bindings of one user for one question."""

    def __init__(self, objects: RbacObjects, user: UserInfo, asked: Attributes) -> None:
        self._objects = objects
        self._keys = keys_of(user)
        self._asked = asked
        self.reasons: set[str | None] = set()
        # Bindings whose role cannot be found, as texts: first those of the cluster, then those of the namespace.
        self.errors: list[set[str]] = []
        self.doubts: set[str] = set()
        self.is_in_flight = False  # one of the objects that were read was changing

    def scope(self, namespace: str) -> bool:
        """Search the bindings of a namespace, or of the cluster. True if one of them is sure to allow."""
        bindings = self._objects.bindings(namespace)
        self.errors.append(set())
        if bindings.missing:
            self.doubts.add(bindings.missing)
        is_sure = False
        for versions in bindings.of(self._keys):
            # A binding that is changing allows for sure only if it allows before and after the change.
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
            return self._error(binding, missing_role(binding))
        if not any(rule.allows(self._asked) for rule in rules.value):
            return False
        # Tested last, because the binding was found by this user: only a binding that is changing may be for others.
        subject = binding.subject_of(self._keys)
        if subject is None:
            return False
        self.reasons.add(binding.allowing(subject))
        return True

    def no_opinion(self) -> frozenset[str | None]:
        """The possible reasons where no binding allows.

        The errors of the cluster's bindings come before those of the namespace. The server defines no further order. It prints
        each distinct error once, and several in brackets (apimachinery pkg/util/errors/errors.go).
        """
        if not any(self.errors):
            return frozenset([""])
        if self.is_in_flight or max(map(len, self.errors)) > _ERRORS_MAX:
            return frozenset([None])
        found = set[str | None]()
        for orders in product(*map(permutations, self.errors)):
            distinct = list(dict.fromkeys(chain.from_iterable(orders)))
            text = ", ".join(distinct)
            found.add(f"RBAC: [{text}]" if len(distinct) > 1 else f"RBAC: {text}")
        return frozenset(found)

    def _error(self, binding: Binding, message: str) -> bool:
        if binding.subject_of(self._keys) is not None:
            self.errors[-1].add(message)
        return False


def may_be_subject(binding: Binding, user: UserInfo) -> bool:
    """Whether a binding is for a user, or may be, because its groups were not recorded, or its name or a group was redacted."""
    keys = keys_of(user)
    return any(
        (kind, name) in keys or (kind == "Group" and not user.is_whole) or (kind, _cleaned(name)) in keys
        for kind, name in binding.subject_keys()
    )


@lru_cache(maxsize=65_536)
def _cleaned(name: str) -> str:
    """The name as redaction leaves it; the subjects of a few bindings are asked about for every user."""
    return clean_text(name)


def may_allow_another(objects: RbacObjects, user: UserInfo, asked: Attributes) -> bool:
    """Whether some binding allows what the user may have asked, as far as bindings and roles are known.

    See may_be_subject and Rule.may_allow.
    """
    scopes = dict.fromkeys(["", asked.namespace])
    versions = chain.from_iterable(chain.from_iterable(objects.bindings(scope).every()) for scope in scopes)
    bindings = (each.value for each in versions if isinstance(each, Known) and each.value is not None)
    return any(
        isinstance(rules, Known) and any(rule.may_allow(asked) for rule in rules.value or ())
        for binding in bindings
        if may_be_subject(binding, user)
        for rules in objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
    )


def authorize(objects: RbacObjects, user: UserInfo, asked: Attributes) -> Opinion:
    """RBAC's opinion for a user who asks for something: ClusterRoleBindings first, then the RoleBindings of the namespace.

    A user whose groups were not recorded may be in any group.
    """
    visit = _Visit(objects, user, asked)
    if visit.scope("") or (asked.namespace and visit.scope(asked.namespace)):
        return Opinion(True, frozenset([*visit.reasons, *([None] if visit.doubts else [])]))
    if visit.doubts:
        return Opinion(None, why="; ".join(sorted(visit.doubts)))
    if visit.reasons:
        return Opinion(
            None, why="a role or binding that allows it was changed just before, and either version may have been in force"
        )
    if not (user.is_identified and not asked.is_redacted) and may_allow_another(objects, user, asked):
        return Opinion(None, why=GROUPS_UNKNOWN if not user.is_whole else REDACTED_QUESTION if asked.is_redacted else REDACTED_USER)
    return Opinion(False, visit.no_opinion())


class Opinions:
    """RBAC's opinions over the objects of one moment: questions that differ in what no rule of the user reads are answered once."""

    def __init__(self, objects: RbacObjects) -> None:
        self._objects = objects
        self._found: dict[tuple[frozenset[tuple[str, str]], Attributes], Opinion] = {}
        self._reads_names: dict[tuple[frozenset[tuple[str, str]], str], bool] = {}

    def of(self, user: UserInfo, asked: Attributes) -> Opinion:
        """See authorize."""
        if not user.is_identified or asked.is_redacted:
            return authorize(self._objects, user, asked)  # rules for others than the user count, too
        keys = keys_of(user)
        name = asked.name if asked.name and self._is_named(keys, asked.namespace) else ""
        read = asked._replace(name=name, field_selector="", label_selector="")
        found = self._found.get((keys, read))
        if found is None:
            found = self._found[keys, read] = authorize(self._objects, user, read)
        return found

    def _is_named(self, keys: frozenset[tuple[str, str]], namespace: str) -> bool:
        """Whether some rule for a user may have names, in a namespace or in the cluster."""
        found = self._reads_names.get((keys, namespace))
        if found is None:
            found = self._reads_names[keys, namespace] = any(self._names(keys, scope) for scope in {"", namespace})
        return found

    def _names(self, keys: frozenset[tuple[str, str]], namespace: str) -> bool:
        for versions in self._objects.bindings(namespace).of(keys):
            for binding in (version.value for version in versions if isinstance(version, Known) and version.value is not None):
                for rules in self._objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name):
                    if isinstance(rules, Known) and any(rule.names for rule in rules.value or ()):
                        return True
        return False
