"""The option `--from-log`: it takes the manifests that a cluster had in force at a moment from its log."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from api.context import Context
from ingest.errors import EvidenceError

if TYPE_CHECKING:
    from api.given import Given, Texts
    from pipeline.stages.stage import Stage
    from queries import LakeReader


def given_from_log(
    own: Context,
    texts: Texts,
    stage: Stage[Any, Any],
    moment: str,
    cluster: str | None,
    version: tuple[int, int],
    *,
    are_stored: bool = False,
) -> Given:
    """Given manifests over those that the log shows at a time, or without any the manifests of a stage that it shows.

    `are_stored` is as for given_of.
    Raises InputError for manifests that cannot be read, and EvidenceError where the log does not show them.
    """
    from api.given import Given, given_of
    from queries import open_lake

    from .texts import moment_of

    with closing(open_lake(own.lake)) as reader:
        name, at = moment_of(reader, moment, cluster)

        def complete(stage: Stage[Any, Any], rules: Any) -> Any:
            found = stage.readiness.with_recorded(reader, name, at, rules)
            return rules if found is None else found

        if texts:
            return given_of(texts, version, own.lake, are_stored=are_stored, complete=complete)
        rules = stage.readiness.with_recorded(reader, name, at, None)
        if rules is not None:
            return Given((), ((stage, rules),))
        return given_of(_texts_from_log(own, reader, stage, name, at))


def _texts_from_log(own: Context, reader: LakeReader, stage: Stage[Any, Any], cluster: str, moment: datetime) -> Texts:
    """The manifests of a stage as if they were one file.

    The end of the command names objects of that time that are unknown. Raises EvidenceError where all are.
    """
    from pipeline.manifests.writing import to_yaml

    found = stage.readiness.recorded(reader, cluster, moment)
    if found is None or not found.rules:
        thing, at = stage.readiness.words.thing, moment.isoformat()
        words = f"neither log nor snapshots tell of a {thing} in force in cluster {cluster!r} at {at}"
        raise EvidenceError(
            words + (found.words_of_left() if found is not None else ""),
            "give a later time, ingest a snapshot of them, or give files with -f",
        )
    own.leave_out(found.left)
    return [(f"the log of {cluster} at {moment.isoformat()}", to_yaml(each.value for each in found.rules))]
