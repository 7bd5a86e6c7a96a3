"""Templates become answers: autoescaped, under a policy that lets the browser run and load only our own two files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from functools import cache, partial
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ingest.counted import counted
from pipeline.readiness.words import day, percent
from pipeline.report.cells import visible_value
from pipeline.report.markup import coded, soft, user
from pipeline.report.of_stage import words_of
from pipeline.report.outcomes import next_step
from pipeline.report.words import exemptions_title, policy_name, workload

from ..ask.fleet_reads import has_fleets
from ..printing.explained import grade_words
from .explained import value_text
from .manifest import source_lines
from .selection import SPANS

# No inline script or style, no other origin, no frame: any text in an event stays text.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Without any referrer, a browser would send the origin `null` with a form of our own page.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC_TYPES = {
    "hindcast.css": "text/css; charset=utf-8",
    "hindcast.js": "text/javascript; charset=utf-8",
    "hindcast.svg": "image/svg+xml",
}
# The filters that a reader takes along from page to page.
KEPT_EVERYWHERE = ("since", "until", "namespace", "cluster")
_SECTIONS = (("/", "Decisions"), ("/try", "Try a change"), ("/violations", "Recorded"), ("/evidence", "Evidence"))
_REFUSED = (401, 403)
# Headings as our templates write them; those for screen readers only do not name a section of the page.
_HEADING = re.compile(r'<h2 id="([^"]+?)(?:-title)?">(.*?)</h2>', re.DOTALL)
_HIDDEN = re.compile(r'<a class="anchor".*?</a>', re.DOTALL)
# Each status with its sign and the class of its colour; the sign and the word carry the meaning.
_STATUSES = {
    "READY": ("✓", "good"),
    "READY WITH EXEMPTIONS": ("✓", "unsure"),
    "NOT READY": ("✕", "bad"),
    "INSUFFICIENT EVIDENCE": ("?", "unsure"),
    "admit": ("✓", "good"),
    "deny": ("✕", "bad"),
    "error": ("!", "bad"),
    "unknown": ("?", "unsure"),
    "lost": ("✕", "bad"),
    "possible": ("?", "unsure"),
    "done": ("✓", "good"),
    "failed": ("✕", "bad"),
}


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """One page. Every value is escaped; caches may not keep the answer, because it shows users' requests.

    Its links keep the same filters: `kept(path)` is an address with the filters that hold on every page.
    """
    # A page of one request names the cluster of that request, which is not a filter that the reader chose.
    is_of_one = request.url.path.endswith("/request")
    names = [name for name in KEPT_EVERYWHERE if status == 200 and not (is_of_one and name == "cluster")]
    filters = {name: request.query_params.get(name) for name in names}
    shared = {
        "path": request.url.path,
        "static": static_address,
        "now": datetime.now(UTC),
        "kept": partial(kept_address, filters),
        "sections": sections_of(request, status),
        "shared_names": getattr(request.state, "shared_names", ()),
    }
    text = _environment().get_template(template).render(**shared, **values)
    return HTMLResponse(text, status, {**SECURITY_HEADERS, "Cache-Control": "no-store"})


def sections_of(request: Request, status: int) -> list[tuple[str, str]]:
    """The links of the navigation, as (path, name). A stranger who was refused does not learn whether the lake has a fleet."""
    asker = getattr(request.app.state, "asker", None)
    is_fleet = status not in _REFUSED and asker is not None and has_fleets(asker)
    return [*_SECTIONS, *([("/fleets", "Fleet")] if is_fleet else [])]


def kept_address(filters: Mapping[str, object], path: str, **values: object) -> str:
    """An address with filters, except those that it sets itself."""
    return address(path, **{**filters, **values})


def static_file(name: str) -> Response:
    """One of the two static files. The address holds a digest of the content, so a browser may keep it for good."""
    headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_static(name), media_type=STATIC_TYPES[name], headers=headers)


def static_address(name: str) -> str:
    """The address of a static file, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256(_static(name)).hexdigest()[:12]}"


def address(path: str, **values: object) -> str:
    """A path with a query; values that are None or empty are left out, lists are repeated."""
    pairs = [(name, entry) for name, value in values.items() for entry in (value if isinstance(value, (list, tuple)) else [value])]
    query = urlencode([(name, _text(entry)) for name, entry in pairs if entry is not None and entry != ""])
    return f"{path}?{query}" if query else path


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


@cache
def _static(name: str) -> bytes:
    return files("api.pages").joinpath("static", name).read_bytes()


def compile_templates() -> None:
    """Compile every template; they stay in memory."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("api.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    environment.filters.update(
        day=time_of_day,
        date=short_date,
        soft=soft,
        user=user,
        place=place,
        contents=contents,
        coded=coded,
        percent=percent,
        policy_name=policy_name,
        of_stage=words_of,
        next_step=next_step,
        exemptions_title=exemptions_title,
        workload=workload,
        thousands=thousands,
        cell=cell,
        ago=ago,
        moment=time_of_moment,
        duration=duration,
        yaml_lines=source_lines,
        verdict_sign=lambda status: _STATUSES.get(str(status), ("–", ""))[0],
        verdict_class=lambda status: _STATUSES.get(str(status), ("–", ""))[1],
        counted=counted,
        grade_words=lambda grade: grade_words(grade or ""),
        share_of_limit=lambda cost, limit: f"{100 * cost / limit:.2g} %" if cost < limit else f"{100 * cost / limit:,.0f} %",
        value_text=lambda item: value_text(item.state, item.value),
    )
    environment.globals.update(
        address=address,
        days_between=days_between,
        spans=SPANS,
        cluster_choices=cluster_choices,
        keep_given=keep_given,
    )
    return environment


def cluster_choices(clusters: Iterable[str], chosen: str) -> list[tuple[str, str]]:
    """The options of a field; a chosen cluster stays chosen even if the lake does not have it."""
    names = dict.fromkeys([*clusters, *([chosen] if chosen else [])])
    return [("", "all"), *((name, name) for name in names)]


def keep_given(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The parts of the address that a form keeps in addition to its own fields."""
    return {name: value for name, value in pairs if value}


def thousands(count: int | None) -> str:
    """`12,775`, and a dash for an unknown number."""
    return "–" if count is None else f"{count:,}"


def cell(count: int) -> Markup:
    """A figure in a table, where many figures are zero and the others should stand out."""
    return escape(f"{count:,}") if count else Markup('<span class="soft">0</span>')


def days_between(first: datetime | date | None, last: datetime | date | None) -> str:
    """`from 1 Nov 2026 to 21 Nov 2026`, or `on 21 Nov 2026` where both are one day."""
    ends = short_date(first), short_date(last)
    return f"on {ends[0]}" if ends[0] == ends[1] else f"from {ends[0]} to {ends[1]}"


def short_date(moment: datetime | date | None) -> str:
    """`21 Nov 2026`."""
    return "no time" if moment is None else f"{moment.day} {moment:%b %Y}"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, in the largest whole unit; times ahead of the clock are marked as such."""
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if seconds < 0:
        return "in the future by this clock"
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{counted(int(seconds // length), noun)} ago"
    return "less than a minute ago"


def time_of_day(ts: datetime | None) -> Markup:
    """`2026-11-21 03:24 UTC`, never broken over two lines."""
    return _time(ts, day(ts))


def time_of_moment(ts: datetime) -> Markup:
    """`2026-11-21 03:24:15.866 UTC`: for one request, to the millisecond."""
    at = ts.astimezone(UTC)
    text = f"{at:%Y-%m-%d} {at:%H:%M:%S}.{ts.microsecond // 1000:03}\N{NO-BREAK SPACE}UTC"
    return Markup('<time class="moment" datetime="{}">{}</time>').format(ts.isoformat(), text)


def _time(ts: datetime | None, text: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(ts.isoformat(), text) if ts is not None else escape(text)


def contents(body: Markup) -> list[tuple[str, str]]:
    """The sections of a page, as (id, title) of their headings, in order."""
    found = [(match[1], " ".join(striptags(match[2]).split())) for match in _HEADING.finditer(body)]
    return [(name, title) for name, title in found if title]


def striptags(text: str) -> str:
    """The text of Hindcast's own markup."""
    return str(Markup(_HIDDEN.sub("", text)).striptags())


def place(row: Mapping[str, Any]) -> str:
    """`default/web-1`, `web-1` of a cluster-scoped object, `in default` without a name."""
    namespace, name = row["namespace"], row["name"]
    if not name:
        return f"in {namespace}" if namespace else ""
    return f"{namespace}/{name}" if namespace else str(name)


def duration(seconds: float) -> str:
    """`3.2 s`, `12 min`, `5.1 h` or `2.3 days`: three digits at most."""
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
