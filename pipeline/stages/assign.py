"""Gives each manifest to the stage that reads its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..manifests.documents import Document
from ..manifests.fields import Fields
from .registry import STAGES
from .stage import Kind, Stage

_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Assigned:
    """The rules of each stage that has any among some manifests, and the manifests that no stage reads or uses."""

    rules: tuple[tuple[Stage[Any, Any], Any], ...]
    left: tuple[Document, ...]

    @property
    def words_of_left(self) -> str:
        """A sentence on the manifests that have no effect, by kind; empty if each has one."""
        if not self.left:
            return ""
        kinds = Counter(kind_words(document) for document in self.left)
        counted = ", ".join(f"{_number(count)} {kind}" for kind, count in kinds.most_common())
        places = ", ".join(document.where() for document in self.left[:_NAMES_SHOWN])
        more = f" and {len(self.left) - _NAMES_SHOWN} more" if len(self.left) > _NAMES_SHOWN else ""
        found = f"Hindcast cannot replay {counted} ({places}{more}), and no given rule reads one: they change nothing"
        return "; ".join([found, *self._other_groups()])

    def _other_groups(self) -> list[str]:
        """Which stages read the kinds that are left: in another group, or with something that these manifests lack."""
        left = {kind_of(document) for document in self.left}
        own = [f"the stage {stage.name} reads {kind.kind}, and finds nothing of its own in these" for stage, kind in _read(left)]
        names = {kind.kind for kind in left} - {kind.kind for _, kind in _read(left)}
        read = sorted(kind for stage in STAGES for kind in stage.kinds if kind.kind in names)
        return own + [f"a stage reads {kind.kind} of the group {kind.group or 'core'}" for kind in dict.fromkeys(read)]


def _read(kinds: Collection[Kind]) -> list[tuple[Stage[Any, Any], Kind]]:
    return [(stage, kind) for stage in STAGES for kind in sorted(kinds) if kind in stage.kinds]


def _number(count: int) -> str:
    return "a" if count == 1 else f"{count:,}"


def kind_of(document: Document) -> Kind:
    """The group and kind of a manifest. Raises InputError if it has none."""
    root = Fields(document)
    group, separator, _ = root.text("apiVersion").partition("/")
    return Kind(group if separator else "", root.text("kind"))


def kind_words(document: Document) -> str:
    """The kind of a manifest, for a person."""
    return f"{document.value.get('kind')} of {document.value.get('apiVersion')}"


def assign(documents: Sequence[Document], stages: Sequence[Stage[Any, Any]] = STAGES) -> Assigned:
    """Read manifests stage by stage. Raises InputError, with file and line, for manifests that a stage cannot read."""
    kinds = [kind_of(document) for document in documents]
    found: list[tuple[Stage[Any, Any], Any]] = []
    used = [False] * len(documents)
    for stage in stages:
        is_own = [kind in stage.kinds for kind in kinds]
        # Some kinds say nothing to their stage in most manifests, such as namespaces without its labels: its rules are then false.
        if not any(is_own) or not (rules := stage.read(documents)):
            continue
        found.append((stage, rules))
        used = [each or own or stage.uses(rules, document) for each, own, document in zip(used, is_own, documents, strict=True)]
    left = tuple(document for document, is_used in zip(documents, used, strict=True) if not is_used)
    return Assigned(tuple(found), left)
