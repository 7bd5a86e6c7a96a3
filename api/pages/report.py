"""The readiness report of a replay as one page: the same text as `report.html` of the commands."""

from __future__ import annotations

import base64
import hashlib
import re

from fastapi.responses import HTMLResponse

from pipeline.readiness.report import Report
from pipeline.report.html import to_html

from .html import SECURITY_HEADERS

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def report_page(report: Report) -> HTMLResponse:
    """The report with its own style and no script. Drawing its charts takes a second or more."""
    text = to_html(report)
    style = _STYLE.search(text)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    # The style stands in the page, so that a saved page looks the same. Its digest lets this style through, and no other.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"
    return HTMLResponse(text, headers={**SECURITY_HEADERS, "Content-Security-Policy": policy, "Cache-Control": "no-store"})
