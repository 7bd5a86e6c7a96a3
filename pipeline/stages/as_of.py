"""Objects of configuration that were in force in a cluster at a moment, as the log and snapshots show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ingest.errors import EvidenceError
from queries import LakeReader

from ..admission.policies.model import ParamKind
from ..history.in_force import in_force
from ..history.snapshots import ResourceName
from ..manifests.documents import Document
from ..replay.past import load_history
from ..request import Unknown
from ..runs.window import Window


def documents_as_of(
    reader: LakeReader, kinds: Mapping[str, ParamKind], cluster: str, moment: datetime, delay: timedelta
) -> list[Document]:
    """The objects of some kinds at a moment, by kind and name. `kinds` leads from the name of a resource to its kind.

    A change takes up to `delay` to be in force; of two versions in flight this is the older one. Raises EvidenceError where the log
    does not tell what an object was.
    """
    history = load_history(reader, list(kinds.values()), Window())
    documents = []
    for resource, kind in kinds.items():
        for key in sorted(history.keys(cluster, ResourceName(kind.api_version.partition("/")[0], resource))):
            found = in_force(history, key, moment, delay)
            if found is None:
                continue
            if isinstance(found.object, Unknown):
                raise EvidenceError(
                    f"{kind.kind} {key.name} of cluster {cluster!r} at {moment.isoformat()} is unknown: {found.object.reason}",
                    f"give another time, or ingest a snapshot of {resource}",
                )
            if found.object.value is not None:
                head = {"apiVersion": kind.api_version, "kind": kind.kind}
                documents.append(Document({**head, **found.object.value}, f"the log: {kind.kind} {key.name}"))
    return documents
