"""The values of YAML as kubectl reads them, through sigs.k8s.io/yaml (goyaml.v2/resolve.go).

PyYAML's own rules differ: in Go a date and `12:30` are strings, `1e3` and `08` are numbers, and `y` is true.
"""

from __future__ import annotations

import re

import yaml

# Plain scalars that begin like numbers, or are one of the letters that mean true and false.
PLAIN = "tag:hindcast,2026:plain"
_PREFIX = "tag:yaml.org,2002:"
# The types that have a JSON form.
JSON_TAGS = frozenset((PLAIN, *(_PREFIX + name for name in ("map", "seq", "str", "null", "bool", "int", "float"))))
MERGE = f"{_PREFIX}merge"
NO_NUMBER = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
TRUE_OR_FALSE = {"y": True, "Y": True, "n": False, "N": False}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))\Z")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
# Longer texts are outside the range that JSON numbers are read with.
_DIGITS_MAX = 308


class KubernetesLoader(yaml.CSafeLoader):
    """PyYAML's safe loader with the scalars that Go's YAML reader knows."""


def number_of(text: str) -> int | float | str:
    """The value of a plain scalar that begins like a number; it stays a text if it is not a number.

    JSON in an API server's store does not keep every distinction: 1.0 becomes an integer, and an integer beyond 64 bits a float.
    """
    # After a leading dot Go tries only a float, and does not remove underscores.
    digits = text if text.startswith(".") else text.replace("_", "")
    if len(digits) > _DIGITS_MAX:
        return text
    value: int | float
    if found := _INTEGER.match(digits):
        sign, *bodies = found.groups()
        value = next(int(body, base) for body, base in zip(bodies, _BASES, strict=True) if body is not None)
        value = -value if sign == "-" else value
    elif _FLOAT.match(digits):
        value = float(digits)
    else:
        return text
    return as_stored(value) if -1e308 < value < 1e308 else text


def as_stored(value: int | float) -> int | float:
    """A number as it is read back from JSON that Go wrote."""
    fits = -(2**63) <= value < 2**63
    if isinstance(value, float):
        return int(value) if fits and value.is_integer() else value
    return value if fits else float(value)


def _plain(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> object:
    text = node.value
    return TRUE_OR_FALSE[text] if text in TRUE_OR_FALSE else number_of(text)


def _number(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> object:
    value = number_of(node.value)
    if isinstance(value, str):
        kind = node.tag.removeprefix(_PREFIX)
        raise yaml.constructor.ConstructorError(problem=f"{value!r} is not of type {kind}", problem_mark=node.start_mark)
    return value


_REPLACED = frozenset(_PREFIX + name for name in ("int", "float", "timestamp"))
KubernetesLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
KubernetesLoader.add_implicit_resolver(PLAIN, re.compile(r"[-+.0-9]"), list("-+.0123456789"))
KubernetesLoader.add_implicit_resolver(PLAIN, re.compile(r"[yYnN]\Z"), list("yYnN"))
KubernetesLoader.add_constructor(PLAIN, _plain)
for _name in ("int", "float"):
    KubernetesLoader.add_constructor(_PREFIX + _name, _number)
