"""Metrics of an API server, from a file that was saved or from the server itself, with limits of time and size."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ingest.errors import InputError
from ingest.server.metrics import ServerMetrics, parse_server_metrics, read_server_metrics

from ..settings import is_loopback

_SECONDS_MAX = 30.0
_SILENT_SECONDS_MAX = 10.0
_BYTES_MAX = 64 * 1024 * 1024
_BLOCK_BYTES = 256 * 1024


def server_metrics(where: str, token_file: Path | None = None, authority: Path | None = None) -> ServerMetrics:
    """The counters of one API server. `where` is a file, or the http or https URL of its /metrics.

    The token is read from a file, so that no list of processes shows it; `authority` signed the server's certificate. Raises
    InputError when these metrics are not there.
    """
    parts = urlsplit(where)
    if not _is_url(where):
        return read_server_metrics(Path(where))
    if token_file is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InputError(f"--metrics: {where}: without TLS anybody on the way could read the token", "give an https URL")
    try:
        return parse_server_metrics(_fetched(where, token_file, authority), where, time.time())
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(f"--metrics: {where}: {error}", "save `kubectl get --raw /metrics`, and give the file") from None


def refuse_unused(places: Sequence[str], token_file: Path | None, authority: Path | None) -> None:
    """Raise InputError for a token or an authority without a URL among the places of metrics that would use it."""
    if any(_is_url(where) for where in places):
        return
    found = f"--metrics gives {', '.join(places)}, which is a file" if places else "there is no --metrics"
    for option, value in (("--metrics-token-file", token_file), ("--metrics-ca", authority)):
        if value is not None:
            raise InputError(f"{option}: found {value}, but {found}", "leave it out, or give the URL of an API server's /metrics")


def _is_url(where: str) -> bool:
    return urlsplit(where).scheme in ("http", "https")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the token to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _fetched(url: str, token_file: Path | None, authority: Path | None) -> str:
    request = urllib.request.Request(url)
    if token_file is not None:
        request.add_unredirected_header("Authorization", f"Bearer {token_file.read_text(encoding='utf-8').strip()}")
    context = ssl.create_default_context(cafile=authority)
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
    deadline = time.monotonic() + _SECONDS_MAX
    body = bytearray()
    with opener.open(request, timeout=_SILENT_SECONDS_MAX) as response:
        while block := response.read1(_BLOCK_BYTES):
            body += block
            if len(body) > _BYTES_MAX:
                raise ValueError(f"it answers more than {_BYTES_MAX} bytes")
            if time.monotonic() > deadline:
                raise ValueError(f"its answer takes longer than {_SECONDS_MAX:.0f} s")
    return body.decode("utf-8")
