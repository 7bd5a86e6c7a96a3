"""YAML of cases and of what the program prints, read by libyaml: the reader in Python takes ten times as long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


def load_yaml(text: str | bytes) -> Any:
    """The value of a document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def load_yaml_all(text: str | bytes) -> Iterator[Any]:
    """The values of all documents. Raises yaml.YAMLError."""
    return iter(yaml.load_all(text, Loader=yaml.CSafeLoader))
