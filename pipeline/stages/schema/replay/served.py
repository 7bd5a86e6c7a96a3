"""One definition as an API server serves it: its versions compiled, and objects read from storage and converted between them.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go: every decoding and every conversion prunes and defaults by
the schema of the version that it leads to.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from ..definition import Definition
from ..formats import Version as KubernetesVersion
from ..structural import NotConvertibleError
from ..writing import ObjectKind, UndecodableError, decode, object_kind

NONE: Final = "None"


class UndecidedError(Exception):
    """The answer cannot be known. `str()` is the reason, in words that a report can print."""


class Served:
    """A definition under one Kubernetes version. Versions are compiled when they are first asked for."""

    def __init__(self, definition: Definition, kubernetes_version: KubernetesVersion) -> None:
        self.definition = definition
        self.kubernetes_version = kubernetes_version
        self._kinds: dict[str, ObjectKind] = {}

    @property
    def name(self) -> str:
        """PLURAL.GROUP"""
        return f"{self.definition.plural}.{self.definition.group}"

    def kind(self, version: str) -> ObjectKind | None:
        """A version that is served, or None."""
        return None if self.definition.version(version) is None else self._compiled(version)

    @cached_property
    def storage(self) -> ObjectKind:
        """The version that objects are stored as. Every definition that an API server accepts has one."""
        version = self.definition.storage_version
        assert version is not None
        return self._compiled(version.name)

    @property
    def converts_by_webhook(self) -> bool:
        """Whether a webhook converts between the versions: its answers are not recorded."""
        return str(self.definition.conversion.get("strategy") or NONE) != NONE

    def read(self, stored: dict[str, Any], version: str, kind: ObjectKind, stored_as: str = "") -> dict[str, Any]:
        """A stored object as a request in one version meets it. `version` is the one in which the object is known.

        `stored_as` is the version of its bytes; empty for the storage version. Raises UndecidedError where a webhook converts.
        """
        bytes_kind = self._compiled(stored_as) if stored_as else self.storage
        raw = self._converted(stored, version, bytes_kind)
        try:
            value = decode(bytes_kind, raw, is_stored=True).value
        except UndecodableError as problem:
            raise UndecidedError(f"the stored object cannot be read: {problem}") from None
        return self._decoded_as(value, kind)

    def answered(self, written: dict[str, Any], kind: ObjectKind) -> dict[str, Any]:
        """A written object as the answer shows it: it was converted for storage, and back."""
        if kind.version == self.storage.version:
            return written
        if self.converts_by_webhook:
            raise UndecidedError("a webhook converts between the versions, and its answer is not recorded")
        return self._decoded_as(self._decoded_as(written, self.storage), kind)

    def _decoded_as(self, value: dict[str, Any], kind: ObjectKind) -> dict[str, Any]:
        if value.get("apiVersion") == kind.api_version:
            return value
        raw = self._converted(value, str(value.get("apiVersion")).rpartition("/")[2], kind)
        try:
            return decode(kind, raw, is_stored=True).value
        except UndecodableError as problem:
            raise UndecidedError(f"the object cannot be converted: {problem}") from None

    def _converted(self, value: dict[str, Any], version: str, kind: ObjectKind) -> dict[str, Any]:
        """The object with another apiVersion, which is all that the conversion None changes."""
        if version != kind.version and self.converts_by_webhook:
            raise UndecidedError("a webhook converts between the versions, and its answer is not recorded")
        return {**value, "apiVersion": kind.api_version}

    def _compiled(self, version: str) -> ObjectKind:
        found = self._kinds.get(version)
        if found is None:
            own = next((each for each in self.definition.versions if each.name == version), None)
            if own is None:
                raise UndecidedError(f"objects are stored as {version}, and a definition lacks this version")
            try:
                found = self._kinds[version] = object_kind(self.definition, own, self.kubernetes_version)
            except NotConvertibleError as problem:
                raise UndecidedError(f"a definition is not structural: {problem}") from None
        return found
