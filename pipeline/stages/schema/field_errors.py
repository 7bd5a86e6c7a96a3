"""Field errors in the API server's words: a path, a reason, and a text that shows the value as Go prints it.

Follows k8s.io/apimachinery pkg/util/validation/field. A path is text: `spec.ports[0].name`, `spec.labels[app]`. The empty path is
the root of an object, which the API server prints as `<nil>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ...cel.library.gotext import format_float, quote

ROOT = "<nil>"


class Reason(StrEnum):
    """The reason of a cause in an API server's answer."""

    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


# Rules are not evaluated after an error with one of these reasons (pkg/registry/customresource/strategy.go hasBlockingErr).
BLOCKING: Final = frozenset((Reason.NOT_SUPPORTED, Reason.REQUIRED, Reason.TOO_LONG, Reason.TOO_MANY, Reason.TYPE_INVALID))
_WORDS: Final = {
    Reason.REQUIRED: "Required value",
    Reason.DUPLICATE: "Duplicate value",
    Reason.INVALID: "Invalid value",
    Reason.NOT_SUPPORTED: "Unsupported value",
    Reason.FORBIDDEN: "Forbidden",
    Reason.TOO_LONG: "Too long",
    Reason.TOO_MANY: "Too many",
    Reason.TYPE_INVALID: "Invalid value",
    Reason.INTERNAL: "Internal error",
}


class _Omitted:
    """The type of OMITTED."""


class GoText(str):
    """A value whose text is already known, such as the JSON of a struct of the API server."""

    __slots__ = ()


OMITTED: Final = _Omitted()  # Stands for a value that a text leaves out: an object or a list.


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of a refusal. `message` is the text without the field; `reason` is a Reason in every answer to a request."""

    reason: Reason | str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def child(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    """The path of a key of a map."""
    return f"{path}[{name}]"


def index(path: str, number: int) -> str:
    """The path of an element of a list."""
    return f"{path}[{number}]"


def _made(reason: Reason, path: str, value: Any, detail: str) -> FieldError:
    words = _WORDS[reason]
    shown = words if value is OMITTED else f"{words}: {go_value(value)}"
    return FieldError(reason, path or ROOT, f"{shown}: {detail}" if detail else shown)


def required(path: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return _made(Reason.REQUIRED, path, OMITTED, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """A value must not be there."""
    return _made(Reason.FORBIDDEN, path, OMITTED, detail)


def internal(path: str, detail: str) -> FieldError:
    """The API server could not do its part."""
    return _made(Reason.INTERNAL, path, OMITTED, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value breaks a rule."""
    return _made(Reason.INVALID, path, value, detail)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value is of another type than its schema says."""
    return _made(Reason.TYPE_INVALID, path, value, detail)


def duplicate(path: str, value: Any) -> FieldError:
    """A value is there more than once."""
    return _made(Reason.DUPLICATE, path, value, "")


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    """A value is not one of a list."""
    detail = f"supported values: {', '.join(map(quote, supported))}" if supported else ""
    return _made(Reason.NOT_SUPPORTED, path, value, detail)


def too_long(path: str, length_max: int) -> FieldError:
    """A text is too long. The API server counts code points and says bytes."""
    return _made(Reason.TOO_LONG, path, OMITTED, f"may not be more than {length_max} {'byte' if length_max == 1 else 'bytes'}")


def too_many(path: str, count: int, count_max: int) -> FieldError:
    """A list or map has too many entries."""
    return _made(Reason.TOO_MANY, path, count, f"must have at most {count_max} {'item' if count_max == 1 else 'items'}")


def joined(errors: Iterable[FieldError]) -> str:
    """The text of several errors, each once: the one error itself, or `[ERROR, ERROR]`."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def go_value(value: Any) -> str:
    """A JSON value as field errors print it: scalars by %v and %q, all others as JSON."""
    if isinstance(value, GoText):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    return go_json(value)


def go_json(value: Any) -> str:
    """JSON as Go writes it: without spaces, keys sorted, and with `<`, `>` and `&` escaped."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for letter, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        text = text.replace(letter, escape)
    return text


def _plain(value: Any) -> Any:
    """The value with whole doubles as integers, as Go's JSON writes them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value
