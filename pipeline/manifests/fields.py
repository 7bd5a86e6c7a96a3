"""Reads typed fields out of JSON: every mistake is an InputError that names file, line and field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from ingest.errors import InputError

from .documents import Document, Path


class Fields:
    """A mapping at one place of a document. Absent and null fields are the same, as in the Kubernetes API."""

    def __init__(self, document: Document, path: Path = (), value: Any = None) -> None:
        self.document = document
        self.path = path
        value = document.value if not path else value
        if not isinstance(value, dict):
            raise self.error(f" must be an object, not {_kind(value)}")
        self.value: dict[str, Any] = value

    def error(self, message: str, field: str = "", hint: str = "") -> InputError:
        """The error for this object, or for one of its fields."""
        path = (*self.path, field) if field else self.path
        return InputError(f"{self.document.where(path)}: {(dotted(path) + message).lstrip()}", hint)

    def where(self, field: str = "") -> str:
        """`file:line` of this object or of one of its fields."""
        return self.document.where((*self.path, field) if field else self.path)

    def only(self, *known: str) -> None:
        """Raises for the first field that is not one of `known`."""
        for name in self.value:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"known fields: {', '.join(known)}"
                raise self.error(": unknown field", name, hint)

    def has(self, field: str) -> bool:
        """Whether a field is present and not null."""
        return self.value.get(field) is not None

    def text(self, field: str, default: str | None = None, choices: Iterable[str] = ()) -> str:
        """A string field; required unless there is a default."""
        value = self.value.get(field)
        if value is None:
            if default is None:
                raise self.error(" is required", field)
            return default
        if not isinstance(value, str):
            raise self.error(f" must be a string, not {_kind(value)}", field)
        allowed = tuple(choices)
        if allowed and value not in allowed:
            raise self.error(f" must be one of {', '.join(filter(None, allowed))}, not {value!r}", field)
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings; empty if absent."""
        value = self.value.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(" must be a list of strings", field)
        return tuple(value)

    def object(self, field: str) -> Fields | None:
        """A nested object; None if absent."""
        value = self.value.get(field)
        return None if value is None else Fields(self.document, (*self.path, field), value)

    def objects(self, field: str) -> list[Fields]:
        """A list of nested objects; empty if absent."""
        value = self.value.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(f" must be a list, not {_kind(value)}", field)
        return [Fields(self.document, (*self.path, field, index), item) for index, item in enumerate(value)]


def dotted(path: Path) -> str:
    """`spec.validations[0].expression`"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
