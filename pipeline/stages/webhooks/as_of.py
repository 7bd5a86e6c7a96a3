"""The webhook configurations of a cluster as of one moment, from its log and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from ingest.errors import EvidenceError
from queries import LakeReader

from ...manifests.documents import Document
from ...requests.past import load_history
from ...runs.window import Window
from ...world import World
from ..as_of import AsOf, rules_as_of
from .decode import configuration_from_document, configuration_from_object
from .model import Configuration
from .recorded import CONFIGURATION_DELAY, KINDS, RESOURCES

_RuleT = TypeVar("_RuleT")


def configurations_as_of(reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Configuration]:
    """The configurations that were in force at a moment. Raises EvidenceError if the log shows none that can be read."""
    found = _stored(reader, cluster, moment)
    if not found.rules:
        words = f"the log shows no webhook configuration in force in cluster {cluster!r} at {moment.isoformat()}"
        raise EvidenceError(
            words + found.words_of_left(),
            "name a later time, ingest a snapshot with webhook configurations, or give files with -f",
        )
    return found


def manifests_as_of(reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Document]:
    """The manifests of the configurations that were in force at a moment, without those that the API server would reject today."""
    return _as_of(reader, cluster, moment, _checked)


def configurations_before(
    reader: LakeReader, cluster: str, moment: datetime, given: tuple[Configuration, ...], replaces_all: bool
) -> tuple[Configuration, ...]:
    """The versions at a moment of the configurations that `given` names; with `replaces_all`, all of that moment.

    A configuration that did not exist then calls nothing. Raises EvidenceError where the log cannot tell.
    """
    found = _stored(reader, cluster, moment)
    names = {(each.phase.kind, each.name) for each in given}
    found.refuse(lambda left: replaces_all or (left.kind, left.name) in names)
    return tuple(each for each in found.rules if replaces_all or (each.phase.kind, each.name) in names)


def world_as_of(reader: LakeReader, cluster: str, moment: datetime) -> World:
    """The namespaces of a cluster at a moment, with their labels."""
    return load_history(reader, (), Window()).at(cluster, moment)


def _stored(reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Configuration]:
    return _as_of(reader, cluster, moment, lambda document: configuration_from_object(document.value, document.source))


def _as_of(reader: LakeReader, cluster: str, moment: datetime, read: Callable[[Document], _RuleT]) -> AsOf[_RuleT]:
    kinds = {each.resource: kind for each, kind in zip(RESOURCES, KINDS, strict=True)}
    return rules_as_of(reader, kinds, cluster, moment, CONFIGURATION_DELAY, read)


def _checked(document: Document) -> Document:
    configuration_from_document(document)
    return document
