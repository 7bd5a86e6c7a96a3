"""The versions in which a cluster has stored objects of a kind: a definition may not drop one of them.

An update of a definition keeps its status, and adds the storage version to status.storedVersions (apiextensions-apiserver
pkg/registry/customresourcedefinition/strategy.go, PrepareForUpdate). Each name there must be one of spec.versions
(pkg/apis/apiextensions/validation/validation.go, ValidateCustomResourceDefinitionStoredVersions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .definition import Definition
from .field_errors import FieldError, index, invalid


def dropped_errors(definition: Definition, olds: Iterable[Definition]) -> Iterator[FieldError]:
    """What the API server says of a definition that drops a stored version of an old one; nothing of other definitions."""
    served = {each.name for each in definition.versions}
    for old in olds:
        if (old.plural, old.group) == (definition.plural, definition.group):
            for number, name in enumerate(_stored(old)):
                if name not in served:
                    yield invalid(index("status.storedVersions", number), name, "must appear in spec.versions")


def _stored(old: Definition) -> Iterable[str]:
    """The stored versions by its status; the storage version is always one of them."""
    storage = old.storage_version
    return dict.fromkeys((*old.stored_versions, *([] if storage is None else [storage.name])))
