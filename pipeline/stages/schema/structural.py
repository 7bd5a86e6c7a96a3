"""Whether a schema is structural, in the API server's words.

Follows apiextensions-apiserver pkg/apiserver/schema/{convert,validation,complete}.go. A schema has a core, which lists the fields,
and value validations, which restrict their values. Below a junctor (allOf, anyOf, oneOf, not) only value validations may stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from ...cel.evaluation.patterns import compiled
from ...cel.values import CelError
from .field_errors import FieldError, child, forbidden, index, invalid, key, required
from .props import Props

_INTEGER_OR_STRING = (Props(type="integer"), Props(type="string"))
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class Level(Enum):
    """Where a node stands. The value ends the message about a missing type."""

    ROOT = "at the root"
    ITEM = "for specified array items"
    FIELD = "for specified object fields"


class NotConvertibleError(Exception):
    """A schema with a keyword that no structural schema can have; `str()` is the API server's text."""


def convertible(schema: Props) -> None:
    """Raise NotConvertibleError if the schema has a keyword that rules out every other check of its structure."""
    for node in _spine(schema):
        unsupported = {
            "id": node.id,
            "schema": node.schema,
            "$ref": node.ref,
            "patternProperties": node.has_pattern_properties,
            "dependencies": node.dependencies,
            "additionalItems": node.additional_items is not None,
            "definitions": node.definitions,
        }
        for name, value in unsupported.items():
            if value:
                raise NotConvertibleError(f"OpenAPIV3Schema '{name}' is not supported")
        if node.several_items:
            raise NotConvertibleError("OpenAPIV3Schema 'items' must be a schema, but is an array")
        if node.preserves_unknown_fields is False:
            raise NotConvertibleError(f"internal error: '{_PRESERVE}' must be true or undefined")


def _spine(schema: Props) -> Iterator[Props]:
    """The nodes in the order in which the API server converts them: a node, its junctors, then what it contains."""
    yield schema
    within = [schema.not_, *schema.all_of, *schema.any_of, *schema.one_of, schema.items, *schema.properties.values(), schema.values]
    for each in within:
        if each is not None:
            yield from _spine(each)


def structural_errors(schema: Props, path: str) -> list[FieldError]:
    """The violations that the API server reports, sorted by text. The schema must be convertible."""
    found = [*_core(schema, Level.ROOT, path), *_incomplete(schema, schema, path, path)]
    return sorted(found, key=str)


def incomplete_within(schema: Props, path: str) -> list[FieldError]:
    """Validations of undeclared fields below the root, which the API server does not look for (T000-3, rule 3-ii).

    The API server checks only the junctors of the root; the design of structural schemas asks for all of them.
    """
    found: list[FieldError] = []
    pending = [(each, where) for each, where in _children(schema, path)]
    while pending:
        node, where = pending.pop()
        found += _incomplete(node, node, where, where)
        pending += _children(node, where)
    return sorted(found, key=str)


def _children(node: Props, path: str) -> Iterator[tuple[Props, str]]:
    for name, each in node.properties.items():
        yield each, key(child(path, "properties"), name)
    if node.items is not None:
        yield node.items, child(path, "items")
    if node.values is not None:
        yield node.values, child(path, "additionalProperties")


def _core(node: Props, level: Level, path: str) -> Iterator[FieldError]:
    """The violations of a node of the core and of all within it."""
    if node.type == "array" and node.items is None:
        yield required(child(path, "items"), "must be specified")
    if node.items is not None:
        yield from _core(node.items, Level.ITEM, child(path, "items"))
    for name, each in node.properties.items():
        yield from _core(each, Level.FIELD, key(child(path, "properties"), name))
    if node.additional_properties is not None:
        if level is Level.ROOT:
            yield forbidden(child(path, "additionalProperties"), "must not be used at the root")
        if node.values is not None:
            yield from _core(node.values, Level.FIELD, child(path, "additionalProperties"))
    if node.is_int_or_string and node.preserves_unknown_fields:
        yield invalid(child(path, _PRESERVE), True, f"must be false if {_INT_OR_STRING} is true")
    if node.is_int_or_string and node.is_embedded_resource:
        yield invalid(child(path, _EMBEDDED), True, f"must be false if {_INT_OR_STRING} is true")
    skips_any_of = node.any_of == _INTEGER_OR_STRING
    skips_first = bool(node.all_of) and node.all_of[0].any_of == _INTEGER_OR_STRING
    yield from _validations(node, skips_any_of, skips_first, path)
    yield from _type(node, level, path)
    yield from _resource(node, level, path)


def _type(node: Props, level: Level, path: str) -> Iterator[FieldError]:
    if node.is_embedded_resource and node.type != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        where = child(path, "type")
        yield invalid(where, node.type, detail) if node.type else required(where, detail)
    elif not node.type and not node.is_int_or_string and not node.preserves_unknown_fields:
        yield required(child(path, "type"), f"must not be empty {level.value}")
    if level is Level.ROOT and node.type and node.type != "object":
        yield invalid(child(path, "type"), node.type, "must be object at the root")


def _resource(node: Props, level: Level, path: str) -> Iterator[FieldError]:
    """The rules of resources: of the root, and of embedded ones."""
    if node.is_embedded_resource and node.additional_properties is not None:
        yield forbidden(child(path, "additionalProperties"), f"must not be used if {_EMBEDDED} is set")
    within = child(path, "properties")
    is_resource = level is Level.ROOT or node.is_embedded_resource
    for name in ("kind", "apiVersion"):
        declared = node.properties.get(name)
        if is_resource and declared is not None and declared.type != "string":
            yield invalid(child(key(within, name), "type"), declared.type, "must be string")
    metadata = node.properties.get("metadata")
    if metadata is not None and is_resource and metadata.type != "object":
        yield invalid(child(key(within, "metadata"), "type"), metadata.type, "must be object")
    if metadata is not None and level is Level.ROOT and not _is_plain_metadata(metadata):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(key(within, "metadata"), detail)
    if node.is_embedded_resource and not node.preserves_unknown_fields and not node.properties:
        yield required(within, f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}")


def _is_plain_metadata(metadata: Props) -> bool:
    """Whether the root's metadata restricts nothing but name and generateName. Its own type and default do not count."""
    named = set(metadata.properties) <= {"name", "generateName"}
    properties = {} if named else metadata.properties
    return Props(type=metadata.type, has_default=metadata.has_default, default=metadata.default) == _with(metadata, properties)


def _with(node: Props, properties: object) -> Props:
    values = {name: getattr(node, name) for name in Props.__slots__ if name != "raw"}
    return Props(**{**values, "properties": properties})


def _validations(node: Props, skips_any_of: bool, skips_first: bool, path: str) -> Iterator[FieldError]:
    """The violations of the value validations of a node; the two forms of int-or-string may name types."""
    if not skips_any_of:
        for number, each in enumerate(node.any_of):
            yield from _nested(each, False, index(child(path, "anyOf"), number))
    for number, each in enumerate(node.all_of):
        yield from _nested(each, skips_first and number == 0, index(child(path, "allOf"), number))
    for number, each in enumerate(node.one_of):
        yield from _nested(each, False, index(child(path, "oneOf"), number))
    if node.not_ is not None:
        yield from _nested(node.not_, False, child(path, "not"))
    if node.pattern:
        try:
            compiled(node.pattern)
        except CelError as problem:
            detail = f"must be a valid regular expression, but isn't: {problem.message}"
            yield invalid(child(path, "pattern"), node.pattern, detail)


def _nested(node: Props, skips_any_of: bool, path: str) -> Iterator[FieldError]:
    """The violations of a node below a junctor."""
    yield from _validations(node, skips_any_of, False, path)
    if node.items is not None:
        yield from _nested(node.items, False, child(path, "items"))
    for name, each in node.properties.items():
        yield from _nested(each, False, key(child(path, "properties"), name))
    # `additionalProperties: false` counts as not set here.
    values = node.additional_properties
    set_fields = {
        "type": (bool(node.type), "empty"),
        "additionalProperties": (values is not None and (values.schema is not None or values.allows), "undefined"),
        "default": (node.has_default, "undefined"),
        "title": (bool(node.title), "empty"),
        "description": (bool(node.description), "empty"),
        "nullable": (node.nullable, "false"),
        _PRESERVE: (bool(node.preserves_unknown_fields), "false"),
        _EMBEDDED: (node.is_embedded_resource, "false"),
        _INT_OR_STRING: (node.is_int_or_string, "false"),
        "x-kubernetes-list-map-keys": (bool(node.list_map_keys), "empty"),
        "x-kubernetes-list-type": (node.list_type is not None, "undefined"),
        "x-kubernetes-map-type": (node.map_type is not None, "undefined"),
        "x-kubernetes-validations": (bool(node.rules), "empty"),
    }
    for name, (is_set, wanted) in set_fields.items():
        if is_set:
            yield forbidden(child(path, name), f"must be {wanted} to be structural")
    if "metadata" in node.properties:
        yield forbidden(key(child(path, "properties"), "metadata"), "must not be specified in a nested context")


def _incomplete(node: Props, core: Props, core_path: str, path: str) -> Iterator[FieldError]:
    """The fields and items that the junctors of a node mention and the core does not declare."""
    if node.not_ is not None:
        yield from _undeclared(node.not_, core, core_path, child(path, "not"))
    for name, junctor in (("allOf", node.all_of), ("anyOf", node.any_of), ("oneOf", node.one_of)):
        for number, each in enumerate(junctor):
            yield from _undeclared(each, core, core_path, index(child(path, name), number))


def _undeclared(node: Props, core: Props | None, core_path: str, path: str) -> Iterator[FieldError]:
    if core is None:
        yield required(core_path, f"because it is defined in {path}")
        return
    yield from _incomplete(node, core, core_path, path)
    if node.items is not None:
        yield from _undeclared(node.items, core.items, child(core_path, "items"), child(path, "items"))
    for name, each in node.properties.items():
        where = key(child(core_path, "properties"), name)
        yield from _undeclared(each, core.properties.get(name), where, key(child(path, "properties"), name))
