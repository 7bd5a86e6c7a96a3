"""Values in the forms that Go prints: the API server's errors show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...cel.library.gotext import format_float


@dataclass(frozen=True)
class Unconverted:
    """A value of an expression that the server does not turn into JSON: a null, or a map or list within another literal.

    `text` is the value as Go prints it with %v, `syntax` with %#v and `type` with %T; empty where the text is not known.
    """

    text: str
    syntax: str = ""
    type: str = ""


NULL = Unconverted("NULL_VALUE", "0", "structpb.NullValue")


def go_print(value: Any) -> str:
    """A JSON value as Go prints it with %v."""
    match value:
        case Unconverted():
            return value.text
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return format_float(value)
        case dict():
            return f"map[{' '.join(f'{name}:{go_print(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_print, value))}]"
    return str(value)


def go_syntax(value: Any) -> str:
    """A JSON value as Go prints it with %#v."""
    match value:
        case Unconverted():
            return value.syntax
        case None:
            return "interface {}(nil)"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            inner = ", ".join(f"{json.dumps(name, ensure_ascii=False)}:{go_syntax(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return go_print(value)


def go_type(value: Any) -> str:
    """The Go type of a JSON value."""
    match value:
        case Unconverted():
            return value.type
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
    return "<nil>"
