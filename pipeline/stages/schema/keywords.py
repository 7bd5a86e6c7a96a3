"""The rules for the keywords of a schema beyond its structure, and for its CEL rules.

Follows ValidateCustomResourceDefinitionOpenAPISchema of apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
with cel_validation.go for the estimated costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...cel.checking.schema_types import SchemaType, escape
from .field_errors import FieldError, GoText, child, forbidden, index, internal, invalid, key, not_supported, required
from .field_paths import FieldPathError, field_path
from .go_struct import rule_struct
from .props import Props, Rule
from .rules import CompiledRule, Server, cardinality_max, declared_type, node_rules

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META: Final = frozenset(("metadata", "kind", "apiVersion"))
_COST_MAX, _TOTAL_COST_MAX, _UINT_MAX = 10_000_000, 100_000_000, 2**64 - 1
_NEWLINE: Final = re.compile(r"[\n\r]")
_VALIDATIONS: Final = "x-kubernetes-validations"


@dataclass
class TotalCost:
    """The estimated cost of all rules of one schema, and the four dearest rules that are worth a mention."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: str, cost: int) -> None:
        """Add the cost of one expression."""
        self.total = min(self.total + cost, _UINT_MAX)
        if cost >= _TOTAL_COST_MAX // 100:
            self.dearest = sorted([*self.dearest, (cost, path)], key=lambda each: -each[0])[:4]

    def errors(self, path: str) -> Iterator[FieldError]:
        """The errors of a schema at `path` whose rules are too dear together."""
        if self.total > _TOTAL_COST_MAX:
            for _, where in self.dearest:
                yield forbidden(where, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
            name = f"{_VALIDATIONS} estimated rule cost total for entire OpenAPIv3 schema"
            yield forbidden(path, too_dear(name, self.total, _TOTAL_COST_MAX))


def too_dear(name: str, cost: int, cost_max: int) -> str:
    """The API server's text for a cost above a limit."""
    factor = cost / cost_max
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
    )
    return f"{name} exceeds budget by factor of {shown} ({advice})"


@dataclass(frozen=True)
class _Costs:
    """What costs and types depend on at one node: how many values there can be, and the total."""

    total: TotalCost
    server: Server
    cardinality: int | None = 1
    is_root: bool = True
    in_rule: bool = False
    type: SchemaType | None = None

    def below(self, node: Props, schema: Props | None, type_: SchemaType | None) -> _Costs:
        most: int | None = 1
        if node.type == "array":
            most = None if node.max_items is None else max(node.max_items, 0)
        elif node.type == "object" and node.additional_properties is not None:
            most = None if node.max_properties is None else max(node.max_properties, 0)
        cardinality = None if most is None or self.cardinality is None else min(self.cardinality * most, _UINT_MAX)
        in_rule = self.in_rule or (schema is not None and bool(schema.rules))
        return replace(self, cardinality=cardinality, is_root=False, in_rule=in_rule, type=type_)


@dataclass(frozen=True)
class _Context:
    """What the place of a node forbids: defaults with a reason, and oldSelf within an uncorrelatable path."""

    no_defaults: str | None = None
    is_meta: bool = False
    uncorrelatable: str | None = None


@dataclass
class _Found:
    schema: list[FieldError] = field(default_factory=list)
    cel: list[FieldError] = field(default_factory=list)

    def take(self, other: _Found) -> None:
        self.schema += other.schema
        self.cel += other.cel


def keyword_errors(schema: Props, path: str, server: Server, total: TotalCost | None) -> list[FieldError]:
    """The errors of a schema's keywords. With a `total`, its rules are compiled and their costs added."""
    costs = None if total is None else _Costs(total, server, in_rule=bool(schema.rules))
    found = _walk(schema, path, _Context(), True, costs)
    return found.schema + found.cel


def _walk(node: Props, path: str, context: _Context, is_root: bool, costs: _Costs | None) -> _Found:
    found = _Found(list(_own(node, path, context)))
    if node.unique_items:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.schema.append(forbidden(child(path, "uniqueItems"), detail))
    if node.additional_properties is not None:
        if node.properties and (not node.additional_properties.allows or node.values is not None):
            detail = "additionalProperties and properties are mutual exclusive"
            found.schema.append(forbidden(child(path, "additionalProperties"), detail))
        if node.values is not None:
            reason = "inside additionalProperties applying to object metadata"
            within = replace(context, no_defaults=reason) if context.is_meta else context
            below = costs and costs.below(node, node.values, _element(costs))
            found.take(_walk(node.values, child(path, "additionalProperties"), within, False, below))
    for name, each in node.properties.items():
        within = context
        if (is_root or node.is_embedded_resource) and name in _META:
            within = replace(context, is_meta=True, no_defaults=f"in top-level {name}" if is_root else context.no_defaults)
        below = costs and costs.below(node, each, _field(costs, name))
        found.take(_walk(each, key(child(path, "properties"), name), within, False, below))
    _walk_junctors(node, path, context, found)
    if node.items is not None or node.several_items:
        within = context if node.list_type == "map" or context.uncorrelatable else replace(context, uncorrelatable=path)
        if node.items is not None:
            below = costs and costs.below(node, node.items, _element(costs))
            found.take(_walk(node.items, child(path, "items"), within, False, below))
        for number, each in enumerate(node.several_items):
            found.take(_walk(each, index(child(path, "items"), number), within, False, None))
    for name, dependency in (node.dependencies or {}).items():
        if dependency is not None:
            found.take(_walk(dependency, key(child(path, "dependencies"), name), context, False, None))
    found.schema += [*_extensions(node, path), *_list_map(node, path), *_unique_lists(node, path)]
    for number, rule in enumerate(node.rules):
        found.schema += _rule_texts(node, rule, index(child(path, _VALIDATIONS), number))
    if node.rules and not found.schema and costs is not None:
        found.cel += _compiled(node, path, context, costs)
    return found


def _walk_junctors(node: Props, path: str, context: _Context, found: _Found) -> None:
    if node.not_ is not None:
        found.take(_walk(node.not_, child(path, "not"), context, False, None))
    for name, junctor in (("allOf", node.all_of), ("oneOf", node.one_of), ("anyOf", node.any_of)):
        for number, each in enumerate(junctor):
            found.take(_walk(each, index(child(path, name), number), context, False, None))
    for name, each in node.definitions.items():
        found.take(_walk(each, key(child(path, "definitions"), name), context, False, None))


def _field(costs: _Costs, name: str) -> SchemaType | None:
    escaped = escape(name)
    return None if costs.type is None or escaped is None else costs.type.fields.get(escaped)


def _element(costs: _Costs) -> SchemaType | None:
    return None if costs.type is None else costs.type.element


def _own(node: Props, path: str, context: _Context) -> Iterator[FieldError]:
    if node.type and node.type not in TYPES:
        yield not_supported(child(path, "type"), node.type, TYPES)
    if node.has_default and context.no_defaults is not None:
        yield forbidden(child(path, "default"), f"must not be set {context.no_defaults}".rstrip())
    unsupported = {
        "id": node.id,
        "additionalItems": node.additional_items is not None,
        "patternProperties": node.has_pattern_properties,
        "definitions": node.definitions,
        "dependencies": node.dependencies is not None,
        "$ref": node.ref is not None,
    }
    for name, value in unsupported.items():
        if value:
            yield forbidden(child(path, name), f"{name} is not supported")
    if node.type == "null":
        yield forbidden(child(path, "type"), "type cannot be set to null, use nullable as an alternative")
    if node.several_items:
        yield forbidden(child(path, "items"), "items must be a schema object and not an array")
    if context.is_meta and node.is_embedded_resource:
        yield forbidden(child(path, "x-kubernetes-embedded-resource"), "must not be used inside of resource meta")


def _wrong_type(node: Props, path: str, detail: str) -> FieldError:
    where = child(path, "type")
    return invalid(where, node.type, detail) if node.type else required(where, detail)


def _extensions(node: Props, path: str) -> Iterator[FieldError]:
    if node.preserves_unknown_fields is False:
        yield invalid(child(path, "x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined")
    if node.map_type is not None:
        if node.type != "object":
            yield _wrong_type(node, path, "must be object if x-kubernetes-map-type is specified")
        if node.map_type not in ("atomic", "granular"):
            yield not_supported(child(path, "x-kubernetes-map-type"), node.map_type, ("atomic", "granular"))
    if node.list_type is None:
        return
    items = node.items
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if node.type != "array":
        yield _wrong_type(node, path, "must be array if x-kubernetes-list-type is specified")
    elif node.list_type == "set" and items is not None:
        below = child(path, "items")
        if items.type == "array" and items.list_type not in (None, "atomic"):
            yield invalid(child(below, "x-kubernetes-list-type"), items.list_type, detail)
        if items.type == "object" and items.map_type != "atomic":
            yield invalid(child(below, "x-kubernetes-map-type"), items.list_type, detail)
    if node.list_type not in ("atomic", "set", "map"):
        yield not_supported(child(path, "x-kubernetes-list-type"), node.list_type, ("atomic", "set", "map"))


def _list_map(node: Props, path: str) -> Iterator[FieldError]:
    if node.list_map_keys and node.list_type != "map":
        where, detail = child(path, "x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(where, detail) if node.list_type is None else invalid(where, node.list_type, detail)
    if node.list_type != "map":
        return
    keys = child(path, "x-kubernetes-list-map-keys")
    if not node.list_map_keys:
        yield required(keys, "must not be empty if x-kubernetes-list-type is map")
    items = node.items
    if items is None and not node.several_items:
        yield required(child(path, "items"), "must have a schema if x-kubernetes-list-type is map")
    if items is None:
        return
    if items.type != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(child(child(path, "items"), "type"), items.type, detail)
        return
    seen: set[str] = set()
    for name in node.list_map_keys:
        declared = items.properties.get(name)
        if declared is None:
            yield invalid(keys, list(node.list_map_keys), "entries must all be names of item properties")
        elif declared.type in ("array", "object"):
            where = child(key(child(child(path, "items"), "properties"), name), "type")
            yield invalid(where, items.type, "must be a scalar type if parent array's x-kubernetes-list-type is map")
        if name in seen:
            yield invalid(keys, list(node.list_map_keys), "must not contain duplicate entries")
        seen.add(name)


def _unique_lists(node: Props, path: str) -> Iterator[FieldError]:
    """Items and keys of set and map lists cannot be null, and keys cannot be missing."""
    items = node.items
    if items is None or node.list_type not in ("set", "map"):
        return
    if items.nullable:
        detail = f"cannot be nullable when x-kubernetes-list-type is {node.list_type}"
        yield forbidden(child(child(path, "items"), "nullable"), detail)
    for name in node.list_map_keys if node.list_type == "map" else ():
        declared = items.properties.get(name)
        if declared is None:
            continue
        where = key(child(child(path, "items"), "properties"), name)
        why = "this property is in x-kubernetes-list-map-keys, so it"
        if name not in items.required and not declared.has_default:
            yield required(child(where, "default"), f"{why} must have a default or be a required property")
        if declared.nullable:
            yield forbidden(child(where, "nullable"), f"{why} cannot be nullable")


def _rule_texts(node: Props, rule: Rule, path: str) -> Iterator[FieldError]:
    text, message = rule.rule.strip(), rule.message.strip()
    if not text:
        yield required(child(path, "rule"), "rule is not specified")
    elif rule.message and not message:
        yield invalid(child(path, "message"), rule.message, "must be non-empty if specified")
    elif _NEWLINE.search(message):
        yield invalid(child(path, "message"), rule.message, "must not contain line breaks")
    elif _NEWLINE.search(text) and not message:
        yield required(child(path, "message"), "message must be specified if rule contains line breaks")
    if rule.message_expression and not rule.message_expression.strip():
        yield required(child(path, "messageExpression"), "messageExpression must be non-empty if specified")
    if rule.reason is not None and rule.reason not in _REASONS:
        yield not_supported(child(path, "reason"), rule.reason, _REASONS)
    if not rule.field_path:
        return
    where = child(path, "fieldPath")
    if not rule.field_path.strip():
        yield invalid(where, rule.field_path, "must be non-empty if specified")
    if _NEWLINE.search(rule.field_path):
        yield invalid(where, rule.field_path, "must not contain line breaks")
    try:
        field_path(rule.field_path, node)
    except FieldPathError:
        yield invalid(where, rule.field_path, "must be a valid path")


def _compiled(node: Props, path: str, context: _Context, costs: _Costs) -> Iterator[FieldError]:
    """The errors of the rules of one node: they do not compile, cost too much, or misuse oldSelf."""
    type_ = costs.type if costs.type is not None else declared_type(node, costs.is_root or node.is_embedded_resource)
    if type_ is None:
        problem = "unable to convert structural schema to CEL declarations"
        detail = f"internal error: failed to construct type information for {_VALIDATIONS} rules: {problem}"
        yield internal(child(path, _VALIDATIONS), detail)
        return
    times = cardinality_max(type_) if costs.cardinality is None else costs.cardinality
    for number, each in enumerate(node_rules(node, type_, *costs.server)):
        where = index(child(path, _VALIDATIONS), number)
        yield from _rule_costs(each, where, times, costs.total)
        shown: Any = GoText(rule_struct(each.rule))
        if each.error:
            yield invalid(child(where, "rule"), shown, each.error)
        if each.message_error:
            yield invalid(child(where, "messageExpression"), shown, each.message_error)
        if each.uses_old_self and context.uncorrelatable is not None:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {context.uncorrelatable}"
            yield invalid(child(where, "rule"), each.rule.rule, detail)
        elif not each.uses_old_self and each.rule.optional_old_self is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(child(where, "optionalOldSelf"), each.rule.optional_old_self, detail)


def _rule_costs(rule: CompiledRule, path: str, times: int, total: TotalCost) -> Iterator[FieldError]:
    cost = min(rule.cost_max * times, _UINT_MAX)
    if cost > _COST_MAX:
        yield forbidden(child(path, "rule"), too_dear("estimated rule cost", cost, _COST_MAX))
    total.add(child(path, "rule"), cost)
    if rule.message is not None:
        if rule.message_cost_max > _COST_MAX:
            detail = too_dear("estimated messageExpression cost", rule.message_cost_max, _COST_MAX)
            yield forbidden(child(path, "messageExpression"), detail)
        total.add(child(path, "messageExpression"), rule.message_cost_max)
