"""The one shape in which every route reports an error.

{"error": {"code": "disk_full", "message": "...", "hint": "..."}}

Commands raise the same errors (`errors`), and need no web framework for that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from ingest.errors import HindcastError

from .errors import BusyError, classify

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": "string"}},
        }
    },
}
# The OpenAPI description of errors.
DESCRIBED: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "content": {"application/json": {"schema": _ERROR_SCHEMA}}}
    for status, description in (
        (400, "the input cannot be used"),
        (401, "no known token was shown"),
        (403, "the caller may not do this"),
        (404, "there is no such thing"),
        (406, "rows are not offered in any wanted format"),
        (409, "the lake has not enough evidence, or the thing to remove is in use"),
        (413, "the body is too large"),
        (415, "the body is of a type that is not taken"),
        (422, "a parameter is not what it should be, or the answer would cost too much"),
        (429, "too much is asked at one time"),
        (503, "the lake cannot be read"),
    )
}
Answer = Callable[[Request, Exception], Coroutine[Any, Any, JSONResponse]]
Shaped = Callable[[Request, Response], Response]

_RETRY_AFTER_SECONDS = 5
_FOUND_SHOWN = 80

_log = structlog.get_logger("hindcast.http")


def error_response(status: int, code: str, message: str, hint: str = "", *, retry_after_seconds: int | None = None) -> JSONResponse:
    """An error in the one shape; `retry_after_seconds` becomes the header that an API server honours."""
    headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status, headers)


def install(app: FastAPI, shaped: Shaped | None = None) -> None:
    """Give every route of an application the one error shape. `shaped` may change it to suit the client."""

    def answering(answer: Answer) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
        async def answer_shaped(request: Request, error: Exception) -> Response:
            response = await answer(request, error)
            return response if shaped is None else shaped(request, response)

        return answer_shaped

    app.add_exception_handler(HindcastError, answering(_ours))
    app.add_exception_handler(HTTPException, answering(_of_http))
    app.add_exception_handler(RequestValidationError, answering(_of_parameters))
    app.add_exception_handler(Exception, answering(_unforeseen))


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HindcastError)
    code, status = classify(error)
    retry_after_seconds = _RETRY_AFTER_SECONDS if isinstance(error, BusyError) else None
    return error_response(status, code, error.message, error.hint, retry_after_seconds=retry_after_seconds)


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, HTTPStatus(error.status_code).name.lower(), str(error.detail))
    response.headers.update(error.headers or {})
    return response


async def _of_parameters(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    found = ascii(first.get("input"))[:_FOUND_SHOWN]
    return error_response(
        422, "bad_parameter", f"{where}: {first['msg']}; found {found}", "the OpenAPI description lists the accepted values"
    )


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    # The log has the details under the request's id; the answer shows nothing internal.
    _log.error("unforeseen", path=request.url.path, exc_info=error)
    return error_response(500, "internal", "something went wrong here", "look for this request's id in the server's log")
