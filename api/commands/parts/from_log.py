"""The option `--from-log`: it takes the manifests that a cluster had in force at a moment from its log."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import EvidenceError

if TYPE_CHECKING:
    from api.given import Texts
    from pipeline.stages.stage import Stage


def texts_from_log(own: Context, stage: Stage[Any, Any], moment: str, cluster: str | None) -> Texts:
    """The manifests of a stage as if they were one file; none if a replay of them takes its rules from the log itself.

    The end of the command names objects of that time that are unknown. Raises EvidenceError where all are.
    """
    from pipeline.manifests.writing import to_yaml
    from queries import open_lake

    from ..policies import moment_of

    with closing(open_lake(own.lake)) as reader:
        name, at = moment_of(reader, moment, cluster)
        found = stage.readiness.recorded(reader, name, at)
    if found is None:
        return []
    if not found.rules:
        words = (
            f"neither log nor snapshots tell of a {stage.readiness.words.thing} in force in cluster {name!r} at {at.isoformat()}"
        )
        raise EvidenceError(
            words + found.words_of_left(),
            "give a later time, ingest a snapshot of them, or give files with -f",
        )
    own.leave_out(found.left)
    return [(f"the log of {name} at {at.isoformat()}", to_yaml(each.value for each in found.rules))]
