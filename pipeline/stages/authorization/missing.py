"""The rights that a role change takes away from recorded requests, as roles that give them back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from queries import LakeReader

from ...cel.library.authorizer import Attributes
from ...cel.minors import DEFAULT
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
_WITHOUT_DRY_RUNS = "CREATE OR REPLACE TEMP TABLE asked AS FROM asked ANTI JOIN dry_runs USING (cluster, audit_id, ts)"


class ExtraRole(NamedTuple):
    """A role with its binding that gives back what newly denied requests of one user need, in one namespace or the cluster."""

    subject: str
    namespace: str
    role: Object
    binding: Object
    requests: int
    rights: tuple[str, ...]  # such as `get pods`


def missing_rights(
    reader: LakeReader, verdicts: Path, versions: Versions, kubernetes_version: tuple[int, int] = DEFAULT
) -> tuple[ExtraRole, ...]:
    """The rights that the newly denied requests of a run need, as roles named `extra-...`, to be tried by the caller.

    They cover dry runs, which need the same rights, and do not count them. `verdicts` is the table of the run. `versions` has the
    stored roles that the requests wrote. Leaves tables in the reader's connection.
    """
    gather_asked(reader)
    reader.connection.execute(statement("newly_denied"), {"verdicts": str(verdicts)})
    used: dict[str, list[Attributes | Grant]] = defaultdict(list)
    for user, found, _ in _needed(reader, versions, kubernetes_version):
        used[user] += found
    reader.connection.execute(_WITHOUT_DRY_RUNS)
    requests: Counter[tuple[str, str]] = Counter()
    for user, found, count in _needed(reader, versions, kubernetes_version):
        requests.update(dict.fromkeys({(user, each.namespace) for each in found}, count))
    return tuple(_roles(used, requests))


def _needed(
    reader: LakeReader, versions: Versions, kubernetes_version: tuple[int, int]
) -> Iterator[tuple[str, list[Attributes | Grant], int]]:
    """What each user needed for a distinct question of the table `asked`, and how many requests asked it."""
    for question in distinct_asked(reader):
        # What the requests needed is wanted here, and the record says that they got it.
        needs = needs_of(question.event, question.identity, versions, kubernetes_version)
        for user in filter(None, (question.identity.user, question.identity.impersonator)):
            items = needed(question, needs, user.username, _EXACT)
            yield user.username, [each for each in items if not isinstance(each, LeftOut)], question.requests


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
