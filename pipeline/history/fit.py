"""Whether a value is an object as Kubernetes has them: its metadata, spec and status have the types that every kind gives them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ..request import Json


# A null means that the field is absent, as in Go; clients send many.
class _Metadata(msgspec.Struct, rename="camel"):
    name: str | UnsetType | None = UNSET
    namespace: str | UnsetType | None = UNSET
    generate_name: str | UnsetType | None = UNSET
    uid: str | UnsetType | None = UNSET
    resource_version: str | UnsetType | None = UNSET
    generation: int | UnsetType | None = UNSET
    creation_timestamp: str | UnsetType | None = UNSET
    deletion_timestamp: str | UnsetType | None = UNSET
    labels: dict[str, str | None] | UnsetType | None = UNSET
    annotations: dict[str, str | None] | UnsetType | None = UNSET
    finalizers: list[str] | UnsetType | None = UNSET
    owner_references: list[dict[str, Any]] | UnsetType | None = UNSET
    managed_fields: list[dict[str, Any]] | UnsetType | None = UNSET


class AnyObject(msgspec.Struct, rename="camel"):
    kind: str | UnsetType | None = UNSET
    api_version: str | UnsetType | None = UNSET
    metadata: _Metadata | UnsetType = UNSET
    spec: dict[str, Any] | UnsetType | None = UNSET
    status: dict[str, Any] | str | UnsetType | None = UNSET  # of a Status it is a word
    items: list[AnyObject] | UnsetType | None = UNSET


def is_fit(value: Json, wanted: type[msgspec.Struct] = AnyObject) -> bool:
    """Whether an object, or its decoded part, has the types that Kubernetes requires: those of every kind, or of the wanted one."""
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        return False
    return True
