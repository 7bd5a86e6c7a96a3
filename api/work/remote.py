"""The client of a `hindcast serve` elsewhere: a command orders the work there, waits for it, and gets the answer."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from ingest.errors import EvidenceError, HindcastError, InputError

from ..context import Context, Step
from ..settings import is_loopback
from .gating import GateAnswer, GateQuestion

TOKEN_VARIABLE = "HINDCAST_TOKEN"
_GATES = "/api/v1/gates"
_REPLAYS = "/api/v1/replays"
_SILENT_SECONDS_MAX = 60.0
# A busy server may need longer to read the manifests of a gate before it answers: see jobs.CheckTime.
_READING_SECONDS_MAX = 360.0
_PAUSE_SECONDS = 1.0
# How long a server may be away while it works: its query process may restart, or a proxy may lose a connection.
_AWAY_SECONDS_MAX = 60.0
_ANSWER_BYTES_MAX = 256 * 1024 * 1024
_SHOWN_MAX = 300
_OVER = ("finished", "failed", "cancelled")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the token to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class _AwayError(HindcastError):
    """The server could not be reached, or will answer later."""


@dataclass(frozen=True)
class Server:
    """The query port of a `hindcast serve`."""

    url: str
    token: str | None
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, url: str, token_file: Path | None, authority: Path | None, environment: Mapping[str, str]) -> Self:
        """Raises InputError for a URL, a token or a certificate that cannot be used."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--server: {url!r} is not a URL", "give the address of the pages, as https://hindcast.example:7444")
        token = _token(token_file, environment)
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InputError(
                f"--server: {url}: without TLS everybody on the way could read the token",
                "serve with --tls-certificate, and use https",
            )
        try:
            tls = ssl.create_default_context(cafile=authority) if parts.scheme == "https" else None
        except OSError as error:
            raise InputError(f"--server-ca: {authority}: {error.strerror or error}", "give a PEM file of certificates") from None
        return cls(url.rstrip("/"), token, tls)

    def answer(self, own: Context, question: GateQuestion) -> GateAnswer:
        """Order a gate, wait for it with progress, and return its answer. An interruption cancels it.

        Raises EvidenceError where the lake lacks evidence, and InputError for every other refusal.
        """
        job = self._ordered(question)
        try:
            with own.progress("the server replays") as step:
                job = self._finished(job, step)
        except BaseException:
            self._cancel(job)
            raise
        if job["state"] != "finished":
            raise _refusal(job.get("error") or {"message": f"the gate was {job['state']} on the server"}, self.url)
        return GateAnswer.from_json(self._asked("GET", f"{_GATES}/{job['job_id']}"))

    def _ordered(self, question: GateQuestion) -> dict[str, Any]:
        try:
            return _document(self._asked("POST", _GATES, question.to_json()), self.url)
        except _AwayError as error:
            raise InputError(error.message, error.hint) from None

    def _finished(self, job: dict[str, Any], step: Step) -> dict[str, Any]:
        """The job once it is over. The client retries while a server is away for a moment."""
        path, last = f"{_REPLAYS}/{job['job_id']}", time.monotonic()
        while job["state"] not in _OVER:
            time.sleep(_PAUSE_SECONDS)
            try:
                job = _document(self._asked("GET", path), self.url)
            except _AwayError as error:
                if time.monotonic() - last > _AWAY_SECONDS_MAX:
                    raise InputError(error.message, "what the server finished is kept: run the command again to go on") from None
                continue
            last = time.monotonic()
            step(int(job["done"]), int(job["planned"]))
        return job

    def _cancel(self, job: dict[str, Any]) -> None:
        """Ask the server to stop. If it does not answer, it goes on, and keeps the finished parts."""
        try:
            self._asked("DELETE", f"{_REPLAYS}/{job['job_id']}")
        except HindcastError:
            return

    def _asked(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of an answer. Raises _AwayError if the same request may work later, and another HindcastError for a refusal."""
        request = urllib.request.Request(self.url + path, data=body, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if self.tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self.tls))
        seconds = _SILENT_SECONDS_MAX if body is None else _READING_SECONDS_MAX
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=seconds) as response:
                found: bytes = response.read(_ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(self.url, error.code, error.read(_ANSWER_BYTES_MAX), path) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise InputError(
                    f"--server: {self.url}: the certificate cannot be verified: {reason.verify_message}",
                    "give the authority that signed it with --server-ca",
                ) from None
            raise _AwayError(
                f"--server: {self.url} cannot be reached: {getattr(reason, 'strerror', None) or reason}",
                "give the address and port of the pages (--query-port of `hindcast serve`, 7444 by default)",
            ) from None
        if len(found) > _ANSWER_BYTES_MAX:
            raise InputError(f"--server: {self.url} answers more than {_ANSWER_BYTES_MAX:,} bytes", "give fewer policies at a time")
        return found


def _token(token_file: Path | None, environment: Mapping[str, str]) -> str | None:
    if token_file is None:
        return environment.get(TOKEN_VARIABLE, "").strip() or None
    try:
        found = token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file: {token_file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not found or not found.isascii() or any(character.isspace() for character in found):
        raise InputError(f"--token-file: {token_file} does not hold one token", "write the token alone into the file")
    return found


def _document(body: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"job_id", "state", "done", "planned"} <= found.keys():
        raise InputError(f"--server: {url} is not the query port of a `hindcast serve`", "give the address of its pages")
    return found


def _refused(url: str, status: int, body: bytes, path: str) -> HindcastError:
    """The text of an answer that is not a success, with the next step for the user of the command."""
    try:
        error = json.loads(body)["error"]
        told = {name: str(error.get(name, "")) for name in ("code", "message", "hint")}
    except (ValueError, KeyError, TypeError, AttributeError):
        told = {}
    said = f": {told['message'][:_SHOWN_MAX]}" if told.get("message") else ""
    match status:
        case 401:
            return InputError(
                f"--server: {url} does not know who asks (401){said}",
                f"set {TOKEN_VARIABLE} or --token-file to a token that the server's --query-tokens lists",
            )
        case 403:
            return InputError(f"--server: {url} does not allow this reader to ask{said}", told.get("hint", ""))
        case 404 | 405 if path == _GATES:
            return InputError(
                f"--server: {url} cannot answer a gate ({status})",
                "give the address of the pages of a `hindcast serve` of this version: an older one, and the sink's port, cannot",
            )
        case 429 | 502 | 503 | 504:
            return _AwayError(f"--server: {url} cannot answer now ({status}){said}", "try again in a minute")
    if 300 <= status < 400:
        return InputError(f"--server: {url} sends elsewhere ({status})", "give the address to which it sends")
    if not told:
        return InputError(f"--server: {url} answers with status {status}", "look into the server's log")
    return _refusal(told, url)


def _refusal(error: Mapping[str, Any], url: str) -> HindcastError:
    """The error of a job or an answer, with the exit code that the same error has without a server."""
    kind = EvidenceError if error.get("code") == "not_enough_evidence" else InputError
    code = error.get("code")
    where = "" if code in ("bad_input", "not_enough_evidence") else f"--server: {url}: "
    return kind(f"{where}{error.get('message', '')}", str(error.get("hint", "")))
