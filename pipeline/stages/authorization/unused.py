"""Granted and used: which rules in force no recorded request used.

A rule counts as used by a request that it allows, even if another rule allows the request as well. The audit policy decides which
requests are recorded. So each row says how many recorded requests of anybody are of the rule's verbs and resources: where there are
none, such requests may not be recorded at all.
"""

from __future__ import annotations

from collections import defaultdict
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
        self.resources |= {part for part in parts if rule._replace(resources=(part,), urls=(part,)).allows(asked)}


def granted_rules(
    objects: RbacObjects, namespaces: Iterable[str], uses: Iterable[Use], subject: str | None = None
) -> Iterator[GrantedRule]:
    """Every rule of every binding that is known, with its use: bindings of the cluster first, then by namespace and name.

    `subject` counts only the requests of that user.
    """
    uses = list(uses)
    by_user: dict[tuple[str, frozenset[tuple[str, str]]], dict[Attributes, int]] = defaultdict(lambda: defaultdict(int))
    every: dict[Attributes, int] = defaultdict(int)
    for use in uses:
        if use.asked is None:
            continue
        asked = use.asked._replace(field_selector="", label_selector="")
        if subject is None or use.user.username == subject:
            by_user[use.user.username, keys_of(use.user)][asked] += use.requests
        every[asked] += use.requests
    users: dict[tuple[str, str], list[Mapping[Attributes, int]]] = defaultdict(list)
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
    users: Mapping[tuple[str, str], list[Mapping[Attributes, int]]],
    every: Mapping[Attributes, int],
    seen: dict[Rule, int],
    unsure: Sequence[Use],
) -> Iterator[GrantedRule]:
    of_role = objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
    rules = next((version.value for version in of_role if isinstance(version, Known) and version.value is not None), ())
    asked_by: dict[int, Mapping[Attributes, int]] = {}
    for key in binding.subject_keys():
        asked_by.update((id(each), each) for each in users.get(key, ()))
    subjects = tuple(f"{kind} {name}" for kind, name in binding.subject_keys() if kind)
    for rule in rules:
        used = _Used()
        for asked, requests in _chained(asked_by.values()):
            if binding.namespace in ("", asked.namespace) and rule.allows(asked):
                used.add(rule, asked, requests)
        if rule not in seen:
            seen[rule] = sum(requests for asked, requests in every.items() if rule.allows(asked))
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
            sum(use.requests for use in unsure if _may_use(use, binding, rule)),
        )


def _may_use(use: Use, binding: Binding, rule: Rule) -> bool:
    """Whether a request may have used a rule of a binding, where the log lacks the groups of its user, or what it asked for."""
    is_of_user = binding.subject_of(keys_of(use.user)) is not None
    if use.asked is None or not may_be_subject(binding, use.user):
        return may_be_subject(binding, use.user)
    is_counted = is_of_user and rule.allows(use.asked)
    return binding.namespace in ("", use.asked.namespace) and rule.may_allow(use.asked) and not is_counted


def _chained(several: Iterable[Mapping[Attributes, int]]) -> Iterator[tuple[Attributes, int]]:
    for each in several:
        yield from each.items()


def _known(bindings: Iterable[Versions[Binding]]) -> Iterator[Binding]:
    """The settled version of each binding that exists and is known."""
    for versions in bindings:
        first = versions[0]
        if isinstance(first, Known) and first.value is not None:
            yield first.value
