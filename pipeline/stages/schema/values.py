"""Validates values by a schema: types, ranges, patterns, enums, required fields, and the junctors.

Follows kube-openapi pkg/validation/validate with apiextensions-apiserver pkg/apiserver/validation. The texts are the API server's.
A validator is made once for a schema, and is safe to share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from ...cel.evaluation.patterns import matches
from ...cel.library.gotext import format_float, quote
from ...cel.minors import DEFAULT
from .correlation import Correlated
from .field_errors import (
    FieldError,
    go_json,
    not_supported,
    required,
    too_long,
    too_many,
)
from .formats import Version, effective_format, format_check
from .found import Finding, Result, general, named, of_type, wrong
from .props import Props
from .quick import Check, Parts, valid_check

_INT64: Final = 2**63
_KINDS: dict[type, str] = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_FORMAT_OF: Final = {int: "int64", float: "float64"}


class Validator:
    """Validates values by one node of a schema. `is_valid` says whether a value has no error."""

    is_valid: Check

    def __init__(self, schema: Props, version: Version | None = DEFAULT) -> None:
        """`version` decides which formats count. None is for defaults in definitions: it keeps all formats, and an int-or-string
        may be anything (apiextensions-apiserver pkg/apiserver/schema/kubeopenapi.go).
        """
        self.schema = schema
        is_union = schema.is_int_or_string and version is not None
        self.types = ("integer", "string") if is_union else (schema.type,) if schema.type else ()
        self.format = schema.format if version is None else effective_format(schema.format, self.types, version)
        self.has_format = format_check(self.format, version or DEFAULT) if self.format else None
        self.any_of = [Validator(each, version) for each in schema.any_of]
        self.all_of = [Validator(each, version) for each in schema.all_of]
        self.one_of = [Validator(each, version) for each in schema.one_of]
        self.not_ = None if schema.not_ is None else Validator(schema.not_, version)
        self.properties = {name: Validator(each, version) for name, each in schema.properties.items()}
        self.values = None if schema.values is None else Validator(schema.values, version)
        self.items = None if schema.items is None else Validator(schema.items, version)
        self.has_junctors = bool(self.any_of or self.all_of or self.one_of or self.not_)
        fields: dict[str, Check] = {name: each.is_valid for name, each in self.properties.items()}
        values, items = (None if each is None else each.is_valid for each in (self.values, self.items))
        # Most values are valid, and the quick check is many times faster than finding that there is no error.
        self.is_valid = (
            valid_check(schema, self.types, self.format, Parts(self.has_format, fields, values, items)) or self._is_valid
        )

    def errors(self, value: Any, path: str = "", pair: Correlated | None = None) -> list[FieldError]:
        """The errors of a value at a path. With a pair, those at unchanged nodes are left out: they are ratcheted."""
        if self.is_valid(value):
            return []
        result = self._ratcheted(value, "", pair) if pair is not None else self._check(value, "", None)
        return [each.made(path) for each in result.findings.values()]

    def _is_valid(self, value: Any) -> bool:
        return not self._check(value, "", None).findings

    def _ratcheted(self, value: Any, name: str, pair: Correlated) -> Result:
        result = self._check(value, name, pair)
        return Result((), result.checks) if result.findings and pair.is_equal else result

    def _check(self, value: Any, name: str, pair: Correlated | None) -> Result:
        if value is None:
            return self._null(name)
        kind = value.__class__
        result = Result()
        if self.types or self.format:
            result.merge(self._type(value, kind, name))
            result.checks += 1
        if self.has_junctors:
            result.merge(self._junctors(value, name))
        result.checks += 2  # Of the junctors, which always count themselves.
        if kind is str:
            result.merge(Result(self._text(value, name)))
            result.checks += 1
            if self.has_format is not None:
                if not self.has_format(value):
                    result.merge(Result([of_type(name, self.format, value)]))
                result.checks += 1
        elif kind is int or kind is float:
            result.merge(Result(self._number(value, name), 1))
            result.checks += 1
        elif kind is list:
            result.merge(self._list(value, name, pair))
            result.checks += 1
        if self.schema.enum and not any(_equal(value, each) for each in self.schema.enum):
            result.merge(Result([self._not_listed(value, name)]))
        result.checks += 1
        if kind is dict:
            result.merge(self._object(value, name, pair))
            result.checks += 1
        result.checks += 1
        return result

    def _null(self, name: str) -> Result:
        """null meets the type only if the node is nullable, and never an enum."""
        result = Result()
        if self.types and not self.schema.nullable:
            result.merge(Result([of_type(name, ",".join(self.types), "null")]))
        else:
            result.checks += 1
        if self.schema.enum:
            result.merge(Result([self._not_listed(None, name)]))
        return result

    def _not_listed(self, value: Any, name: str) -> Finding:
        listed = [each if isinstance(each, str) else go_json(each) for each in self.schema.enum or ()]
        return named(name, f"{name} enum {listed}", lambda path: not_supported(path, value, listed))

    def _type(self, value: Any, kind: type, name: str) -> Result:
        found = _KINDS[kind]
        is_whole = kind is float and "integer" in self.types and _is_whole(value)
        is_number = kind is int and "number" in self.types
        fits = found in self.types or is_whole or is_number
        if self.format and kind is not str and kind is not list:
            format_ = _FORMAT_OF.get(kind, "")
            if not fits and format_ != self.format:
                return Result([of_type(name, self.format, format_)])
        takes_numbers = "number" in self.types or "integer" in self.types
        if not takes_numbers and self.format and (kind is str or kind is list):
            return Result((), 1)
        return Result((), 1) if fits else Result([of_type(name, ",".join(self.types), found)])

    def _junctors(self, value: Any, name: str) -> Result:
        main = Result()
        if self.any_of:
            self._any(value, name, main)
        if self.one_of:
            self._one(value, name, main)
        if self.all_of:
            results = [each._check(value, name, None) for each in self.all_of]
            for each in results:
                main.merge(each)
            failed = sum(bool(each.findings) for each in results)
            if failed:
                rest = ". None validated" if failed == len(results) else ""
                main.merge(Result([general(f"{quote(name)} must validate all the schemas (allOf){rest}")]))
        if self.not_ is not None and not self.not_._check(value, name, None).findings:
            main.merge(Result([general(f"{quote(name)} must not validate the schema (not)")]))
        return main

    def _any(self, value: Any, name: str, main: Result) -> None:
        best: Result | None = None
        for each in self.any_of:
            result = each._check(value, name, None)
            if not result.findings:
                main.merge(result)
                return
            if best is None or result.checks > best.checks:
                best = result
        main.merge(Result([general(f"{quote(name)} must validate at least one schema (anyOf)")]))
        if best is not None:
            main.merge(best)

    def _one(self, value: Any, name: str, main: Result) -> None:
        best: Result | None = None
        passed: list[Result] = []
        for each in self.one_of:
            result = each._check(value, name, None)
            if not result.findings:
                passed.append(result)
                best = None
            elif not passed and (best is None or result.checks > best.checks):
                best = result
        if len(passed) == 1:
            main.merge(passed[0])
            return
        rest = f"Found {len(passed)} valid alternatives" if passed else "Found none valid"
        main.merge(Result([general(f"{quote(name)} must validate one and only one schema (oneOf). {rest}")]))
        if best is not None:
            main.merge(best)

    def _text(self, value: str, name: str) -> Iterable[Finding]:
        schema = self.schema
        if schema.max_length is not None and len(value) > schema.max_length:
            length_max = schema.max_length
            text = f"{name} in body should be at most {length_max} chars long"
            return [named(name, text, lambda path: too_long(path, length_max))]
        if schema.min_length is not None and len(value) < schema.min_length:
            return [wrong(name, value, f"{name} in body should be at least {schema.min_length} chars long")]
        if schema.pattern and not matches(value, schema.pattern):
            return [wrong(name, value, f"{name} in body should match '{schema.pattern}'")]
        return ()

    def _number(self, value: int | float, name: str) -> Iterable[Finding]:
        yield from self._range(value, "Checked", name)
        schema = self.schema
        if schema.multiple_of is not None:
            yield from self._multiple(value, schema.multiple_of, name)
        limits = (
            ("Minimum boundary", schema.minimum, schema.exclusive_minimum, ("greater than", "greater than or equal to"), 1),
            ("Maximum boundary", schema.maximum, schema.exclusive_maximum, ("less than", "less than or equal to"), -1),
        )
        for prefix, limit, is_exclusive, words, sign in limits:
            if limit is None:
                continue
            problems = list(self._range(limit, prefix, name))
            yield from problems
            is_native = isinstance(value, int) and not problems
            bound = int(limit) if is_native else limit
            found = value if is_native else float(value)
            if (found - bound) * sign < 0 or (is_exclusive and found == bound):
                shown = format_float(bound) if isinstance(bound, float) else str(bound)
                yield wrong(name, found, f"{name} in body should be {words[0] if is_exclusive else words[1]} {shown}")

    def _range(self, value: int | float, prefix: str, name: str) -> Iterable[Finding]:
        """Whether a number fits the type and format of the node."""
        kind = self.types[0] if len(self.types) == 1 else ""
        format_ = self.format
        if kind == "integer":
            format_ = format_ if format_ in ("int32", "int64") else ""
            bound = 2**31 if format_ == "int32" else _INT64
            whole = not isinstance(value, float) or (value.is_integer() and abs(value) < 1e21)
            if whole and -bound <= value < bound:
                return
        elif kind == "number" and format_ == "float":
            if not math.isfinite(value) or abs(value) < 3.4028235677973366e38:
                return
        else:
            return
        detail = f"with format {format_}" if format_ else "(default format)"
        yield general(f"{prefix} value must be of type {kind} {detail} in {name}")

    def _multiple(self, value: int | float, factor: float, name: str) -> Iterable[Finding]:
        problems = list(self._range(factor, "MultipleOf", name))
        yield from problems
        if isinstance(value, int) and not problems:
            whole = int(factor)
            if whole <= 0:
                yield wrong(name, whole, f"factor MultipleOf declared for {name} must be positive: {whole}")
            elif value % whole:
                yield wrong(name, value, f"{name} in body should be a multiple of {whole}")
            return
        found = float(value)
        if factor <= 0:
            yield wrong(name, factor, f"factor MultipleOf declared for {name} must be positive: {format_float(factor)}")
        elif not _is_whole(1 / factor * found if factor < 1 else found / factor):
            yield wrong(name, found, f"{name} in body should be a multiple of {format_float(factor)}")

    def _list(self, value: list[Any], name: str, pair: Correlated | None) -> Result:
        result = Result((), 1)
        if self.items is not None:
            for number, item in enumerate(value):
                below = None if pair is None else pair.index(number)
                where = f"{name}[{number}]"
                result.merge(self.items._check(item, where, None) if below is None else self.items._ratcheted(item, where, below))
        least, most = self.schema.min_items, self.schema.max_items
        if least is not None and len(value) < least:
            result.merge(Result([wrong(name, len(value), f"{name} in body should have at least {least} items")]))
        if most is not None and len(value) > most:
            text = f"{name} in body should have at most {most} items"
            result.merge(Result([named(name, text, lambda path: too_many(path, len(value), most))]))
        return result

    def _object(self, value: dict[str, Any], name: str, pair: Correlated | None) -> Result:
        result = Result()
        schema = self.schema
        least, most = schema.min_properties, schema.max_properties
        if least is not None and len(value) < least:
            result.merge(Result([wrong(name, len(value), f"{name} in body should have at least {least} properties")]))
        if most is not None and len(value) > most:
            text = f"{name} in body should have at most {most} properties"
            result.merge(Result([named(name, text, lambda path: too_many(path, len(value), most))]))
        refuses_others = schema.additional_properties is not None and not schema.additional_properties.allows
        for key, item in value.items():
            known = self.properties.get(key)
            if known is not None:
                result.merge(_field(known, item, f"{name}.{key}" if name else key, key, pair))
            elif refuses_others:
                result.merge(Result([wrong(name, key, f"{name}.{key} in body is a forbidden property")]))
            elif self.values is not None:
                result.merge(_field(self.values, item, f"{name}.{key}", key, pair))
        for key in schema.required:
            if key not in value:
                missing = f"{name}.{key}"
                result.merge(Result([named(missing, f"{missing} in body is required", required)]))
        return result


def _field(validator: Validator, value: Any, name: str, key: str, pair: Correlated | None) -> Result:
    """The result at a field or key. The type of the root object is never ratcheted: both versions have the same."""
    is_root_type = pair is not None and name in ("kind", "apiVersion")
    below = None if pair is None or is_root_type else pair.key(key)
    return validator._check(value, name, None) if below is None else validator._ratcheted(value, name, below)


def _equal(value: Any, listed: Any) -> bool:
    """Whether a value is this value of an enum; numbers compare after conversion to the type of the listed one."""
    if listed is None:
        return False
    if isinstance(value, int | float) and isinstance(listed, int | float):
        if isinstance(value, bool) or isinstance(listed, bool):
            return value is listed
        return (int(value) if isinstance(listed, int) else float(value)) == listed
    return value.__class__ is listed.__class__ and bool(value == listed)


def _is_whole(number: float) -> bool:
    """Whether a double counts as an integer (go-openapi/swag IsFloat64AJSONInteger)."""
    if math.isnan(number) or math.isinf(number) or abs(number) > 2**53 - 1:
        return False
    whole = float(int(number))
    if number == whole:
        return True
    difference = abs(number - whole)
    if number == 0 or whole == 0 or difference < 5e-324:
        return difference < 1e-9 * 5e-324
    return difference / min(abs(number) + abs(whole), 1.7976931348623157e308) < 1e-9
