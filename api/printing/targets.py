"""Checks the files and folders that a command will write, before the work begins and not after it."""

from __future__ import annotations

import os
from pathlib import Path

from ingest.errors import InputError


def check_file(option: str, path: Path, *, makes_folders: bool = False) -> None:
    """Raise InputError if a file cannot be written: its folder is missing or read-only, or a folder has its name.

    `makes_folders`: the command makes missing folders.
    """
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder, wanted a file", f"give a name in it, such as {path / 'report.html'}")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError(f"{option}: {path} cannot be written: its permissions forbid it", "choose another name")
        return
    folder = path.parent
    if makes_folders:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
    if not folder.is_dir():
        found = "is not a folder" if folder.exists() else "does not exist"
        advice = "choose another name" if folder.exists() else f"make it first: mkdir -p {folder}"
        raise InputError(f"{option}: {path} cannot be written: the folder {folder} {found}", advice)
    _check_writable(option, path, folder)


def check_folder(option: str, path: Path) -> None:
    """Raise InputError if a folder cannot be made or filled. Writing it makes missing parent folders."""
    if path.is_dir():
        _check_writable(option, path, path)
        return
    above = path
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise InputError(f"{option}: {path} cannot be written: {above} is not a folder", "choose another name")
    _check_writable(option, path, above)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{option}: {path} cannot be written: the permissions of {folder} forbid it", "choose another folder")
