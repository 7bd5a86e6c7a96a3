"""The webhook configurations of a cluster as of one moment, from its log and snapshots."""

from __future__ import annotations

from datetime import datetime

from ingest.errors import EvidenceError
from queries import LakeReader

from ...manifests.documents import Document
from ...replay.past import load_history
from ...request import Unknown
from ...runs.window import Window
from ...world import World
from ..as_of import documents_as_of
from .model import Configuration
from .recorded import CONFIGURATION_DELAY, KINDS, RESOURCES, configurations_at


def configurations_as_of(reader: LakeReader, cluster: str, moment: datetime) -> tuple[Configuration, ...]:
    """The configurations that were in force at a moment. Raises EvidenceError if the log shows none, or cannot tell."""
    found = configurations_at(load_history(reader, KINDS, Window()), cluster, moment)
    if isinstance(found, Unknown):
        raise EvidenceError(f"the webhooks of cluster {cluster!r} at {moment.isoformat()} are unknown: {found.reason}")
    if not found:
        raise EvidenceError(
            f"the log shows no webhook configuration in force in cluster {cluster!r} at {moment.isoformat()}",
            "name a later time, ingest a snapshot with webhook configurations, or give files with -f",
        )
    return found


def manifests_as_of(reader: LakeReader, cluster: str, moment: datetime) -> list[Document]:
    """The manifests of the configurations that were in force at a moment. Raises EvidenceError where the log cannot tell."""
    kinds = {each.resource: kind for each, kind in zip(RESOURCES, KINDS, strict=True)}
    return documents_as_of(reader, kinds, cluster, moment, CONFIGURATION_DELAY)


def configurations_before(
    reader: LakeReader, cluster: str, moment: datetime, given: tuple[Configuration, ...], replaces_all: bool
) -> tuple[Configuration, ...]:
    """The versions at a moment of the configurations that `given` names; with `replaces_all`, all of that moment.

    A configuration that did not exist then calls nothing. Raises EvidenceError where the log cannot tell.
    """
    found = configurations_at(load_history(reader, KINDS, Window()), cluster, moment)
    if isinstance(found, Unknown):
        raise EvidenceError(f"the webhooks of cluster {cluster!r} at {moment.isoformat()} are unknown: {found.reason}")
    names = {(each.phase, each.name) for each in given}
    return tuple(each for each in found if replaces_all or (each.phase, each.name) in names)


def world_as_of(reader: LakeReader, cluster: str, moment: datetime) -> World:
    """The namespaces of a cluster at a moment, with their labels."""
    return load_history(reader, (), Window()).at(cluster, moment)
