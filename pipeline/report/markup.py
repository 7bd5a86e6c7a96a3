"""Names and sentences as HTML: names may break at some characters, and words between backticks are code."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from .cells import visible

_PIECES = re.compile(r"[^:/@._…-]*[:/@._…-]*")
_SERVICE_ACCOUNT = "system:serviceaccount:"
_USER_MAX = 40


def coded(text: str) -> Markup:
    """A sentence of Hindcast's own with commands in backticks."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts))


def soft(text: str | None) -> Markup:
    """A name that may be broken after its punctuation, so that tables need not break it inside a word; empty without a name."""
    return Markup("<wbr>").join(_PIECES.findall(text or ""))


def user(name: str | None) -> Markup:
    """A user on one line: a service account as `sa namespace:name`, a long name without its middle. The whole name is the title."""
    whole = visible(name or "")
    short = whole.removeprefix(_SERVICE_ACCOUNT)
    kind = Markup('<span class="soft">sa</span> ') if short != whole else ""
    if len(short) > _USER_MAX:
        half = (_USER_MAX - 1) // 2
        short = f"{short[:half]}…{short[-half:]}"
    if short == whole:
        return Markup('<span class="user">{}</span>').format(soft(whole))
    return Markup('<span class="user" title="{}">{}{}</span>').format(whole, kind, soft(short))
