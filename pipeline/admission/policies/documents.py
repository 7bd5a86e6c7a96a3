"""YAML and JSON as Kubernetes reads them, with the line of every field.

kubectl reads YAML through sigs.k8s.io/yaml: a date stays a string, `12:30` is a string and `1e3` a number, which PyYAML's own rules
see otherwise. Keys become strings; a key given twice is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from ingest.errors import InputError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where its fields stand. `lines` is empty where no lines are known, as for what an audit log recorded."""

    value: Any
    source: str
    lines: dict[Path, int] = field(default_factory=dict)

    def where(self, path: Path = ()) -> str:
        """`file:line` of a field, or of the closest field around it that was written."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.source}:{line}"
        return self.source

    def below(self, path: Path, value: Any) -> Document:
        """The part of this document at `path` as a document of its own (an item of a List)."""
        size = len(path)
        return Document(value, self.source, {key[size:]: line for key, line in self.lines.items() if key[:size] == path})


def read_documents(text: str, source: str) -> list[Document]:
    """All non-empty documents of a YAML stream or of a JSON text. Raises InputError with `source:line`."""
    try:
        return list(_yaml_documents(text, source))
    except yaml.YAMLError as error:
        if "\t" in text and (document := _json_document(text, source)):
            # YAML forbids tabs as indentation, JSON does not.
            return [document]
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise InputError(f"{source}:{line}: neither YAML nor JSON: {getattr(error, 'problem', error)}") from None


def _json_document(text: str, source: str) -> Document | None:
    try:
        return Document(json.loads(text), source, {(): 1})
    except ValueError:
        return None


def _yaml_documents(text: str, source: str) -> Iterator[Document]:
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            _forbid_duplicates(node, source)
            value = _as_json(loader.construct_document(node), source, node)
            if value is None:
                continue
            lines: dict[Path, int] = {}
            _collect_lines(node, (), lines)
            lines[()] = node.start_mark.line + 1
            yield Document(value, source, lines)
    finally:
        loader.dispose()


class _KubernetesLoader(yaml.CSafeLoader):
    """PyYAML's safe loader with the scalar types that Go's YAML reader knows."""


_SCALARS = {
    "tag:yaml.org,2002:int": (r"[-+]?(0b[01_]+|0o?[0-7_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*)", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(([0-9][0-9_]*)?\.[0-9_]+|[0-9][0-9_]*\.)([eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
}
_KubernetesLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _SCALARS and tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
for _tag, (_pattern, _letters) in _SCALARS.items():
    _KubernetesLoader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), list(_letters))


def _forbid_duplicates(node: yaml.Node, source: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise InputError(f"{source}:{key.start_mark.line + 1}: key {key.value!r} is already set; remove one of the two")
            if key.tag != "tag:yaml.org,2002:merge":
                seen.add(key.value)
            _forbid_duplicates(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _forbid_duplicates(item, source)


def _collect_lines(node: yaml.Node, path: Path, lines: dict[Path, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            lines[below] = key.start_mark.line + 1
            _collect_lines(value, below, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[*path, index] = item.start_mark.line + 1
            _collect_lines(item, (*path, index), lines)


def _as_json(value: Any, source: str, node: yaml.Node) -> Any:
    match value:
        case dict():
            return {_as_key(key): _as_json(item, source, node) for key, item in value.items()}
        case list():
            return [_as_json(item, source, node) for item in value]
        case None | bool() | int() | float() | str():
            return value
    kind = type(value).__name__
    raise InputError(f"{source}:{node.start_mark.line + 1}: a value of type {kind} has no form in JSON; quote it as a string")


def _as_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
