"""JSON and YAML that people read: the same values, and no character in the text that acts on a terminal or turns its direction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from .cells import acting_characters


class _Dumper(yaml.SafeDumper):
    """Quotes each text that holds such a character: only then YAML has an escape for it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if acting_characters(text) else None)


_Dumper.add_representer(str, _text)


def json_text(value: Any, indent: int | None = None, default: Callable[[Any], object] | None = None) -> str:
    """JSON in which such characters are escapes; other letters stay as they are."""
    return _escaped(json.dumps(value, indent=indent, default=default, ensure_ascii=False))


def yaml_text(values: Iterable[Any], *, width: int = 80, flow: bool = False) -> str:
    """A stream of YAML documents in which such characters are escapes; other letters stay as they are."""
    text: str = yaml.dump_all(
        values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width, default_flow_style=flow, explicit_start=False
    )
    return _escaped(text)


def _escaped(text: str) -> str:
    """Both formats know `\\uXXXX`, and a writer of either has escaped what may not stand in it at all."""
    for character in acting_characters(text):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
