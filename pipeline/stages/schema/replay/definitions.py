"""The definitions of one replay: the given ones, and those of the time of each request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.errors import InputError
from queries import LakeReader

from ....manifests.documents import Document
from ....request import Known, Unknown
from ....requests.worlds import Worlds
from ..checking import is_definition, read_definition, stored_rules
from ..definition import API_VERSIONS, KIND, Definition, definition_of
from ..definition_check import definition_errors, v1beta1_errors
from ..evidence.definitions import recorded_definitions
from ..field_errors import FieldError
from ..formats import Version
from ..props import DecodeError
from ..rules import StoredRules
from ..stored_names import dropped_errors
from ..structural import NotConvertibleError
from .outcome import NO_OLD_DEFINITION
from .served import Served


@dataclass(frozen=True, slots=True)
class Given:
    """The definitions of some files, by PLURAL.GROUP, as the files hold them. `before` are those of --against."""

    definitions: tuple[Document, ...]
    before: tuple[Document, ...] = ()

    def over(self, before: Given) -> Given:
        """These definitions, with the other ones as the version before."""
        return Given(self.definitions, before.definitions)

    def described(self) -> Any:
        """Each definition with the one before as JSON values, without what does not change their meaning."""
        before = {_name(each): _meaning(each.value) for each in self.before}
        return [{**_meaning(each.value), "before": before.get(_name(each))} for each in self.definitions]


def given_of(documents: Sequence[Document]) -> Given:
    """The definitions among documents. Raises InputError for one that no API server would take, with file and line."""
    found = tuple(each for each in documents if is_definition(each))
    names: dict[str, Document] = {}
    for document in found:
        definition = read_definition(document)
        name = f"{definition.plural}.{definition.group}"
        if name in names:
            raise InputError(f"{document.where()}: defines {name} again; it is also in {names[name].where()}", "keep one of them")
        names[name] = document
    return Given(found)


def served_of(
    documents: Sequence[Document], version: Version, reader: LakeReader | None = None, before: Sequence[Document] = ()
) -> dict[str, Served]:
    """Compiled definitions by PLURAL.GROUP. Raises InputError for one that an API server of this version refuses.

    With the reader of a lake, the definitions are new to its clusters. Without one, an API server has stored them. They take the
    place of those `before`, or of those that the lake shows last.
    """
    found = {}
    olds = [read_definition(each) for each in before]
    if reader is not None and documents and not olds:
        olds = [each.definition for each in recorded_definitions(reader, None)]
    for document in documents:
        definition = read_definition(document)
        try:
            errors = _errors(definition, version, None if reader is None else stored_rules(reader, document))
            errors = [*errors, *dropped_errors(definition, olds)]
        except NotConvertibleError as problem:
            raise InputError(f"{document.where()}: {definition.name}: {problem}", "see `hindcast schema check`") from None
        if errors:
            more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
            raise InputError(
                f"{document.where()}: the API server refuses {definition.name}: {errors[0]}{more}",
                "`hindcast schema check` shows all errors with their lines",
            )
        served = Served(definition, version)
        found[served.name] = served
    return found


def _errors(definition: Definition, version: Version, stored: StoredRules | None) -> list[FieldError]:
    """Why a definition cannot be replayed. A v1beta1 file that prunes means the same in v1, so it counts as written there."""
    if not definition.is_v1beta1:
        return definition_errors(definition, version, stored)
    found = v1beta1_errors(definition)
    return found if definition.preserves_unknown_fields else found[1:]


class DefinitionsOfTheTime:
    """The definition that was in force at each request: from --against, else from the log and snapshots."""

    def __init__(self, before: dict[str, Served], worlds: Worlds, version: Version) -> None:
        self._before = before
        self._worlds = worlds
        self._version = version
        self._compiled: dict[str, Served | Unknown] = {}

    def at(self, name: str, cluster: str, ts: datetime) -> Served | Unknown:
        """The definition called PLURAL.GROUP at a moment."""
        if name in self._before:
            return self._before[name]
        found = self._worlds.at(cluster, ts).param(API_VERSIONS[0], KIND, "", name)
        if not isinstance(found, Known) or not found.value:
            return Unknown(NO_OLD_DEFINITION)
        text = json.dumps(_meaning(found.value), sort_keys=True)
        if text not in self._compiled:
            self._compiled[text] = self._served(found.value)
        return self._compiled[text]

    def _served(self, value: dict[str, Any]) -> Served | Unknown:
        try:
            definition = definition_of(value)
            if definition.storage_version is None:  # no API server stores such a definition, but a log may hold one
                return Unknown("the definition of that time cannot be read: it has no storage version")
            return Served(definition, self._version)
        except (DecodeError, NotConvertibleError) as problem:
            return Unknown(f"the definition of that time cannot be read: {problem}")


def _name(document: Document) -> str:
    definition = read_definition(document)
    return f"{definition.plural}.{definition.group}"


def _meaning(value: Any) -> Any:
    metadata = value.get("metadata") or {}
    kept = {"name": metadata.get("name"), "annotations": metadata.get("annotations") or {}}
    return {"apiVersion": value.get("apiVersion"), "metadata": kept, "spec": value.get("spec")}
