"""Texts in the language of z3: text functions, and the values of labels."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from .formula import Text


def text_holds(value: Any, atom: Text) -> Any:
    """A text function of a value, as z3 states it."""
    z3 = import_module("z3")
    argument = atom.argument
    if isinstance(argument, int):
        length = z3.Length(value)
        compare = {
            "_<_": length < argument,
            "_<=_": length <= argument,
            "_>_": length > argument,
            "_>=_": length >= argument,
            "_==_": length == argument,
            "_!=_": length != argument,
        }
        return compare[atom.function]
    text = z3.StringVal(argument)
    if atom.function == "startsWith":
        return z3.PrefixOf(text, value)
    return z3.SuffixOf(text, value) if atom.function == "endsWith" else z3.Contains(value, text)


_ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}")


def unescaped(text: str) -> str:
    """A text that z3 printed: it writes characters outside of ASCII as `\\u{7f}`."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def label_values() -> Any:
    """The values that a label may have, but for their length."""
    z3 = import_module("z3")
    edge = z3.Union(z3.Range("a", "z"), z3.Range("A", "Z"), z3.Range("0", "9"))
    middle = z3.Union(edge, z3.Re("-"), z3.Re("_"), z3.Re("."))
    return z3.Option(z3.Concat(edge, z3.Option(z3.Concat(z3.Star(middle), edge))))
