"""Compares a reconstructed object with one that admission was given: a field that the server made up equals any value."""

from __future__ import annotations

from typing import Any

from pipeline.cel import Unknown
from pipeline.policies.invented import with_invented
from pipeline.request import AdmissionRequest, Operation


def completed(request: AdmissionRequest, value: Any) -> Any:
    """The object of a request as policies see it: with what the server makes up, as unknown values."""
    return with_invented(value, request) if request.operation is Operation.CREATE else value


def agrees(found: Any, given: Any) -> bool:
    """Whether two objects are equal but for unknown values, which must be there on both sides."""
    if found.__class__ is Unknown:
        return True
    if isinstance(found, dict) and isinstance(given, dict):
        return found.keys() == given.keys() and all(agrees(value, given[name]) for name, value in found.items())
    if isinstance(found, list) and isinstance(given, list):
        return len(found) == len(given) and all(map(agrees, found, given))
    return bool(found == given)
