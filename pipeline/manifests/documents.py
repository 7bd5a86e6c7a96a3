"""YAML and JSON as kubectl reads them, with the line of every field. Keys become strings; a key given twice is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from ingest.errors import InputError
from ingest.extent import refuse_excess

from .yaml_values import JSON_TAGS, MERGE, NO_NUMBER, PLAIN, TRUE_OR_FALSE, KubernetesLoader, as_stored

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One object and the lines of its fields. `lines` is empty where no lines are known, as for objects from an audit log.

    `notes` are sentences on keys that YAML reads as true or false.
    """

    value: Any
    source: str
    lines: dict[Path, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def where(self, path: Path = ()) -> str:
        """`file:line` of a field, or of the closest written field around it."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.source}:{line}"
        return self.source

    def below(self, path: Path, value: Any) -> Document:
        """The part of this document at `path` as a separate document (an item of a List)."""
        size = len(path)
        lines = {key[size:]: line for key, line in self.lines.items() if key[:size] == path}
        return Document(value, self.source, lines, self.notes)


def read_documents(text: str, source: str) -> list[Document]:
    """All non-empty documents of a YAML stream, or of one JSON text after another. Raises InputError with `source:line`."""
    refuse_excess(text, source)
    try:
        return list(_yaml_documents(text, source))
    except yaml.YAMLError as error:
        # YAML forbids tabs as indentation and halves of surrogate pairs, and wants `---` between documents; JSON does not.
        if text.lstrip()[:1] == "{" and (documents := _json_documents(text, source)):
            return documents
        raise _no_yaml(error, text, source) from None


def _no_yaml(error: yaml.YAMLError, text: str, source: str) -> InputError:
    """The error for a text that is neither YAML nor JSON."""
    if isinstance(error, yaml.reader.ReaderError):
        position = next((index for index, letter in enumerate(text) if letter == chr(error.character)), 0)
        line, problem = text.count("\n", 0, position) + 1, f"the character U+{error.character:04X} is not allowed"
    else:
        mark = getattr(error, "problem_mark", None)
        line, problem = mark.line + 1 if mark else 1, getattr(error, "problem", None) or str(error)
    return InputError(f"{source}:{line}: neither YAML nor JSON: {problem}")


def _json_documents(text: str, source: str) -> list[Document]:
    """The documents of a text that is JSON; empty for any other text."""
    decoder = json.JSONDecoder(parse_float=_json_number, parse_int=_json_number, object_pairs_hook=_json_object)
    documents: list[Document] = []
    position = 0
    try:
        while (start := len(text) - len(text[position:].lstrip())) < len(text):
            value, position = decoder.raw_decode(text, start)
            documents.append(Document(value, source, {(): text.count("\n", 0, start) + 1}))
    except InputError as error:
        raise InputError(f"{source}:{text.count(chr(10), 0, start) + 1}: {error.message}", error.hint) from None
    except ValueError:
        return []
    except RecursionError:
        raise InputError(f"{source}: nested too deep", "no object of Kubernetes is") from None
    return documents


def _json_number(text: str) -> int | float:
    is_integer = not set(text) & set(".eE") and len(text.removeprefix("-")) <= 19
    return as_stored(int(text) if is_integer else float(text))


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {_without_halves(key): _without_halves(value) if isinstance(value, str) else value for key, value in pairs}
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"key {twice!r} is there twice", "remove one of the two")
    return found


def _without_halves(text: str) -> str:
    """The text as Go reads it: every half of a surrogate pair becomes the replacement character."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _yaml_documents(text: str, source: str) -> Iterator[Document]:
    loader = KubernetesLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            _refuse(node, source)
            value = _with_texts_as_keys(loader.construct_document(node))
            if value is None:
                continue
            lines: dict[Path, int] = {}
            _collect_lines(node, (), lines)
            lines[()] = node.start_mark.line + 1
            yield Document(value, source, lines, tuple(_notes(node, source)))
    finally:
        loader.dispose()


def _refuse(node: yaml.Node, source: str) -> None:
    """Raise InputError for YAML features that JSON lacks, and for a key that is given twice."""
    if node.tag not in JSON_TAGS or (node.tag == PLAIN and NO_NUMBER.match(node.value)):
        found = node.value if node.tag == PLAIN else f"a value of type {node.tag.rpartition(':')[2]}"
        raise InputError(f"{source}:{node.start_mark.line + 1}: {found} has no form in JSON", "quote it as a string")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            where = f"{source}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{where}: a key must be a text", "a value in braces may be a template that was not filled in")
            if key.tag.endswith(":null"):
                # sigs.k8s.io/yaml refuses it: a map of JSON has no such key (convertToJSONableObject of yaml.go).
                found = f"the key {key.value}" if key.value else "an empty key"
                raise InputError(f"{where}: {found} is read as null, and a key must be a text", "quote it, or remove it")
            if key.value in seen:
                raise InputError(f"{where}: key {key.value!r} is already set; remove one of the two")
            if key.tag != MERGE:
                _refuse(key, source)
                seen.add(key.value)
            _refuse(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse(item, source)


def _notes(node: yaml.Node, source: str) -> Iterator[str]:
    """Keys such as `n` and `yes`, which YAML 1.1 reads as false and true: kubectl does so without a word."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            is_letter = key.tag == PLAIN and key.value in TRUE_OR_FALSE
            if is_letter or key.tag.endswith(":bool"):
                is_true = TRUE_OR_FALSE[key.value] if is_letter else key.value.lower() in ("true", "yes", "on")
                read = str(is_true).lower()
                if read != key.value:
                    where = f"{source}:{key.start_mark.line + 1}"
                    yield f"{where}: the key {key.value} is read as {read!r}, as kubectl reads it; quote it if the word is meant"
            yield from _notes(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _notes(item, source)


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


def _with_texts_as_keys(value: Any) -> Any:
    match value:
        case dict():
            return {_as_key(key): _with_texts_as_keys(item) for key, item in value.items()}
        case list():
            return [_with_texts_as_keys(item) for item in value]
    return value


def _as_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
