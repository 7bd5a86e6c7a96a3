"""Names that come with a lake: somebody may hand over a lake, so no name in it may lead out of it.

Files that the manifest or a published table names are read, merged and deleted. So a name is a plain path below the lake, or below
the location of the table, and no link leads from there to another place. Everything else is refused, together with the lake.
"""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from .errors import LakeError

HINT = "do not use this lake: ask who gave it to you, or restore it from a backup"
# No part of a name that Hindcast makes has other characters; DuckDB expands some of those.
_PART = re.compile(r"(?!\.{1,2}$)[0-9A-Za-z_.=-]+")


class ForeignNameError(LakeError):
    """A name of a lake leads out of it, or to something that is not a file. The whole lake is refused."""


def inside(name: object, place: str) -> str:
    """A name below a lake, as it was given. Raises ForeignNameError for one that could lead anywhere else; `place` says where it
    stands."""
    if isinstance(name, str) and all(_PART.fullmatch(part) for part in name.split("/")):
        return name
    raise ForeignNameError(f"{place}: {ascii(name)[:100]} is not the name of a file in this lake", HINT)


def inside_location(url: str, location: str) -> str:
    """A URL or path of a published table, as it was given. Raises ForeignNameError for one that is not below its location."""
    root = location.rstrip("/") + "/"
    if not url.startswith(root):
        raise ForeignNameError(f"{location}: the table names {ascii(url)[:200]}, which is not in it", HINT)
    below = inside(url.removeprefix(root), location)
    if location.startswith(("/", "file://")):
        folder = Path(location.removeprefix("file://"))
        _refuse_link(folder / below, os.path.realpath(folder))
    return url


def refuse_links(folder: Path) -> None:
    """Raise ForeignNameError if a link in a lake leads out of it, or if the lake holds something to wait for, such as a pipe.

    It lists all folders and opens no file.
    """
    root, left = os.path.realpath(folder), [folder]
    while left:
        try:
            entries = [*os.scandir(left.pop())]
        except OSError:
            continue  # it is gone or cannot be read; then nothing in it is used either
        for entry in entries:
            if entry.is_symlink():
                _refuse_link(Path(entry.path), root)
            elif entry.is_dir():
                left.append(Path(entry.path))
            elif not entry.is_file():
                _refuse_special(Path(entry.path))


@lru_cache(maxsize=64)
def _looked_at(folder: str, device: int, number: int) -> None:
    refuse_links(Path(folder))


def refuse_links_once(folder: Path) -> None:
    """As refuse_links, once in the life of a process: for those who look often."""
    try:
        found = folder.stat()
    except OSError:
        return
    _looked_at(os.path.realpath(folder), found.st_dev, found.st_ino)


def _refuse_link(path: Path, root: str) -> None:
    target = os.path.realpath(path)
    if target != root and not target.startswith(root.rstrip("/") + "/"):
        raise ForeignNameError(f"{path}: leads out of {root}, to {target}", HINT)
    _refuse_special(Path(target))


def _refuse_special(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise ForeignNameError(f"{path}: is not a regular file", HINT)
