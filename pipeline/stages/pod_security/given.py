"""What manifests say of Pod Security: the labels of namespaces, and the configuration of the plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...manifests.documents import Document
from ...manifests.fields import Fields
from ...manifests.writing import to_yaml
from ...runs.revision import JUDGED
from ..stage import Kind
from ..validating.decode import is_mutating
from .checks.table import Level
from .configuration import INNER_KIND, OUTER_KINDS, Configuration, configuration_of
from .policy import MODES, PREFIX, Policy, own_labels

NAMESPACE = Kind("", "Namespace")
# In place of a name: all namespaces without labels of their own here. No namespace has such a name.
EVERYWHERE = "*"
KINDS = frozenset({NAMESPACE, INNER_KIND, *OUTER_KINDS})


@dataclass(frozen=True)
class Given:
    """The labels of given namespaces, without prefix, and the configuration. `written` are the manifests of the namespaces.

    `everywhere` are labels of all namespaces that have none of their own here; None leaves those to the log. With
    mutating policies among the manifests, `mutating` holds them all.
    """

    labels: Mapping[str, Mapping[str, str]]
    configuration: Configuration | None = None
    everywhere: Mapping[str, str] | None = None
    written: Mapping[str, Document] = field(default_factory=dict, compare=False)
    mutating: tuple[Document, ...] = ()

    def __bool__(self) -> bool:
        """Whether the manifests say anything of Pod Security; most Namespaces do not."""
        return any(self.labels.values()) or self.configuration is not None or self.everywhere is not None

    def is_about(self, namespace: str) -> bool:
        """Whether a user asks about a namespace: its labels are given, or no labels are."""
        return namespace in self.labels or self.everywhere is not None or not self.labels

    def described(self) -> Any:
        """The same as JSON values."""
        found = self.configuration
        mutating = {"mutating": [each.value for each in self.mutating], "judged": JUDGED} if self.mutating else {}
        return mutating | {
            "labels": {name: dict(labels) for name, labels in sorted(self.labels.items())},
            "everywhere": None if self.everywhere is None else dict(self.everywhere),
            "configuration": None
            if found is None
            else {
                "defaults": _plain(found.defaults),
                "usernames": sorted(found.usernames),
                "namespaces": sorted(found.namespaces),
                "runtimeClasses": sorted(found.runtime_classes),
            },
        }


def _plain(policy: Policy) -> dict[str, str]:
    return {str(mode): str(found) for mode, found in policy.items()}


def given_of(documents: Sequence[Document]) -> Given:
    """What manifests of all kinds say. Invalid labels are taken as the plugin takes them. Raises InputError with file and line."""
    labels: dict[str, Mapping[str, str]] = {}
    written: dict[str, Document] = {}
    for document in documents:
        root = Fields(document)
        if root.value.get("kind") != NAMESPACE.kind or root.text("apiVersion") != "v1":
            continue
        metadata = root.object("metadata")
        name = metadata.text("name") if metadata else ""
        if metadata is None or not name:
            raise root.error(" must name the namespace", "metadata")
        if name in written:
            raise root.error(f": namespace {name!r} is also in {written[name].where()}; give one of them", "metadata")
        found = metadata.object("labels")
        for key in found.value if found else ():
            if found and key.startswith(PREFIX):
                found.text(key)
        labels[name], written[name] = own_labels(found.value if found else None), document
    mutating = tuple(documents) if any(is_mutating(each.value) for each in documents) else ()
    return Given(labels, configuration_of(documents), labels.pop(EVERYWHERE, None), written, mutating)


def labelled(level: Level, namespaces: Sequence[str]) -> str:
    """Manifests, as YAML, that give some namespaces a level in all modes; all namespaces if none is named."""
    labels = {PREFIX + str(mode): str(level) for mode in MODES}
    names = namespaces or (EVERYWHERE,)
    return to_yaml([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}} for name in names])
