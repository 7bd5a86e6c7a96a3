"""Makes the redactor, which takes credentials out of events before they are stored, for the sink and for files alike."""

from __future__ import annotations

from typing import Literal

import structlog

from ingest.redaction.key import load_or_create_key
from ingest.redaction.redact import Redactor

from .settings import Settings

_log = structlog.get_logger("hindcast.server")


def redactor_of(settings: Settings) -> Redactor | None:
    """The redactor that the settings ask for; None if they turn redaction off."""
    if not settings.redact:
        _log.warning("redaction_is_off", hint="bodies of Secrets and tokens in URIs are written to the lake as they arrive")
        return None
    key = load_or_create_key(settings.lake / "redaction.key") if settings.redact_mode == "hash" else b""
    mode: Literal["drop", "hash"] = "hash" if settings.redact_mode == "hash" else "drop"
    return Redactor(settings.redact_resources, paths=settings.redact_paths, mode=mode, key=key)
