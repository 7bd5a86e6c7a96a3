"""What a publication removes: snapshots that no reader needs, and the objects that no remaining snapshot refers to.

pyiceberg removes neither data nor metadata files. An object goes if it is older than the time that readers have, if no snapshot or
version of the metadata refers to it, and if the lake does not list it: a second publisher may be about to list it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime

from pyarrow import fs
from pyiceberg.table import Table

from ingest.lake import Lake

from .catalogs import CONFLICTS, asking
from .target import Target, path_of, reaching

_EXPIRED_AT_ONCE = 20
# The files that Iceberg and this package write; others in the folder are not ours to delete.
_OURS = re.compile(r".*(\.parquet|\.parquet\.[0-9a-f-]+\.tmp|\.avro|\.metadata\.json)")


def remove_unused(lake: Lake, target: Target, table: Table, now_ts: float, before_ts: float) -> int:
    """Expire the snapshots before a time, except for the current one, and delete unused objects; times are seconds since the epoch.

    Returns how many objects were deleted. This reads the lists of all snapshots, so it waits until there are several to expire, or
    until one is twice as old as it has to be. With both times equal it does not wait. Raises LakeError.
    """
    current = table.current_snapshot()
    old = [each for each in table.snapshots() if current is not None and each.snapshot_id != current.snapshot_id]
    old = [each for each in old if each.timestamp_ms < before_ts * 1000]
    is_due = len(old) >= _EXPIRED_AT_ONCE or any(each.timestamp_ms <= (2 * before_ts - now_ts) * 1000 for each in old)
    if not is_due and before_ts < now_ts:
        return 0
    _expire(table, before_ts)
    with asking(table.location()), reaching(table.location()):
        try:
            referred = _referred(table)
        except FileNotFoundError:  # another publisher has just removed a snapshot
            table.refresh()
            referred = _referred(table)
    listed = {path.rpartition("/")[2].removesuffix(".parquet") for path in lake.manifest.listed()}
    filesystem = target.filesystem()
    deleted = 0
    with reaching(table.location()):
        selector = fs.FileSelector(path_of(table.location()), allow_not_found=True, recursive=True)
        for info in filesystem.get_file_info(selector):
            if info.type != fs.FileType.File or not _OURS.fullmatch(info.path) or info.path in referred:
                continue
            stem = info.base_name.partition(".")[0].partition("-")[0]
            if info.mtime is not None and info.mtime.timestamp() < before_ts and stem not in listed:
                with suppress(FileNotFoundError):
                    filesystem.delete_file(info.path)
                    deleted += 1
    return deleted


def _expire(table: Table, before_ts: float) -> None:
    """Forget snapshots before a time. If another publisher commits at the same time, a later publication does it."""
    with asking(table.location()), reaching(table.location()):
        with suppress(*CONFLICTS):
            table.maintenance.expire_snapshots().older_than(datetime.fromtimestamp(before_ts, UTC)).commit()
        table.refresh()


def _referred(table: Table) -> set[str]:
    """The paths of all objects that a snapshot or a version of the metadata refers to."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)}
    return {path_of(url) for url in found}
