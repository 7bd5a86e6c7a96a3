"""The one shape in which every route reports an error, and the one table from exception to status.

{"error": {"code": "backlog_full", "message": "...", "hint": "..."}}
"""

from __future__ import annotations

from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ingest.errors import EvidenceError, HindcastError, InputError, LakeError

# The first class that fits counts. The exit code of the command line is `HindcastError.exit_code`; both stand side by side here.
STATUS_OF: tuple[tuple[type[HindcastError], str, int], ...] = (
    (InputError, "bad_input", 400),  # exit code 2
    (EvidenceError, "not_enough_evidence", 409),  # exit code 3
    (LakeError, "lake_unavailable", 503),  # exit code 2
    (HindcastError, "error", 400),  # exit code 2
)

_log = structlog.get_logger("hindcast.http")


def error_response(status: int, code: str, message: str, hint: str = "", *, retry_after_seconds: int | None = None) -> JSONResponse:
    """An error in the one shape; `retry_after_seconds` becomes the header that an API server honours."""
    headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status, headers)


def classify(error: HindcastError) -> tuple[str, int]:
    """The code and the HTTP status of one of our own errors."""
    return next((code, status) for kind, code, status in STATUS_OF if isinstance(error, kind))


def install(app: FastAPI) -> None:
    """Give every route of an application the one error shape."""
    app.add_exception_handler(HindcastError, _ours)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(Exception, _unforeseen)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HindcastError)
    code, status = classify(error)
    return error_response(status, code, error.message, error.hint)


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, HTTPStatus(error.status_code).name.lower(), str(error.detail))
    response.headers.update(error.headers or {})
    return response


async def _of_parameters(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return error_response(422, "bad_parameter", f"{where}: {first['msg']}")


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    # What happened is in the log under the request's id; the caller is told nothing of the inside.
    _log.error("unforeseen", path=request.url.path, exc_info=error)
    return error_response(500, "internal", "something went wrong here", "look for this request's id in the server's log")
