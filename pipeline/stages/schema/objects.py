"""What an API server would make of objects under definitions, both from files: the findings of `hindcast schema objects`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ingest.errors import InputError

from ...manifests.documents import Document
from .checking import is_definition, read_definition, stored_rules
from .definition_check import definition_errors
from .field_errors import child, index
from .formats import Version
from .places import place_of
from .structural import NotConvertibleError
from .writing import ObjectKind, Operation, UndecodableError, decode, object_kind, write


class Outcome(StrEnum):
    """What happens to a field, or to the whole object."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DROPPED = "dropped"  # The schema does not know the field.
    DEFAULT = "default"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ObjectFinding:
    """One fact about one object. `field` and `message` are empty for an object that is stored as it is."""

    where: str
    object: str
    outcome: Outcome
    field: str = ""
    message: str = ""


def object_findings(documents: Sequence[Document], version: Version) -> Iterator[ObjectFinding]:
    """The facts about every object among documents whose kind is defined among them, as if each were created.

    A definition that cannot be decoded is refused. An object of a definition that the API server refuses is unknown.
    """
    kinds: dict[tuple[str, str], ObjectKind | str] = {}
    for document in filter(is_definition, documents):
        try:
            definition = read_definition(document)
        except InputError as problem:
            yield unreadable(problem, _name(document.value))
            continue
        refused = [] if definition.is_v1beta1 else definition_errors(definition, version, stored_rules(None, document))
        for each in definition.versions:
            key = (f"{definition.group}/{each.name}", definition.kind)
            try:
                made = object_kind(definition, each, version)
            except NotConvertibleError as problem:
                kinds[key] = str(problem)
                continue
            kinds[key] = f"the API server refuses {definition.name}: {refused[0]}" if refused else made
            if not each.served:
                kinds[key] = f"{definition.name} does not serve {each.name}"
    for document in documents:
        value = document.value
        if not isinstance(value, dict) or is_definition(document):
            continue
        kind = kinds.get((str(value.get("apiVersion")), str(value.get("kind"))))
        if isinstance(kind, str):
            yield ObjectFinding(document.where(), _name(value), Outcome.UNKNOWN, message=kind)
        elif kind is not None:
            yield from _findings(document, kind)


def unreadable(problem: InputError, name: str = "") -> ObjectFinding:
    """The finding of a file, or of a definition in it, that cannot be decoded. The message begins with `file:line: `."""
    where, _, text = problem.message.partition(": ")
    return ObjectFinding(where, name, Outcome.REFUSED, message=text)


def _findings(document: Document, kind: ObjectKind) -> Iterator[ObjectFinding]:
    raw: dict[str, Any] = document.value
    name = _name(raw)
    try:
        decoded = decode(kind, raw)
    except UndecodableError as problem:
        yield ObjectFinding(document.where(), name, Outcome.REFUSED, message=str(problem))
        return
    metadata = decoded.value.get("metadata") or {}
    # A client fills in the namespace, and the API server a generated name.
    filled = {"namespace": "default"} if kind.is_namespaced else {}
    generated = {"name": f"{metadata['generateName']}xxxxx"} if metadata.get("generateName") and not metadata.get("name") else {}
    written = write(kind, Operation.CREATE, {**decoded.value, "metadata": {**filled, **metadata, **generated}})
    found = [ObjectFinding(place_of(document, each), name, Outcome.DROPPED, each) for each in decoded.unknown]
    for error in written.errors:
        found.append(ObjectFinding(place_of(document, error.field), name, Outcome.REFUSED, error.field, error.message))
    found += [ObjectFinding(document.where(), name, Outcome.UNKNOWN, message=each) for each in written.undecided]
    if not written.errors:
        for path in _added(raw, decoded.value, ""):
            found.append(ObjectFinding(place_of(document, path), name, Outcome.DEFAULT, path))
        if kind.has_status and "status" in raw:
            found.append(
                ObjectFinding(place_of(document, "status"), name, Outcome.DROPPED, "status", "a create cannot set the status")
            )
    yield from found or [ObjectFinding(document.where(), name, Outcome.ACCEPTED)]


def _name(value: dict[str, Any]) -> str:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{value.get('kind')}/{metadata.get('name') or metadata.get('generateName') or ''}"


def _added(before: Any, after: Any, path: str) -> Iterator[str]:
    """The paths at which there is a value that was not there, or was null."""
    if isinstance(after, dict) and isinstance(before, dict):
        for name, item in after.items():
            where = child(path, name)
            if before.get(name) is None and item is not None:
                yield where
            else:
                yield from _added(before.get(name), item, where)
    elif isinstance(after, list) and isinstance(before, list):
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _added(old, new, index(path, number))
