"""The kind of a request's object, as far as it is known: its shape, and for a custom kind its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...manifests.documents import Document
from ...matching.equivalence import BUILT_IN_GROUPS
from ...policies.model import ParamKind
from ...request import AdmissionRequest, Evidence, GroupVersionKind, Object, Unknown
from ...world import World
from ..schema.checking import read_definition
from ..schema.structural import NotConvertibleError
from ..schema.writing import ObjectKind, object_kind
from .shapes import Shape, built_in_shape, metadata_shape, shape_of_schema

DEFINITION = ParamKind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@dataclass(frozen=True)
class KnownKind:
    """A kind with its shape. `custom` is its compiled definition; None for a built-in kind.

    `has_metadata_alone`: of this built-in kind only the metadata are known, and a mutation of other fields is unknown.
    """

    kind: GroupVersionKind
    shape: Shape
    custom: ObjectKind | None = None
    has_metadata_alone: bool = False


class Kinds:
    """The kinds of objects, each read once per version of its definition."""

    def __init__(self, version: tuple[int, int]) -> None:
        self._version = version
        self._read: dict[tuple[int, str], tuple[Object, KnownKind | Unknown]] = {}

    def of(self, request: AdmissionRequest, kind: GroupVersionKind, world: World) -> KnownKind | Unknown:
        """The kind of a request's object, or why it is not known."""
        shape = built_in_shape(kind)
        if shape is not None:
            return KnownKind(kind, shape)
        if request.resource.group in BUILT_IN_GROUPS or kind.group in BUILT_IN_GROUPS:
            return KnownKind(kind, metadata_shape(), has_metadata_alone=True)
        name = f"{request.resource.resource}.{request.resource.group}"
        found = world.param(DEFINITION.api_version, DEFINITION.kind, "", name)
        if isinstance(found, Unknown):
            return Unknown(f"the definition of {name}: {found.reason}")
        if found.value is None:
            return Unknown(f"no definition of {name} is recorded or given")
        key = (id(found.value), kind.version)
        if key not in self._read:
            self._read[key] = (found.value, self._custom(found.value, kind, found))
        return self._read[key][1]

    def _custom(self, definition: Object, kind: GroupVersionKind, found: Evidence[Any]) -> KnownKind | Unknown:
        read = read_definition(Document(definition, str(getattr(found, "source", ""))))
        for each in read.versions:
            if each.name == kind.version:
                try:
                    custom = object_kind(read, each, self._version)
                except NotConvertibleError as problem:
                    return Unknown(f"the schema of {kind.kind} of {kind.group}/{kind.version} cannot be read: {problem}")
                return KnownKind(kind, shape_of_schema(custom.schema), custom)
        return Unknown(f"{kind.group}/{kind.version} is not a version of the definition of {kind.kind}")
