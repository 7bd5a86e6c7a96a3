"""What an API server makes of one written object under one version of a definition: refused with field errors, or stored like this.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go (decoding) and pkg/registry/customresource/strategy.go,
status_strategy.go and validator.go (preparation and validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from ...cel.minors import DEFAULT
from .correlation import Correlated, same
from .definition import Definition, ScalePaths, Version
from .field_errors import BLOCKING, FieldError, invalid, joined
from .formats import Version as KubernetesVersion
from .metadata import MetadataError, coerce, embedded_errors, metadata_errors, object_meta
from .props import Props
from .pruning import drop_nulls, prune, set_defaults, without_unknown_defaults
from .quick import Check, never, tidy_check
from .rule_run import run_rules
from .rules import compile_rules
from .uniqueness import duplicates
from .values import Validator

NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)
_CONTAINERS: Final = frozenset((dict, list))
_INT32_MAX: Final = 2**31 - 1
# The feature gate CRDValidationRatcheting is on by default from here on (apiextensions-apiserver pkg/features/kube_features.go).
_RATCHETS_SINCE: Final = (1, 30)


class Operation(StrEnum):
    """How an object is written."""

    CREATE = "create"
    UPDATE = "update"
    STATUS = "status"


class UndecodableError(Exception):
    """An object that cannot be read as its kind: the API server answers 400 with `str()`."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object as decoding leaves it. `unknown` are the paths of the fields that the schema does not know."""

    value: dict[str, Any]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write. With errors it is refused with 422; `undecided` says which rules could not be evaluated.

    `warnings` are the errors that were ratcheted with a warning, and `ratcheted` those without one: they do not count, because the
    value did not change. `value` is the object after preparation.
    """

    value: dict[str, Any]
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()
    undecided: tuple[str, ...] = ()
    ratcheted: tuple[FieldError, ...] = ()

    def message(self, kind: ObjectKind) -> str:
        """The message of the refusal."""
        name = (self.value.get("metadata") or {}).get("name", "")
        return f'{kind.kind}.{kind.group} "{name}" is invalid: {joined(self.errors)}'


@dataclass(frozen=True)
class ObjectKind:
    """One version of a definition, compiled."""

    group: str
    kind: str
    version: str
    is_namespaced: bool
    prunes: bool
    schema: Props
    validator: Validator
    rules: Any
    has_status: bool = False
    scale: ScalePaths | None = None
    status_validator: Validator | None = field(default=None)
    has_embedded: bool = True
    has_unique_lists: bool = True
    is_tidy: Check = never
    ratchets: bool = True

    @property
    def api_version(self) -> str:
        """GROUP/VERSION"""
        return f"{self.group}/{self.version}"


def object_kind(definition: Definition, version: Version, kubernetes_version: KubernetesVersion = DEFAULT) -> ObjectKind:
    """Compile one version of a definition. A version without a schema accepts every object and keeps all its fields."""
    written = version.schema if version.schema is not None else Props(type="object", preserves_unknown_fields=True)
    schema = without_unknown_defaults(written)
    status = schema.properties.get("status")
    return ObjectKind(
        group=definition.group,
        kind=definition.kind,
        version=version.name,
        is_namespaced=definition.is_namespaced,
        prunes=not definition.preserves_unknown_fields,
        schema=schema,
        validator=Validator(schema, kubernetes_version),
        rules=compile_rules(schema, kubernetes_version),
        has_status=version.has_status,
        scale=version.scale,
        status_validator=None if status is None else Validator(status, kubernetes_version),
        is_tidy=tidy_check(schema),
        has_embedded=any(node.is_embedded_resource for node in schema.nodes()),
        has_unique_lists=any(node.list_type in ("set", "map") for node in schema.nodes()),
        ratchets=kubernetes_version >= _RATCHETS_SINCE,
    )


def decode(kind: ObjectKind, raw: dict[str, Any], is_stored: bool = False) -> Decoded:
    """Prune, drop nulls, read the metadata, and set defaults; the given object stays as it is. Raises UndecodableError.

    `is_stored`: the object comes from storage, where malformed metadata is dropped instead of refused.
    """
    if not is_stored and not raw.get("kind"):
        raise UndecodableError(f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing")
    if not is_stored and (given := raw.get("apiVersion", "")) != kind.api_version:
        text = f"the API version in the data ({given}) does not match the expected API version ({kind.api_version})"
        raise UndecodableError(text)
    value = _copied(raw)
    unknown: list[str] = []
    meta: dict[str, Any] | None = None
    if "metadata" in value:
        in_metadata: list[str] = []
        try:
            meta = object_meta(value["metadata"], in_metadata, is_stored)
        except MetadataError as problem:
            raise UndecodableError(str(problem)) from None
        unknown += [f"metadata.{each}" for each in in_metadata]
    kept = {name: value[name] for name in ("apiVersion", "kind") if isinstance(value.get(name), str)}
    is_tidy = kind.is_tidy(value)
    if kind.prunes and not is_tidy:
        unknown += prune(value, kind.schema)
        drop_nulls(value, kind.schema)
    if kind.has_embedded and not is_tidy and (refused := coerce(value, kind.schema, "", unknown, is_stored)) is not None:
        raise UndecodableError(str(refused))
    value.update(kept)
    if meta is not None:
        value["metadata"] = meta
    if not is_tidy:
        set_defaults(value, kind.schema)
    return Decoded(value, tuple(sorted(unknown)))


def _copied(value: Any) -> Any:
    """A copy of a JSON value; `copy.deepcopy` takes several times as long."""
    kind = value.__class__
    if kind is dict:
        return {name: _copied(item) if item.__class__ in _CONTAINERS else item for name, item in value.items()}
    return [_copied(item) if item.__class__ in _CONTAINERS else item for item in value] if kind is list else value


def write(kind: ObjectKind, operation: Operation, new: dict[str, Any], old: dict[str, Any] | None = None) -> Written:
    """The outcome of writing a decoded object; `old` is the decoded stored object of an update. Neither is changed."""
    if operation is Operation.CREATE or old is None:
        return _created(kind, new)
    value = _prepared_status(new, old) if operation is Operation.STATUS else _prepared(kind, new, old)
    if errors := list(_type_errors(kind, value)):
        return Written(value, tuple(errors))
    pair = Correlated(value, old, kind.schema) if kind.ratchets else None
    found = list(_update_metadata_errors(kind, value, old))
    ratcheted: list[FieldError] = []
    if operation is Operation.STATUS:
        if "status" in value and kind.status_validator is not None:
            below = None if pair is None else pair.key("status")
            found += _unless_unchanged(kind.status_validator, value["status"], "status", below, ratcheted)
        found += _scale_status_errors(value, kind.scale)
    else:
        found += _unless_unchanged(kind.validator, value, "", pair, ratcheted)
        found += _scale_spec_errors(value, kind.scale)
        found += _scale_status_errors(value, kind.scale)
        found += embedded_errors(value, kind.schema) if kind.has_embedded else ()
    if kind.has_unique_lists and (repeated := list(duplicates(value, kind.schema))):
        was_valid = next(duplicates(old, kind.schema), None) is None
        (found if was_valid else ratcheted).extend(repeated)
    written = _with_rules(kind, value, found, old, pair)
    return replace(written, ratcheted=tuple(ratcheted)) if ratcheted else written


def _unless_unchanged(
    validator: Validator, value: Any, path: str, pair: Correlated | None, ratcheted: list[FieldError]
) -> Sequence[FieldError]:
    """The errors of a value that count; those that do not, because their value did not change, go to `ratcheted`."""
    every = list(validator.errors(value, path))
    if pair is None or not every:
        return every
    found = list(validator.errors(value, path, pair))
    counted = set(found)
    ratcheted += [each for each in every if each not in counted]
    return found


def _created(kind: ObjectKind, new: dict[str, Any]) -> Written:
    value = {name: item for name, item in new.items() if name != "status" or not kind.has_status}
    value["metadata"] = {**(value.get("metadata") or {}), "generation": 1}
    if errors := list(_type_errors(kind, value)):
        return Written(value, tuple(errors))
    found = list(metadata_errors(value["metadata"], "metadata", kind.is_namespaced))
    found += kind.validator.errors(value)
    found += _scale_spec_errors(value, kind.scale)
    found += _scale_status_errors(value, kind.scale)
    found += embedded_errors(value, kind.schema) if kind.has_embedded else ()
    found += duplicates(value, kind.schema) if kind.has_unique_lists else ()
    return _with_rules(kind, value, found, None, None)


def _with_rules(kind: ObjectKind, value: dict[str, Any], found: Sequence[FieldError], old: Any, pair: Correlated | None) -> Written:
    """The outcome with that of the rules, which are not evaluated after an error that blocks them."""
    if kind.rules is None:
        return Written(value, tuple(found))
    if any(each.reason in BLOCKING for each in found):
        return Written(value, (*found, invalid("", None, NOT_CHECKED)))
    ruled = run_rules(kind.rules, value, old, pair)
    return Written(value, (*found, *ruled.errors), tuple(ruled.warnings), tuple(ruled.unknown))


def _prepared(kind: ObjectKind, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """An update of the object itself: with a status subresource, it cannot change the status."""
    value = dict(new)
    if kind.has_status:
        value.pop("status", None)
        if "status" in old:
            value["status"] = old["status"]
    return _with_generation(value, old)


def _prepared_status(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """An update of the status: everything else stays."""
    value = {name: item for name, item in old.items() if name != "status"}
    if "status" in new:
        value["status"] = new["status"]
    return value


def _with_generation(value: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """The generation counts the changes of anything but the metadata."""
    metadata = dict(value.get("metadata") or {})
    before = (old.get("metadata") or {}).get("generation", 0)
    changed = not same(_without_metadata(value), _without_metadata(old))
    metadata["generation"] = before + 1 if changed else before
    return {**value, "metadata": metadata}


def _without_metadata(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != "metadata"}


def _type_errors(kind: ObjectKind, value: dict[str, Any]) -> Iterator[FieldError]:
    for name, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        if value.get(name, "") != wanted:
            yield invalid(name, value.get(name, ""), f"must be {wanted}")


def _update_metadata_errors(kind: ObjectKind, value: dict[str, Any], old: dict[str, Any]) -> Iterator[FieldError]:
    """The errors of changed metadata; the name was checked when the object was created."""
    metadata, before = value.get("metadata") or {}, old.get("metadata") or {}
    for each in metadata_errors({**metadata, "name": "fakename", "generateName": ""}, "metadata", kind.is_namespaced):
        if each.field != "metadata.namespace":
            yield each
    for name in ("name", "namespace"):
        if metadata.get(name) != before.get(name):
            yield invalid(f"metadata.{name}", metadata.get(name, ""), "field is immutable")


def _at(value: Any, path: str) -> tuple[Any, bool]:
    """The value at a path such as `.spec.replicas`, and whether all around it are objects."""
    for name in path.removeprefix(".").split("."):
        if not isinstance(value, dict):
            return value, False
        if name not in value:
            return None, True
        value = value[name]
    return value, True


def _scale_spec_errors(value: dict[str, Any], scale: ScalePaths | None) -> Iterator[FieldError]:
    if scale is not None:
        yield from _replica_errors(value, scale.spec_replicas)


def _scale_status_errors(value: dict[str, Any], scale: ScalePaths | None) -> Iterator[FieldError]:
    if scale is None:
        return
    yield from _replica_errors(value, scale.status_replicas)
    if scale.label_selector is not None:
        found, _ = _at(value, scale.label_selector)
        if found is not None and not isinstance(found, str):
            yield invalid(scale.label_selector, "", _accessor(scale.label_selector, found, "string"))


def _replica_errors(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    found, is_reached = _at(value, path)
    if found is None:
        return
    if not is_reached:
        yield invalid(path, 0, _accessor(path, found, "map[string]interface{}"))
    elif not isinstance(found, int) or isinstance(found, bool):
        yield invalid(path, 0, _accessor(path, found, "int64"))
    elif found < 0:
        yield invalid(path, found, "should be a non-negative integer")
    elif found > _INT32_MAX:
        yield invalid(path, found, f"should be less than or equal to {_INT32_MAX}")


def _accessor(path: str, found: Any, wanted: str) -> str:
    kinds = {bool: "bool", str: "string", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    return f"{path} accessor error: {found} is of the type {kinds[found.__class__]}, expected {wanted}"
