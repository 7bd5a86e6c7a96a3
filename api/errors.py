"""The errors of this package, and the one table from exception to status. `error_answers` answers with them over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.errors import EvidenceError, HindcastError, InputError, LakeError
from ingest.inside import ForeignNameError


class NotFoundError(InputError):
    """The requested thing does not exist."""


class TooLargeError(InputError):
    """The request's body is larger than the limit."""


class NotAcceptableError(InputError):
    """The server offers none of the wanted formats."""


class WrongTypeError(InputError):
    """The media type of the request's body is not accepted."""


class InUseError(InputError):
    """The thing to remove is in use."""


class TooCostlyError(InputError):
    """The answer would take more time or memory than one question may."""


class BusyError(HindcastError):
    """Too many requests at one time; the same request will work later."""


# The first class that matches counts. The exit code of the command line is `HindcastError.exit_code`; this table has both.
STATUS_OF: tuple[tuple[type[HindcastError], str, int], ...] = (
    (NotFoundError, "not_found", 404),
    (NotAcceptableError, "not_acceptable", 406),
    (TooLargeError, "too_large", 413),
    (WrongTypeError, "wrong_type", 415),
    (TooCostlyError, "too_costly", 422),
    (InUseError, "in_use", 409),
    (InputError, "bad_input", 400),  # exit code 2
    (EvidenceError, "not_enough_evidence", 409),  # exit code 3
    (ForeignNameError, "lake_refused", 409),  # exit code 2
    (LakeError, "lake_unavailable", 503),  # exit code 2
    (BusyError, "busy", 429),
    (HindcastError, "error", 400),  # exit code 2
)
STATUS_BY_CODE: Mapping[str, int] = {code: status for _, code, status in STATUS_OF}


def classify(error: HindcastError) -> tuple[str, int]:
    """The code and the HTTP status of one of our own errors."""
    return next((code, status) for kind, code, status in STATUS_OF if isinstance(error, kind))


def error_of(code: str, message: str, hint: str = "") -> HindcastError:
    """One of our own errors from its code, as another process reported it."""
    kind = next((kind for kind, known, _ in STATUS_OF if known == code), HindcastError)
    return kind(message, hint)
