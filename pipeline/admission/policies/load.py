"""Policies, bindings and params from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.errors import InputError

from ...request import Object
from .decode import BINDING, GROUP, POLICY, VERSIONS, binding_from_document, policy_from_document
from .documents import Document, read_documents
from .fields import Fields
from .model import Binding, GivenObject, Policy, PolicySet

_SUFFIXES = (".yaml", ".yml", ".json")


def load_policy_set(paths: Iterable[Path]) -> PolicySet:
    """The policies, bindings and other objects of YAML and JSON files; folders are searched for such files in order of name.

    Raises InputError with `file:line` for unreadable files, for two objects of one name, and for everything that the API server
    would reject.
    """
    return parse_policy_set(texts_of(paths))


def load_objects(paths: Iterable[Path]) -> list[Object]:
    """Every object of the same files as written: with the labels, annotations and fields that the model lacks."""
    return parse_objects(texts_of(paths))


def parse_objects(texts: Iterable[tuple[str, str]]) -> list[Object]:
    """The same from (source, text) pairs."""
    return [item.value for source, text in texts for document in read_documents(text, source) for item in _items(document)]


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


def text_of(data: bytes, source: str) -> str:
    """The text of a file. Raises InputError with the line of bytes that are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: found the byte 0x{data[error.start]:02x}, wanted UTF-8", "save it as UTF-8") from None


def parse_policy_set(texts: Iterable[tuple[str, str]]) -> PolicySet:
    """The same from (source, text) pairs, such as standard input."""
    policies: list[Policy] = []
    bindings: list[Binding] = []
    objects: list[GivenObject] = []
    for source, text in texts:
        for document in read_documents(text, source):
            for item in _items(document):
                kind = _kind(item)
                if kind == POLICY:
                    policies.append(policy_from_document(item))
                elif kind == BINDING:
                    bindings.append(binding_from_document(item))
                else:
                    objects.append(_given(item))
    _unique("ValidatingAdmissionPolicy", policies)
    _unique("ValidatingAdmissionPolicyBinding", bindings)
    return PolicySet(tuple(policies), tuple(bindings), tuple(objects))


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


def _given(document: Document) -> GivenObject:
    """An object given with policies. Raises InputError for a name or labels that no object can have: later code reads them."""
    metadata = Fields(document).object("metadata")
    if metadata is not None:
        for field in ("name", "namespace"):
            metadata.text(field, "")
        if labels := metadata.object("labels"):
            for label in labels.value:
                labels.text(label, "")
    return GivenObject(document.value, document.where())


def _kind(document: Document) -> str | None:
    """The kind, if this module reads it as a policy or binding; None for any other object."""
    root = Fields(document)
    kind, api_version = root.text("kind"), root.text("apiVersion")
    if kind not in (POLICY, BINDING) or api_version.partition("/")[0] != GROUP:
        return None
    if api_version not in VERSIONS:
        raise root.error(f" must be one of {', '.join(VERSIONS)}, not {api_version!r}", "apiVersion")
    return kind


def _unique(kind: str, named: Iterable[Policy | Binding]) -> None:
    seen: dict[str, str] = {}
    for item in named:
        if item.name in seen:
            raise InputError(f"{item.source}: {kind} {item.name!r} is also in {seen[item.name]}; give one of them")
        seen[item.name] = item.source
