"""The rights that a role change takes away from recorded requests, as roles that give them back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from ...cel.library.authorizer import Attributes
from ...history.versions import Versions
from ...request import Object
from .asked import distinct_asked, gather_asked
from .least import LeastOptions, least_rules
from .needs import Grant
from .questions import needs_of
from .role_objects import default_name, manifests
from .sql import statement
from .used_rights import LeftOut, needed

_EXACT = LeastOptions(counts_on_defaults=False)
_PREFIX = "extra-"


class ExtraRole(NamedTuple):
    """A role with its binding that gives back what newly denied requests of one user need, in one namespace or the cluster."""

    subject: str
    namespace: str
    role: Object
    binding: Object
    requests: int
    rights: tuple[str, ...]  # such as `get pods`


@dataclass(frozen=True)
class MissingRights:
    """The roles that give back what a change takes away. `still_denied` counts the requests that are denied even with these."""

    roles: tuple[ExtraRole, ...] = ()
    still_denied: int = 0

    @property
    def objects(self) -> list[Object]:
        """All roles and bindings."""
        return [value for each in self.roles for value in (each.role, each.binding)]


def missing_rights(
    reader: LakeReader, verdicts: Path, versions: Versions, kubernetes_version: tuple[int, int] = (1, 36)
) -> MissingRights:
    """The rights that the newly denied requests of a run need, as roles named `extra-...`, to be tried by the caller.

    `verdicts` is the table of the run. `versions` has the stored roles that the requests wrote. Leaves tables in the reader's
    connection.
    """
    gather_asked(reader)
    reader.connection.execute(statement("newly_denied"), {"verdicts": str(verdicts)})
    used: dict[str, list[Attributes | Grant]] = defaultdict(list)
    requests: Counter[tuple[str, str]] = Counter()
    for question in distinct_asked(reader):
        # What the requests needed is wanted here, and the record says that they got it.
        needs = needs_of(question.event, question.identity, versions, kubernetes_version)
        for user in filter(None, (question.identity.user, question.identity.impersonator)):
            items = needed(question, needs, user.username, _EXACT)
            found = [each for each in items if not isinstance(each, LeftOut)]
            used[user.username] += found
            requests.update(dict.fromkeys({(user.username, each.namespace) for each in found}, question.requests))
    return MissingRights(tuple(_roles(used, requests)))


def _roles(used: Mapping[str, list[Attributes | Grant]], requests: Mapping[tuple[str, str], int]) -> Iterator[ExtraRole]:
    taken: set[str] = set()
    for subject, items in sorted(used.items()):
        name = _PREFIX + default_name(subject).removeprefix("least-")
        while name in taken:
            name += "-2"
        taken.add(name)
        objects = manifests(least_rules(items, _EXACT), subject, name)
        for role, binding in zip(objects[::2], objects[1::2], strict=True):
            namespace = role["metadata"].get("namespace", "")
            rights = {
                f"{each.verb} {each.path or each.resource}"
                for each in items
                if isinstance(each, Attributes) and each.namespace == namespace
            }
            yield ExtraRole(subject, namespace, role, binding, requests.get((subject, namespace), 0), tuple(sorted(rights)))
