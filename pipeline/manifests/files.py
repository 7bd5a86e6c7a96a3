"""The manifests of files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.errors import InputError

from .documents import Document, read_documents
from .fields import Fields

_SUFFIXES = (".yaml", ".yml", ".json")


def manifests_of(texts: Iterable[tuple[str, str]]) -> list[Document]:
    """Every object of (source, text) pairs, with those of each List. Raises InputError with `source:line`."""
    return [item for source, text in texts for document in read_documents(text, source) for item in _items(document)]


def texts_of(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """The path and the text of every such file, in the order of the paths. Raises InputError for one that cannot be read."""
    seen: set[Path] = set()
    for path in paths:
        for file in _files(path):
            try:
                if (same := file.resolve()) not in seen:
                    seen.add(same)
                    yield str(file), text_of(file.read_bytes(), str(file))
            except (OSError, RuntimeError) as error:  # the latter for a link to itself
                raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def readable(paths: Iterable[Path]) -> tuple[list[Document], list[InputError]]:
    """Every object of the files that can be decoded, and why others cannot. Raises InputError for a path that does not exist."""
    documents: list[Document] = []
    problems: list[InputError] = []
    for file in [file for path in paths for file in _files(path)]:
        try:
            documents += manifests_of(texts_of([file]))
        except InputError as problem:
            problems.append(problem)
    return documents, problems


def text_of(data: bytes, source: str) -> str:
    """The text of a file. Raises InputError with the line of bytes that are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: found the byte 0x{data[error.start]:02x}, wanted UTF-8", "save it as UTF-8") from None


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        # A broken link is not skipped: its target may be a policy.
        yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and (file.is_file() or not file.exists()))
    elif path.exists():
        yield path
    else:
        raise InputError(f"{path}: no such file or folder")


def _items(document: Document) -> Iterator[Document]:
    """The document itself, or the items of a List."""
    root = Fields(document)
    kind = root.text("kind", "")
    if kind.endswith("List") and isinstance(document.value.get("items"), list):
        # An API server's answer to a list of one kind leaves out the kind and apiVersion of the items.
        implied = {} if kind == "List" else {"apiVersion": root.text("apiVersion", ""), "kind": kind.removesuffix("List")}
        for index, item in enumerate(document.value["items"]):
            yield from _items(document.below(("items", index), {**implied, **item} if isinstance(item, dict) else item))
    else:
        yield document
