"""What the API server says of the smaller parts of a version: its deprecation, scale, printed columns and selectable fields.

Follows apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .definition import ScalePaths
from .field_errors import FieldError, child, duplicate, index, invalid, not_supported, required, too_many
from .field_paths import FieldPathError, field_path
from .props import Props

_SELECTABLE_MAX: Final = 8
_DEPRECATION_LENGTH_MAX: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def deprecation_errors(is_deprecated: bool, warning: str, path: str) -> Iterator[FieldError]:
    """The errors of the warning that a deprecated version prints."""
    if not is_deprecated:
        yield invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _DEPRECATION_LENGTH_MAX:
        yield invalid(path, warning, f"must be <= {_DEPRECATION_LENGTH_MAX} characters long")
    if not warning:
        yield invalid(path, warning, "must not be an empty string")
    for number, letter in enumerate(warning):
        if not letter.isprintable():
            where = len(warning[:number].encode())
            detail = f"must only contain printable UTF-8 characters; non-printable character found at index {where}"
            yield invalid(path, warning, detail)
            return


def scale_errors(scale: ScalePaths | None, path: str) -> Iterator[FieldError]:
    """The errors of the paths of the scale subresource."""
    if scale is None:
        return
    below = child(path, "scale")
    for name, value, prefix in (
        ("specReplicasPath", scale.spec_replicas, ".spec"),
        ("statusReplicasPath", scale.status_replicas, ".status"),
    ):
        where = child(below, name)
        if not value:
            yield required(where)
        elif problem := _json_path(value, where):
            yield problem
        elif not value.startswith(f"{prefix}."):
            yield invalid(where, value, f"should be a json path under {prefix}")
    selector, where = scale.label_selector, child(below, "labelSelectorPath")
    if selector:
        if problem := _json_path(selector, where):
            yield problem
        elif not selector.startswith((".spec.", ".status.")):
            yield invalid(where, selector, "should be a json path under either .spec or .status")


def _json_path(value: str, path: str) -> FieldError | None:
    return None if value.startswith(".") else invalid(path, value, "must be a simple json path starting with .")


def column_errors(column: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """The errors of one printed column."""
    types, formats = f"must be one of {','.join(_COLUMN_TYPES)}", f"must be one of {','.join(_COLUMN_FORMATS)}"
    if not column.get("name"):
        yield required(child(path, "name"))
    if not column.get("type"):
        yield required(child(path, "type"), types)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid(child(path, "type"), column["type"], types)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield invalid(child(path, "format"), column["format"], formats)
    where = child(path, "JSONPath")
    if not column.get("jsonPath"):
        yield required(where)
    elif problem := _json_path(column["jsonPath"], where):
        yield problem


def selectable_errors(fields: tuple[str, ...], schema: Props | None, path: str, schema_path: str) -> Iterator[FieldError]:
    """The errors of the selectable fields of a version, which its schema must declare."""
    if schema is None:
        yield invalid(child(path, "selectableFields"), "", "may only be set when validations.schema is included")
        return
    unique: set[str] = set()
    for number, text in enumerate(fields):
        where = child(index(child(path, "selectableFields"), number), "jsonPath")
        if not text:
            yield required(where)
            continue
        try:
            found, leaf = field_path(text, schema, allows_brackets=False)
        except FieldPathError as problem:
            yield invalid(where, text, f"is an invalid path: {problem}")
            continue
        if found.split(".")[0] == "metadata":
            yield invalid(where, text, "must not point to fields in metadata")
        if leaf is None or leaf.type not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            )
            yield invalid(where, text, detail)
        if found in unique:
            yield duplicate(where, text)
        unique.add(found)
    if len(unique) > _SELECTABLE_MAX:
        yield too_many(child(path, "selectableFields"), len(unique), _SELECTABLE_MAX)


def one_of(path: str, value: str, accepted: tuple[str, ...]) -> Iterator[FieldError]:
    """The error of a value that is not one of a few."""
    if not value:
        yield required(path)
    elif value not in accepted:
        yield not_supported(path, value, accepted)
