"""The clusters of a lake, as commands take them by name."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from ingest.lake import Lake
    from queries.catalog import LakeFiles


def known_clusters(own: Context) -> list[str]:
    """The names of the clusters that have events, in their order. Raises LakeError."""
    from ingest.lake import Lake

    with closing(Lake.open(own.lake)) as lake:
        return _known(lake)


def cluster_files(own: Context, cluster: str) -> LakeFiles | None:
    """The files of one cluster of the lake; None for those of all, without a name. Raises InputError for an unknown name."""
    from ingest.lake import Lake
    from queries.lake import files_of

    if not cluster:
        return None
    with closing(Lake.open(own.lake)) as lake:
        found, known = files_of(lake, cluster), _known(lake)
    if cluster not in known:
        raise InputError(f"--cluster: the lake has no events of {cluster!r}", f"it has {', '.join(known) or 'no events at all'}")
    return found


def _known(lake: Lake) -> list[str]:
    return sorted({file.cluster for file in lake.manifest.files("events")})
