"""The definition of a kind that a question names: from given manifests, or as the log and the snapshots last show it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ingest.errors import InputError
from queries import LakeReader

from ....manifests.documents import Document
from ..definition import Definition, definition_of
from ..props import DecodeError, Props
from .sql import statement


@dataclass(frozen=True, slots=True)
class KnownDefinition:
    """A definition, and where it comes from: `file:line`, or the record of the log."""

    definition: Definition
    source: str
    cluster: str = ""

    def schema_of(self, api_version: str) -> Props | None:
        """The schema of an API version such as `shop.example.com/v1`; None if the definition does not have it."""
        group, _, name = api_version.rpartition("/")
        version = next((each for each in self.definition.versions if each.name == name), None)
        return version.schema if version is not None and group == self.definition.group else None

    @property
    def answers_to(self) -> frozenset[str]:
        """The names of the kind, in lower case: kind, plural, singular and short names, with and without the group."""
        own = self.definition
        names = {each.lower() for each in (own.kind, own.plural, own.singular, *own.short_names) if each}
        return frozenset(names | {f"{each}.{own.group}" for each in names})


def given_definitions(documents: Sequence[Document]) -> list[KnownDefinition]:
    """The definitions in manifests. Raises InputError with file and line for one that cannot be read."""
    found = []
    for document in documents:
        try:
            found.append(KnownDefinition(definition_of(document.value), document.where(())))
        except DecodeError as problem:
            raise InputError(f"{document.where(())}: {problem}") from None
    return found


def recorded_definitions(reader: LakeReader, until: datetime | None) -> list[KnownDefinition]:
    """The definitions that the log and the snapshots show last. One that cannot be read is left out."""
    found = []
    for cluster, _, _, text, source in reader.connection.execute(statement("definitions"), {"until": until}).fetchall():
        try:
            found.append(KnownDefinition(definition_of(json.loads(text)), source, cluster))
        except (DecodeError, ValueError):
            continue
    return found


def named(definitions: Sequence[KnownDefinition], name: str, places: str) -> KnownDefinition:
    """The definition that has this name. Raises InputError if none has, or if several groups have one."""
    wanted = name.lower()
    found = [each for each in definitions if wanted in each.answers_to]
    groups = sorted({each.definition.group for each in found})
    if len(groups) == 1:
        return found[-1]
    if groups:
        raise InputError(f"{name}: is a kind of {' and '.join(groups)}", f"name the group as well: {name}.{groups[0]}")
    known = ", ".join(sorted({each.definition.kind for each in definitions})) or "no CustomResourceDefinition"
    raise InputError(f"{name}: no definition of this kind is known; {places} have {known}", "give its file with -f")
