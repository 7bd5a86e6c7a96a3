"""The options `--from-log` and `--stage`: they take the manifests that a cluster had in force at a moment from its log."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum

from api.context import Context
from api.given import Texts
from ingest.errors import EvidenceError
from pipeline.manifests.writing import to_yaml
from pipeline.stages.mutating.as_of import policies_as_of
from pipeline.stages.webhooks.as_of import manifests_as_of
from queries import open_lake

from ..policies import moment_of


class StageOfLog(StrEnum):
    """The stages whose manifests the log records, and that a replay can take from there."""

    VALIDATING = "validating"
    MUTATING = "mutating"
    WEBHOOKS = "webhooks"


_READ = {StageOfLog.MUTATING: policies_as_of, StageOfLog.WEBHOOKS: manifests_as_of}
_WORDS = {StageOfLog.MUTATING: "mutating policy", StageOfLog.WEBHOOKS: "webhook configuration"}


def texts_from_log(own: Context, stage: StageOfLog, moment: str, cluster: str | None) -> Texts:
    """The manifests of a stage as if they were one file; none for validating policies, which have a flow of their own.

    The end of the command names objects of that time that are unknown. Raises EvidenceError where all are.
    """
    read = _READ.get(stage)
    if read is None:
        return []
    with closing(open_lake(own.lake)) as reader:
        name, at = moment_of(reader, moment, cluster)
        found = read(reader, name, at)
    if not found.rules:
        words = f"neither log nor snapshots tell of a {_WORDS[stage]} in force in cluster {name!r} at {at.isoformat()}"
        raise EvidenceError(
            words + found.words_of_left(),
            "give a later time, ingest a snapshot of them, or give files with -f",
        )
    own.leave_out(found.left)
    return [(f"the log of {name} at {at.isoformat()}", to_yaml(each.value for each in found.rules))]
