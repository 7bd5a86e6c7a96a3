"""Published lakes, for commands: `--lake s3://BUCKET/LAKE`. Their part needs an extra, which other commands do without."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import xxhash

from ingest.errors import HindcastError, InputError
from ingest.lake import Lake
from ingest.manifest import PUBLISHED
from ingest.user_cache import user_cache

_NEEDED = ("pyiceberg", "fsspec", "sqlalchemy")


def need_extra() -> None:
    """Raise InputError, with the next step, if the packages for published lakes are not installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"published lakes need packages that are not installed: {', '.join(missing)}",
            "install the extra: pip install 'kube-hindcast[object-storage]'",
        )


def local_lake(lake: Path) -> Path:
    """The folder for `--lake`: the given one, or for a URL the folder that shows this published lake as it is now.

    Raises InputError for a URL that names no lake, and LakeError for a lake that cannot be read.
    """
    if (url := url_of(lake)) is None:
        return lake
    need_extra()
    from ingest.published.reading import show
    from ingest.published.target import Target

    target = Target.parse(url)
    folder = cache_folder() / xxhash.xxh3_64_hexdigest(target.url.encode())
    show(target, folder)
    return folder


def url_of(lake: Path) -> str | None:
    """The URL that a value of `--lake` is; None for a folder."""
    scheme, _, place = str(lake).partition(":/")
    if scheme not in ("s3", "file") or not place:
        return None
    return f"s3://{place.lstrip('/')}" if scheme == "s3" else f"file:///{place.lstrip('/')}"


def cache_folder() -> Path:
    """Where this user's runs over published lakes are kept (see ingest/user_cache.py)."""
    return user_cache() / "published"


def published_url(lake: Path) -> str | None:
    """The URL of the published lake that a folder shows; None for a lake of its own, or without a lake."""
    try:
        with closing(Lake.open(lake)) as opened:
            return opened.manifest.prop(PUBLISHED)
    except HindcastError:
        return None
