"""Granted and used: which rules in force no recorded request used.

A rule counts as used by a request that it allows, even if another rule allows the request as well. The audit policy decides which
requests are recorded. So each row says how many recorded requests of anybody are of the rule's verbs and resources: where there are
none, such requests may not be recorded at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...authorization.rbac import Binding, RbacObjects, Rule, Versions, keys_of, may_be_subject
from ...cel.library.authorizer import Attributes
from ...request import Known, UserInfo


class Use(NamedTuple):
    """A question that the authorizers allowed, and how many requests asked it. `asked` is None where the log does not show it."""

    user: UserInfo
    asked: Attributes | None
    requests: int

    @property
    def is_known(self) -> bool:
        """Whether the log tells all that decides which rules allow it."""
        return self.asked is not None and not self.asked.is_redacted and self.user.is_identified


class GrantedRule(NamedTuple):
    """One rule of one binding: who has it, how many requests used it, and which parts of it none used.

    `seen` counts recorded requests of anybody that the rule would allow to everybody. `possible` counts requests that may have used
    it: the log lacks the groups of their users, or what they asked for, or redaction replaced it.
    """

    namespace: str  # of the binding; empty for the whole cluster
    binding: str
    role_kind: str
    role: str
    subjects: tuple[str, ...]
    rule: Rule
    requests: int
    unused_verbs: tuple[str, ...]
    unused_resources: tuple[str, ...]
    seen: int
    possible: int = 0


class _Asked:
    """Numbers of requests, by all of their questions that rules without names read."""

    def __init__(self) -> None:
        self._namespaces: dict[Attributes, Counter[str]] = defaultdict(Counter)
        self._names: dict[Attributes, Counter[tuple[str, str]]] = defaultdict(Counter)

    def add(self, asked: Attributes, requests: int) -> None:
        kind = asked._replace(namespace="", name="", field_selector="", label_selector="")
        self._namespaces[kind][asked.namespace] += requests
        self._names[kind][asked.namespace, asked.name] += requests

    def allowed_by(self, rule: Rule, namespace: str) -> Iterator[tuple[Attributes, int]]:
        """The questions in a namespace, or in all for the empty one, that a rule allows; without their namespaces and names."""
        nameless = rule._replace(names=())
        for kind, spaces in self._namespaces.items():
            if not nameless.allows(kind):
                continue
            if rule.names and kind.is_resource_request:
                names = self._names[kind].items()
                requests = sum(count for (space, name), count in names if namespace in ("", space) and name in rule.names)
            else:
                requests = spaces[namespace] if namespace else spaces.total()
            if requests:
                yield kind, requests


class _Used:
    """What the requests used of one rule."""

    def __init__(self) -> None:
        self.requests = 0
        self.verbs: set[str] = set()
        self.resources: set[str] = set()

    def add(self, rule: Rule, asked: Attributes, requests: int) -> None:
        self.requests += requests
        self.verbs |= {verb for verb in rule.verbs if verb in (asked.verb, "*")}
        parts = rule.resources if asked.is_resource_request else rule.urls
        self.resources |= {part for part in parts if rule._replace(resources=(part,), names=(), urls=(part,)).allows(asked)}


def granted_rules(
    objects: RbacObjects, namespaces: Iterable[str], uses: Iterable[Use], subject: str | None = None
) -> Iterator[GrantedRule]:
    """Every rule of every binding that is known, with its use: bindings of the cluster first, then by namespace and name.

    `subject` counts only the requests of that user.
    """
    uses = list(uses)
    by_user: dict[tuple[str, frozenset[tuple[str, str]]], _Asked] = defaultdict(_Asked)
    every = _Asked()
    for use in uses:
        if use.asked is None:
            continue
        if subject is None or use.user.username == subject:
            by_user[use.user.username, keys_of(use.user)].add(use.asked, use.requests)
        every.add(use.asked, use.requests)
    users: dict[tuple[str, str], list[_Asked]] = defaultdict(list)
    for (_, keys), asked_by_user in by_user.items():
        for key in keys:
            users[key].append(asked_by_user)
    seen: dict[Rule, int] = {}
    unsure = [use for use in uses if not use.is_known and subject in (None, use.user.username)]
    for namespace in dict.fromkeys(["", *sorted(namespaces)]):
        for binding in sorted(_known(objects.bindings(namespace).every()), key=lambda binding: binding.name):
            yield from _rules(objects, binding, users, every, seen, unsure)


def _rules(
    objects: RbacObjects,
    binding: Binding,
    users: Mapping[tuple[str, str], list[_Asked]],
    every: _Asked,
    seen: dict[Rule, int],
    unsure: Sequence[Use],
) -> Iterator[GrantedRule]:
    of_role = objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
    rules = next((version.value for version in of_role if isinstance(version, Known) and version.value is not None), ())
    asked_by = {id(each): each for key in binding.subject_keys() for each in users.get(key, ())}
    subjects = tuple(f"{kind} {name}" for kind, name in binding.subject_keys() if kind)
    possible = list(_possible(unsure, binding)) if rules else []
    for rule in rules:
        used = _Used()
        for each in asked_by.values():
            for asked, requests in each.allowed_by(rule, binding.namespace):
                used.add(rule, asked, requests)
        if rule not in seen:
            seen[rule] = sum(requests for _, requests in every.allowed_by(rule, ""))
        yield GrantedRule(
            binding.namespace,
            binding.name,
            binding.role_kind,
            binding.role_name,
            subjects,
            rule,
            used.requests,
            tuple(verb for verb in rule.verbs if verb not in used.verbs),
            tuple(part for part in (rule.urls or rule.resources) if part not in used.resources),
            seen[rule],
            sum(use.requests for use, is_of_user in possible if _may_use(use, rule, is_of_user=is_of_user)),
        )


def _possible(unsure: Sequence[Use], binding: Binding) -> Iterator[tuple[Use, bool]]:
    """The requests that may have used a binding, because the log lacks the groups of their user, or what they asked for.

    Also says of each whether the binding surely is for its user. Many requests have one user, which is looked up once.
    """
    found: dict[tuple[str, tuple[str, ...], bool], tuple[bool, bool]] = {}
    for use in unsure:
        if use.asked is not None and binding.namespace not in ("", use.asked.namespace):
            continue
        user = use.user
        key = user.username, tuple(user.groups), user.is_whole
        if key not in found:
            found[key] = may_be_subject(binding, user), binding.subject_of(keys_of(user)) is not None
        may_be, is_of_user = found[key]
        if may_be:
            yield use, is_of_user


def _may_use(use: Use, rule: Rule, *, is_of_user: bool) -> bool:
    """Whether a request that may have used a binding may have used one rule of it."""
    return use.asked is None or (rule.may_allow(use.asked) and not (is_of_user and rule.allows(use.asked)))


def _known(bindings: Iterable[Versions[Binding]]) -> Iterator[Binding]:
    """The settled version of each binding that exists and is known."""
    for versions in bindings:
        first = versions[0]
        if isinstance(first, Known) and first.value is not None:
            yield first.value
