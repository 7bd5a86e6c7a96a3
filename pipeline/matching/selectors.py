"""Label selectors. Follows apimachinery pkg/apis/meta/v1/helpers.go (LabelSelectorAsSelector) and pkg/labels/selector.go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..withheld import holds_placeholder

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ASK_FOR_KEY = ("Exists", "DoesNotExist")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(Exception):
    """A selector that the API server would reject. The message names the field relative to the selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the labels. `NotIn` and `DoesNotExist` also hold when the key is missing.

    `Gt` and `Lt` compare integers; only selectors in URLs have them (see label_text.py).
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels with this key and value are selected."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "Gt" | "Lt":
                number = int(value) if value is not None and _INTEGER.fullmatch(value) else None
                if number is None or not -(2**63) <= number < 2**63:
                    return False
                (bound,) = map(int, self.values)
                return number > bound if self.operator == "Gt" else number < bound
            case _:
                return value is None

    def __str__(self) -> str:
        if self.values:
            return f"{self.key} {self.operator} [{', '.join(sorted(self.values))}]"
        return f"{self.key} {self.operator}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements together; without requirements it selects everything. An absent selector (nil) is None, not this object."""

    requirements: tuple[Requirement, ...] = ()

    def failed(self, labels: Mapping[str, str]) -> Requirement | None:
        """The first requirement that the labels do not meet; None if they are selected."""
        for requirement in self.requirements:
            if not requirement.holds(labels):
                return requirement
        return None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet every requirement."""
        return self.failed(labels) is None

    def __str__(self) -> str:
        return ", ".join(map(str, self.requirements)) or "{}"


EVERYTHING = LabelSelector()


def labels_of(obj: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The labels of an object; None for null and for objects without metadata (most CONNECT options), which have no labels."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    labels = metadata.get("labels")
    return labels if isinstance(labels, dict) else {}


def is_doubtful(selector: LabelSelector, obj: Mapping[str, Any] | None) -> bool:
    """Whether it depends on a redacted value whether the selector selects an object of a redacted record."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    if _is_hidden(metadata) or (isinstance(metadata, Mapping) and _is_hidden(metadata.get("labels"))):
        return True
    labels = labels_of(obj) or {}
    doubtful = [each for each in selector.requirements if each.operator not in _ASK_FOR_KEY and _is_hidden(labels.get(each.key))]
    return bool(doubtful) and all(each.holds(labels) for each in selector.requirements if each not in doubtful)


def _is_hidden(value: Any) -> bool:
    return isinstance(value, str) and holds_placeholder(value)


def selector_from_object(value: Mapping[str, Any]) -> LabelSelector:
    """A selector from its JSON form. Raises SelectorError where apimachinery's validation would."""
    unknown = set(value) - {"matchLabels", "matchExpressions"}
    if unknown:
        raise SelectorError(f"unknown field {sorted(unknown)[0]!r}; a label selector has matchLabels and matchExpressions")
    labels = value.get("matchLabels") or {}
    expressions = value.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not all(isinstance(item, str) for item in labels.values()):
        raise SelectorError("matchLabels must map strings to strings")
    if not isinstance(expressions, list):
        raise SelectorError(f"matchExpressions must be a list, not {type(expressions).__name__}")
    equal = (Requirement(key, "In", frozenset([value])) for key, value in sorted(labels.items()))
    return LabelSelector((*equal, *(_requirement(index, item) for index, item in enumerate(expressions))))


def _requirement(index: int, item: Any) -> Requirement:
    where = f"matchExpressions[{index}]"
    if not isinstance(item, Mapping) or set(item) - {"key", "operator", "values"}:
        raise SelectorError(f"{where} must have key, operator and values, and nothing else")
    key, operator, values = item.get("key"), item.get("operator"), item.get("values") or []
    if not isinstance(key, str) or not key:
        raise SelectorError(f"{where}.key is required")
    if operator not in OPERATORS:
        raise SelectorError(f"{where}.operator must be one of {', '.join(OPERATORS)}, not {operator!r}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SelectorError(f"{where}.values must be a list of strings")
    if bool(values) != (operator in ("In", "NotIn")):
        wanted = "must be given" if operator in ("In", "NotIn") else "must not be given"
        raise SelectorError(f"{where}.values {wanted} for operator {operator}")
    return Requirement(key, operator, frozenset(values))
