"""The versions in which a cluster has stored objects of a kind: a definition may not drop one of them.

An update of a definition keeps its status, and adds the storage version to status.storedVersions (apiextensions-apiserver
pkg/registry/customresourcedefinition/strategy.go, PrepareForUpdate). Each name there must be one of spec.versions
(pkg/apis/apiextensions/validation/validation.go, ValidateCustomResourceDefinitionStoredVersions).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from queries import LakeReader

from ...manifests.documents import Document
from .definition import Definition, definition_of
from .evidence.sql import statement
from .field_errors import FieldError, index, invalid
from .props import DecodeError


def dropped_errors(definition: Definition, olds: Iterable[Mapping[str, Any]]) -> Iterator[FieldError]:
    """What the API server says of a definition that drops a stored version of an old one; nothing of other definitions."""
    served = {each.name for each in definition.versions}
    for old in olds:
        if (read := _read(old)) is None or (read.plural, read.group) != (definition.plural, definition.group):
            continue
        for number, name in enumerate(_stored(old, read)):
            if name not in served:
                yield invalid(index("status.storedVersions", number), name, "must appear in spec.versions")


def recorded_values(reader: LakeReader, until: datetime | None = None) -> list[dict[str, Any]]:
    """The definitions that the log and the snapshots of each cluster show last, as JSON values."""
    return [json.loads(row[3]) for row in reader.connection.execute(statement("definitions"), {"until": until}).fetchall()]


def values_of(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """The definitions of documents as JSON values."""
    return [dict(each.value) for each in documents]


def _read(value: Mapping[str, Any]) -> Definition | None:
    try:
        return definition_of(value)
    except DecodeError:
        return None


def _stored(value: Mapping[str, Any], definition: Definition) -> list[str]:
    """The stored versions by its status; the storage version is always one of them."""
    status = value.get("status")
    told = status.get("storedVersions") if isinstance(status, dict) else None
    names = [each for each in told if isinstance(each, str)] if isinstance(told, list) else []
    storage = definition.storage_version
    return names if storage is None or storage.name in names else [*names, storage.name]
