"""The rules that a ClusterRole gathers, and which roles gather which.

A controller fills a role with an aggregationRule: for each selector in order, with the rules of the matching ClusterRoles by name
(kubernetes pkg/controller/clusterroleaggregation). Files may hold thousands of such roles, so selectors find theirs by labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ...authorization.documents import ClusterRole
from ...authorization.rbac import Rule
from ...cel.library.authorizer import Attributes
from ...matching.selectors import LabelSelector


class Members:
    """ClusterRoles by name and by labels."""

    def __init__(self, roles: Iterable[ClusterRole]) -> None:
        self._roles = sorted(roles, key=lambda role: role.name)
        self._places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, role in enumerate(self._roles):
            for label in role.labels.items():
                self._places[label].append(place)

    def selected(self, selector: LabelSelector) -> Iterator[ClusterRole]:
        """The roles that a selector takes, by name."""
        for place in self._candidates(selector):
            role = self._roles[place]
            if selector.selects(role.labels):
                yield role

    def _candidates(self, selector: LabelSelector) -> Sequence[int]:
        """The places of the roles that a selector may take: those that meet one requirement that names values."""
        equal = [requirement for requirement in selector.requirements if requirement.operator == "In"]
        found = [sorted({place for value in each.values for place in self._places.get((each.key, value), ())}) for each in equal]
        return min(found, key=len) if found else range(len(self._roles))

    def gathered(self, role: ClusterRole) -> tuple[Rule, ...]:
        """The rules that a role gathers, also through roles that gather in turn, in the controller's order."""
        rules: dict[Rule, None] = {}
        visited = {role.name}
        waiting = [self._of(role)]
        while waiting:
            member = next(waiting[-1], None)
            if member is None:
                waiting.pop()
            elif member.name not in visited:
                visited.add(member.name)
                if member.selectors is None:
                    rules.update(dict.fromkeys(member.rules))
                else:
                    waiting.append(self._of(member))
        return tuple(rules)

    def _of(self, role: ClusterRole) -> Iterator[ClusterRole]:
        return (member for selector in role.selectors or () for member in self.selected(selector))


def gathering_of(changed: Iterable[ClusterRole], others: Iterable[ClusterRole]) -> Iterator[ClusterRole]:
    """Those of some other roles that gather a changed one, directly or through another."""
    rest = [role for role in others if role.selectors]
    members = Members(changed) if rest else Members(())
    while found := [role for role in rest if any(True for each in role.selectors or () for _ in members.selected(each))]:
        yield from found
        # Roles that gather these are changed in turn.
        members, taken = Members(found), {id(role) for role in found}
        rest = [role for role in rest if id(role) not in taken]


class RuleIndex:
    """Rules by the resources that they name, so that a question meets only those that may allow it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._of_resource: dict[str, list[Rule]] = defaultdict(list)
        self._of_paths: list[Rule] = []
        for rule in rules:
            for resource in dict.fromkeys(rule.resources):
                self._of_resource[resource].append(rule)
            if rule.urls:
                self._of_paths.append(rule)

    def allows(self, asked: Attributes) -> bool:
        """Whether some rule allows a question."""
        if not asked.is_resource_request:
            return any(rule.allows(asked) for rule in self._of_paths)
        names = ["*", asked.resource]
        if asked.subresource:
            names += [f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}"]
        return any(rule.allows(asked) for name in names for rule in self._of_resource.get(name, ()))
