"""What a list or a watch selects: the selectors of its URL, its namespace and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...authorization.attributes import RequestInfo
from ...matching.field_text import FieldTerm, parse_field_selector
from ...matching.label_text import as_int64, parse_label_selector
from ...matching.selectors import Requirement, SelectorError
from .fields import Fields
from .logic.formula import ABSENT, ANYTHING, NAME, NAMESPACE, PRESENT, Key, Values, exactly, label

NO_BOUNDS = (-(2**63) - 1, 2**63)


class Range(NamedTuple):
    """The values of one key that a selection takes: a set, and for `>` and `<` open bounds of an integer."""

    values: Values = ANYTHING
    low: int = NO_BOUNDS[0]
    high: int = NO_BOUNDS[1]

    @property
    def is_numeric(self) -> bool:
        """Whether the value must be an integer."""
        return (self.low, self.high) != NO_BOUNDS

    def holds(self, value: str | None) -> bool:
        """Whether a value is taken; None for no value."""
        if not self.values.holds(value):
            return False
        if not self.is_numeric:
            return True
        number = as_int64(value) if value is not None else None
        return number is not None and self.low < number < self.high


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a request asks for. Without terms it asks for all of them.

    `ignored` says why a selector has no effect on authorization: the server cannot parse it, and takes it for no restriction.
    `types` are the fields of the resource, which decide what a term compares.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    namespace: str = ""
    name: str = ""
    ignored: str = ""
    types: Fields = field(default=Fields(), repr=False)

    def ranges(self) -> dict[Key, Range]:
        """The values that it takes, by key; requirements on one key are taken together.

        A term on a field that the server computes from several is left out, so that more objects count as selected.
        """
        found: dict[Key, Range] = {}
        for requirement in self.labels:
            key = label(requirement.key)
            found[key] = _narrowed(found.get(key, Range()), requirement)
        named = [(self.types.named(term.field), term) for term in self.fields]
        terms = [(key, _of_term(key, term)) for key, term in named if key is not None]
        terms += [(key, exactly(text)) for key, text in ((NAMESPACE, self.namespace), (NAME, self.name)) if text]
        for key, values in terms:
            before = found.get(key, Range())
            found[key] = before._replace(values=before.values.both(values))
        return found

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object is selected, by the server's rules."""
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or {}
        if not all(requirement.holds(labels) for requirement in self.labels):
            return False
        if not all(term.holds({term.field: self.types.text(obj, term.field)}) for term in self.fields):
            return False
        place = (self.namespace in ("", metadata.get("namespace", "")), self.name in ("", metadata.get("name", "")))
        return all(place)

    @property
    def is_of_nothing(self) -> bool:
        """Whether it asks for an empty value of a field that no stored object lacks."""
        return any(not (term.value or term.negated) and self.types.is_always_set(term.field) for term in self.fields)

    def __str__(self) -> str:
        """As a client writes it."""
        parts = [requirement_text(each) for each in self.labels]
        text = f"-l {','.join(parts)}" if parts else ""
        if self.fields:
            text = f"{text} --field-selector {','.join(map(str, self.fields))}".strip()
        place = f"-n {self.namespace} " if self.namespace else ""
        return f"{place}{text}".strip() or "everything"


def selection_of(info: RequestInfo) -> Selection:
    """What a list, a watch or a deletecollection selects, at most: selectors that the log does not show are left out.

    The old /watch/ URLs have no selectors.
    """
    ignored = []
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    try:
        labels = parse_label_selector(info.label_selector or "").requirements
    except SelectorError as problem:
        ignored.append(f"the label selector cannot be parsed: {problem}")
    try:
        fields = parse_field_selector(info.field_selector or "")
    except SelectorError as problem:
        ignored.append(f"the field selector cannot be parsed: {problem}")
    fields = tuple(dict.fromkeys(fields))
    labels = tuple(dict.fromkeys(sorted(labels, key=str)))
    # A Namespace is in the namespace of its own name only to authorizers.
    namespace = "" if info.resource == "namespaces" and not info.group else info.namespace
    name = info.name if not any(term.field == "metadata.name" for term in fields) else ""
    return Selection(labels, fields, namespace, name, "; ".join(ignored), Fields(info.group, info.resource))


def requirement_text(requirement: Requirement) -> str:
    """A requirement on a label as a client writes it."""
    key, values = requirement.key, sorted(requirement.values)
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In":
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
        case "NotIn":
            return f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})"
        case operator:
            return f"{key}{'>' if operator == 'Gt' else '<'}{values[0]}"


def _narrowed(before: Range, requirement: Requirement) -> Range:
    texts = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return before._replace(values=before.values.both(Values(texts)))
        case "NotIn":
            return before._replace(values=before.values.both(Values(texts, negated=True, absent=True)))
        case "Exists":
            return before._replace(values=before.values.both(PRESENT))
        case "DoesNotExist":
            return before._replace(values=before.values.both(ABSENT))
    (bound,) = map(int, texts)
    present = before._replace(values=before.values.both(PRESENT))
    return (
        present._replace(low=max(before.low, bound))
        if requirement.operator == "Gt"
        else present._replace(high=min(before.high, bound))
    )


def _of_term(key: Key, term: FieldTerm) -> Values:
    """A selector compares texts, also where an object lacks the field."""
    texts = frozenset([term.value]) if key.may_be(term.value) else frozenset[str]()
    equal = Values(texts, absent=term.value == key.absent)
    return equal.complement() if term.negated else equal
