"""Errors as pages: if a browser asks, the one error shape becomes a page."""

from __future__ import annotations

import json
from http import HTTPStatus

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from .html import page

_TITLES = {
    400: "This address has a mistake",
    401: "You need a token",
    403: "You may not do this",
    404: "Not found",
    405: "This address does not take that",
    409: "The lake cannot tell",
    422: "This cannot be answered",
    500: "Something went wrong",
    503: "The lake cannot be read",
}
_SIGN_IN = "reload this page; when the browser asks for a name and a password, enter any name, and the token as the password"
_KEPT_HEADERS = ("www-authenticate", "retry-after", "allow")
# The router's errors for unknown addresses and methods.
_UNKNOWN = {
    HTTPStatus.NOT_FOUND.phrase: ("no page has the address {path}", "the links above lead to every page"),
    HTTPStatus.METHOD_NOT_ALLOWED.phrase: ("{path} does not take {method}", "open the address without sending a form to it"),
}
_PATH_SHOWN = 200


def error_page(request: Request, status: int, message: str, hint: str = "") -> HTMLResponse:
    """An error for a person."""
    title = _TITLES.get(status, HTTPStatus(status).phrase)
    return page(request, "error.html.j2", status, title=title, message=message, hint=hint, section="")


def for_reader(request: Request, response: Response) -> Response:
    """An error in the one shape, in the client's form: a page for a browser, unchanged for a program.

    A browser names text/html in its Accept header. The read API answers programs alone, so its errors stay as they are.
    """
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return response
    error = json.loads(bytes(response.body))["error"]
    message, hint = error["message"], error["hint"]
    if message in _UNKNOWN:
        words, hint = _UNKNOWN[message]
        message = words.format(path=request.url.path[:_PATH_SHOWN], method=request.method)
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        hint = _SIGN_IN
    found = error_page(request, response.status_code, message, hint)
    found.headers.update({name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers})
    return found
