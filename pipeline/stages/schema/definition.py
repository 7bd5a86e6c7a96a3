"""CustomResourceDefinitions as the API server reads them: v1, and v1beta1 files with their older places of the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .props import DecodeError, Props, props_of

GROUP: Final = "apiextensions.k8s.io"
KIND: Final = "CustomResourceDefinition"
API_VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_BEFORE: Final = "spec.versions.schema.openAPIV3Schema"


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The scale subresource of a version."""

    spec_replicas: str = ""
    status_replicas: str = ""
    label_selector: str | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a kind. `schema` is None if the version has none."""

    name: str
    served: bool
    storage: bool
    schema: Props | None = None
    has_status: bool = False
    has_subresources: bool = False
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
    columns: tuple[Mapping[str, Any], ...] = ()
    deprecated: bool = False
    deprecation_warning: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition. `preserves_unknown_fields` turns pruning off for all versions; None in a v1beta1 file means true."""

    name: str
    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    scope: str
    versions: tuple[Version, ...]
    preserves_unknown_fields: bool = False
    is_v1beta1: bool = False
    has_shared_schema: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    conversion: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    stored_versions: tuple[str, ...] = ()  # by its status, which a file may lack

    @property
    def is_namespaced(self) -> bool:
        """Whether objects of the kind live in namespaces."""
        return self.scope == "Namespaced"

    def version(self, name: str) -> Version | None:
        """The version of this name that is served."""
        return next((each for each in self.versions if each.name == name and each.served), None)

    @property
    def storage_version(self) -> Version | None:
        """The version that objects are stored as."""
        return next((each for each in self.versions if each.storage), None)


def definition_of(document: Mapping[str, Any]) -> Definition:
    """The definition in a manifest. Raises DecodeError with the API server's words for a field of a wrong type."""
    spec = _mapping(document, "spec")
    metadata = _mapping(document, "metadata")
    names = _mapping(spec, "names")
    is_v1beta1 = document.get("apiVersion") == API_VERSIONS[1]
    kind = _text(names, "kind")
    preserves = spec.get("preserveUnknownFields")
    shared = _schema(spec, "validation", "spec.validation.openAPIV3Schema") if is_v1beta1 else None
    raw_versions = _list(spec, "versions")
    if is_v1beta1 and not raw_versions and spec.get("version"):
        raw_versions = [{"name": spec["version"], "served": True, "storage": True}]
    return Definition(
        name=_text(metadata, "name"),
        group=_text(spec, "group"),
        plural=_text(names, "plural"),
        singular=_text(names, "singular") or kind.lower(),
        kind=kind,
        list_kind=_text(names, "listKind") or (f"{kind}List" if kind else ""),
        scope=_text(spec, "scope") or ("Namespaced" if is_v1beta1 else ""),
        versions=tuple(_version(_item(each, "versions"), spec if is_v1beta1 else {}, shared) for each in raw_versions),
        preserves_unknown_fields=is_v1beta1 if preserves is None else bool(preserves),
        is_v1beta1=is_v1beta1,
        has_shared_schema=shared is not None,
        short_names=_texts(names, "shortNames"),
        categories=_texts(names, "categories"),
        conversion=_conversion(_mapping(spec, "conversion")),
        annotations=_mapping(metadata, "annotations"),
        stored_versions=_stored_versions(document.get("status")),
    )


def _stored_versions(status: Any) -> tuple[str, ...]:
    """Only names: a server writes the status, and takes none from a client."""
    told = status.get("storedVersions") if isinstance(status, dict) else None
    return tuple(each for each in told if isinstance(each, str)) if isinstance(told, list) else ()


def _version(raw: Mapping[str, Any], spec: Mapping[str, Any], shared: Props | None) -> Version:
    """One version. A v1beta1 `spec` has the fields that all versions share."""
    own = _schema(raw, "schema", _BEFORE)
    holder = raw if raw.get("subresources") is not None else spec
    subresources = _mapping(holder, "subresources")
    scale = _mapping(subresources, "scale")
    columns = _list(raw, "additionalPrinterColumns") or _list(spec, "additionalPrinterColumns")
    fields = _list(raw, "selectableFields") or _list(spec, "selectableFields")
    warning = raw.get("deprecationWarning")
    return Version(
        name=_text(raw, "name"),
        served=bool(raw.get("served")),
        storage=bool(raw.get("storage")),
        schema=shared if own is None else own,
        has_status=subresources.get("status") is not None,
        has_subresources=holder.get("subresources") is not None,
        scale=None if subresources.get("scale") is None else _scale(scale),
        selectable_fields=tuple(_text(_item(each, "selectableFields"), "jsonPath") for each in fields),
        columns=tuple(_column(_item(each, "additionalPrinterColumns")) for each in columns),
        deprecated=bool(raw.get("deprecated")),
        deprecation_warning=None if warning is None else _text(raw, "deprecationWarning"),
    )


def _scale(raw: Mapping[str, Any]) -> ScalePaths:
    selector = None if raw.get("labelSelectorPath") is None else _text(raw, "labelSelectorPath")
    return ScalePaths(_text(raw, "specReplicasPath"), _text(raw, "statusReplicasPath"), selector)


def _column(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: _text(raw, name) for name in ("name", "type", "format", "jsonPath")}


def _schema(raw: Mapping[str, Any], name: str, at: str) -> Props | None:
    schema = _mapping(raw, name).get("openAPIV3Schema")
    return None if schema is None else props_of(schema, at)


def _item(raw: Any, name: str) -> Mapping[str, Any]:
    """An item of a list of objects; null is an empty one."""
    return _mapping({name: raw}, name)


def _list(raw: Mapping[str, Any], name: str) -> list[Any]:
    value = raw.get(name)
    if value is not None and not isinstance(value, list):
        raise DecodeError(f"json: cannot unmarshal value into Go struct field .{name} of type list")
    return value or []


def _texts(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(_text({name: each}, name) for each in _list(raw, name))


def _mapping(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DecodeError(f"json: cannot unmarshal value into Go struct field .{name} of type object")
    return value


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DecodeError(f"json: cannot unmarshal value into Go struct field .{name} of type string")
    return value


def _conversion(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The conversion with the types of its fields checked."""
    if not raw:
        return {}
    webhook = _mapping(raw, "webhook")
    config = None if webhook.get("clientConfig") is None else _mapping(webhook, "clientConfig")
    versions = list(_texts(webhook, "conversionReviewVersions"))
    return {"strategy": _text(raw, "strategy"), "webhook": {"clientConfig": config, "conversionReviewVersions": versions}}
