"""Errors that a user can act on.

Every error names the thing, the found and the wanted value, and the next step. The CLI and the HTTP API print it in one line, as an
exit code or an HTTP status. A traceback is always a defect of Hindcast.
"""

from __future__ import annotations


class HindcastError(Exception):
    """The root of every error that Hindcast raises on purpose. `hint` is the next step, if there is one."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InputError(HindcastError):
    """The input is wrong. The message begins with `file:line:` where a file and line are known."""


class LakeError(HindcastError):
    """The lake is missing, is of another version, or cannot be written. Nothing that was stored is lost."""


class EvidenceError(HindcastError):
    """There is not enough recorded evidence to answer."""

    exit_code = 3


class UnfinishedError(HindcastError):
    """Some of the work could not be done, and the rest is kept."""

    exit_code = 4
