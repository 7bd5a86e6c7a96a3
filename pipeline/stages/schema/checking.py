"""Checks the definitions of files as an API server would: the findings of `hindcast schema check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.errors import InputError
from queries import LakeReader

from ...manifests.documents import Document
from ...manifests.fields import Fields
from ...manifests.stored import stored_versions
from .definition import API_VERSIONS, GROUP, KIND, Definition, definition_of
from .definition_check import definition_errors, stricter_errors, v1beta1_errors
from .evidence.definitions import recorded_definitions
from .field_errors import ROOT, FieldError
from .formats import Version
from .places import place_of
from .props import DecodeError
from .rules import StoredRules
from .stored_names import dropped_errors
from .structural import NotConvertibleError


@dataclass(frozen=True, slots=True)
class Finding:
    """One error of one definition. `enforced`: the API server reports it; `where` is `file:line`."""

    definition: str
    where: str
    field: str
    message: str
    reason: str
    enforced: bool = True


def definition_documents(documents: Iterable[Document]) -> list[Document]:
    """The documents that are CustomResourceDefinitions."""
    return [each for each in documents if is_definition(each)]


def is_definition(document: Document) -> bool:
    """Whether a document is a CustomResourceDefinition."""
    return (
        isinstance(document.value, dict) and document.value.get("kind") == KIND and document.value.get("apiVersion") in API_VERSIONS
    )


def read_definition(document: Document) -> Definition:
    """The definition of a document. Raises InputError with file and line for a field of a wrong type."""
    Fields(document)
    try:
        return definition_of(document.value)
    except DecodeError as problem:
        raise InputError(f"{document.where()}: not a {KIND}: {problem}", "an API server answers 400 to this file") from None


def stored_rules(reader: LakeReader | None, document: Document) -> StoredRules | None:
    """The rules that a server surely has stored in a definition, as the lake of a reader shows.

    If it shows none, a definition with a resourceVersion was read from a server, which has stored all of it: None.
    """
    metadata = Fields(document).object("metadata")
    name = metadata.text("name", "") if metadata else ""
    known = (
        stored_versions(reader, GROUP, KIND, name, lambda found, source: read_definition(Document(found, source))) if reader else []
    )
    if not known and metadata and metadata.text("resourceVersion", ""):
        return None
    return StoredRules.of(each.schema for one in known for each in one.versions if each.schema)


def check_definitions(
    documents: Sequence[Document], version: Version, strict: bool = False, reader: LakeReader | None = None
) -> Iterator[Finding]:
    """The findings of all definitions among documents. `strict` adds what the API server does not look for.

    The lake of a reader shows which rules are not new.

    A definition that cannot be decoded is a finding of its own. A v1beta1 file cannot be created any more: that is its first
    finding, and what is not structural follows.
    """
    olds = [each.definition for each in recorded_definitions(reader, None)] if reader is not None else []
    for document in documents:
        try:
            definition = read_definition(document)
        except InputError as problem:
            yield unreadable(problem, _name_in(document.value))
            continue
        for error in [*_errors(definition, version, stored_rules(reader, document)), *dropped_errors(definition, olds)]:
            yield _finding(document, definition, error, True)
        for error in stricter_errors(definition) if strict else ():
            yield _finding(document, definition, error, False)


def _errors(definition: Definition, version: Version, stored: StoredRules | None) -> list[FieldError]:
    if not definition.is_v1beta1:
        return definition_errors(definition, version, stored)
    try:
        return v1beta1_errors(definition)
    except NotConvertibleError as problem:
        return [FieldError("StructuralError", ROOT, str(problem))]


def unreadable(problem: InputError, definition: str = "") -> Finding:
    """The finding of a file, or of a definition in it, that cannot be decoded. The message begins with `file:line: `."""
    where, _, text = problem.message.partition(": ")
    return Finding(definition, where, ROOT, text, "BadRequest")


def _name_in(value: Any) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _finding(document: Document, definition: Definition, error: FieldError, enforced: bool) -> Finding:
    return Finding(definition.name, place_of(document, error.field), error.field, error.message, str(error.reason), enforced)
