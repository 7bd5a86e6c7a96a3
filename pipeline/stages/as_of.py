"""Objects of configuration that were in force in a cluster at a moment, as the log and snapshots show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from ingest.errors import EvidenceError, InputError
from queries import LakeReader

from ..history.in_force import in_force
from ..history.snapshots import ResourceName
from ..manifests.documents import Document
from ..policies.model import ParamKind
from ..request import Evidence, Object, Unknown
from ..requests.past import load_history
from ..runs.window import Window

RuleT = TypeVar("RuleT")


@dataclass(frozen=True, slots=True)
class Left:
    """An object whose content at the moment is unknown, or cannot be read: nothing is known of what it did."""

    kind: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is unknown: {self.why}"


@dataclass(frozen=True, slots=True)
class AsOf(Generic[RuleT]):
    """The rules of a moment, and the objects that are left out of them because they are unknown."""

    rules: tuple[RuleT, ...]
    left: tuple[Left, ...]

    def words_of_left(self) -> str:
        """The end of a sentence that names the left-out objects; empty without any."""
        return "".join(f"; {each}" for each in self.left)

    def refuse(self, is_wanted: Callable[[Left], bool] = lambda left: True) -> None:
        """Raise EvidenceError for the first wanted object that is left out."""
        for each in filter(is_wanted, self.left):
            raise EvidenceError(f"at that time the {each}", "give another time, or ingest a snapshot of it")


def rules_as_of(
    reader: LakeReader,
    kinds: Mapping[str, ParamKind],
    cluster: str,
    moment: datetime,
    delay: timedelta,
    read: Callable[[Document], RuleT],
) -> AsOf[RuleT]:
    """The rules that the objects of some kinds hold at a moment, by kind and name. `kinds` leads from the name of a resource to its
    kind, and `read` raises InputError for an object that it cannot read.

    A change takes up to `delay` to be in force; of two versions in flight this is the older one.
    """
    history = load_history(reader, list(kinds.values()), Window())
    rules: list[RuleT] = []
    left: list[Left] = []
    for resource, kind in kinds.items():
        for key in sorted(history.keys(cluster, ResourceName(kind.api_version.partition("/")[0], resource))):
            found = in_force(history, key, moment, delay)
            if found is None:
                continue
            try:
                if (document := _document(found.object, kind, key.name)) is not None:
                    rules.append(read(document))
            except InputError as error:
                left.append(Left(kind.kind, key.name, error.message))
    return AsOf(tuple(rules), tuple(left))


def _document(found: Evidence[Object | None], kind: ParamKind, name: str) -> Document | None:
    """None for an object that did not exist. Raises InputError for an unknown one."""
    if isinstance(found, Unknown):
        raise InputError(found.reason)
    if found.value is None:
        return None
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    return Document({**head, **found.value}, f"the log: {kind.kind} {name}")
