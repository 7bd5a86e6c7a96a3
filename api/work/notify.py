"""Where a watch tells news: an Alertmanager, a Slack webhook, or any other webhook.

A receiver that did not take news gets it again at the next look: each receiver gets it at least once.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ingest.errors import HindcastError, InputError

_SECONDS_MAX = 10.0
_ANSWER_BYTES_MAX = 300
# Slack cuts a text above 40,000 signs. A person reads the first lines of it.
_TEXT_MAX = 2_000
_HOW = "give alertmanager=URL, slack=URL or webhook=URL, where @FILE in place of the URL reads it from a file"


class NotTakenError(HindcastError):
    """A receiver did not take a message."""


@dataclass(frozen=True, slots=True)
class News:
    """What a watch tells: the `event` (denial or status), the policy, a sentence, and the fields of `-o json`."""

    event: str
    policy: str
    binding: str | None
    ts: str
    text: str
    fields: Mapping[str, Any]


class Form(StrEnum):
    """What a receiver expects."""

    ALERTMANAGER = "alertmanager"
    SLACK = "slack"
    WEBHOOK = "webhook"


def _alert(news: News) -> Any:
    """Alertmanager's POST /api/v2/alerts (prometheus/alertmanager api/v2/openapi.yaml): one alert, named by its labels."""
    labels = {"alertname": f"Hindcast{news.event.capitalize()}", "policy": news.policy}
    if news.binding:
        labels["binding"] = news.binding
    if "status" in news.fields:
        labels["status"] = str(news.fields["status"])
    return [{"labels": labels, "annotations": {"summary": _short(news.text)}}]


def _slack(news: News) -> Any:
    """A message of Slack, which takes three signs for its markup."""
    text = _short(news.text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _plain(news: News) -> Any:
    return {"event": news.event, **news.fields}


_BODIES: Mapping[Form, Callable[[News], Any]] = {Form.ALERTMANAGER: _alert, Form.SLACK: _slack, Form.WEBHOOK: _plain}


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _TEXT_MAX else f"{one_line[:_TEXT_MAX]}..."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the news to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where news goes. The URL of a webhook is often a secret, so that errors name its host alone."""

    form: Form
    url: str

    @classmethod
    def of(cls, text: str) -> Receiver:
        """Read FORM=URL or FORM=@FILE. Raises InputError."""
        name, equals, url = text.partition("=")
        if not equals or name not in set(Form):
            raise InputError(f"--notify: {name!r} is not a receiver", _HOW)
        if url.startswith("@"):
            try:
                url = Path(url[1:]).read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                raise InputError(f"--notify: {url[1:]} cannot be read: {error}", _HOW) from None
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
        except ValueError:
            is_url = False
        if not is_url:
            raise InputError(f"--notify: what {name} gives is not a URL", _HOW)
        if name == Form.ALERTMANAGER and not parts.path.endswith("/api/v2/alerts"):
            url = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/api/v2/alerts"))
        return cls(Form(name), url)

    def send(self, news: News) -> None:
        """Send news. Raises NotTakenError."""
        body = json.dumps(_BODIES[self.form](news)).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"}, method="POST")
        secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
        where = f"--notify: {self.form} at {urlsplit(self.url).hostname}"
        try:
            with urllib.request.build_opener(_NoRedirects, secure).open(request, timeout=_SECONDS_MAX) as answer:
                answer.read(_ANSWER_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                raise NotTakenError(f"{where} answered {error.code}", "it gets the news again at the next look") from None
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise NotTakenError(f"{where} cannot be reached: {why}", "it gets the news again at the next look") from None
