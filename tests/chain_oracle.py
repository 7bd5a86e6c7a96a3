"""What a chain makes of one object: an evaluator of its own, which imports nothing of the project.

Written from the rules, and not from the code. The design of conditional authorization: kubernetes/apiserver
pkg/authorization/authorizer/evaluate.go (of each list true, then error, then false; lists in the order deny, noOpinion, allow; the
first Allow or Deny of a chain wins). The language definition of CEL: missing keys, types, `&&` and `||`. docs/chains.md: conditions
that are read as selectors. Selectors follow apimachinery pkg/labels and pkg/fields.

A condition is a tuple: the name of its form, and its parts. A reference is a variable and a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Ref = tuple[str, tuple[str, ...]]
Node = tuple[Any, ...]
# By path: what a selector of the resource sees where an object lacks the field.
Zeros = Mapping[tuple[str, ...], Any]

LACKING = object()
TRUE, FALSE, ERROR = "true", "false", "error"


def cel(node: Node) -> str:
    """A condition as CEL."""
    form, *parts = node
    match form:
        case "and" | "or":
            return "(" + {"and": " && ", "or": " || "}[form].join(map(cel, parts)) + ")"
        case "not":
            return f"!({cel(parts[0])})"
        case "if":
            return "({} ? {} : {})".format(*map(cel, parts))
        case "eq" | "ne":
            return f"{term(parts[0])} {'==' if form == 'eq' else '!='} {term(parts[1])}"
        case "in":
            return f"{term(parts[0])} in [{', '.join(map(term, parts[1]))}]"
        case "has":
            return f"has({term(parts[0])})"
        case "listed":
            return f"{term(parts[1])} in {parts[0]}.metadata.labels"
        case "function":
            return f"{term(parts[0])}.{parts[1]}({term(parts[2])})"
        case "size":
            return f"size({term(parts[0])}) {parts[1]} {parts[2]}"
        case "order":
            return f"{term(parts[0])} {parts[1]} {parts[2]}"
        case "flag":
            return term(parts[0])
        case "list":
            return 'request.verb == "list"'
    return "1 / 0 == 1"


def term(part: Any) -> str:
    """A reference or a constant as CEL."""
    if is_reference(part):
        variable, path = part
        return "".join([variable, *(f".{name}" if name.isidentifier() else f'["{name}"]' for name in path)])
    return json.dumps(part)


def is_reference(part: Any) -> bool:
    """Whether a part of a condition refers to an object."""
    return isinstance(part, tuple)


def is_label(ref: Ref) -> bool:
    """Whether a reference is to one label."""
    return len(ref[1]) == 3 and ref[1][:2] == ("metadata", "labels")


class Evaluator:
    """Evaluates conditions over objects, in one of the two readings of absence."""

    def __init__(self, objects: Mapping[str, Any], as_selector: bool, zeros: Zeros, verb: str = "list") -> None:
        self._objects = objects
        self._as_selector = as_selector
        self._zeros = zeros
        self._verb = verb

    def of(self, node: Node) -> str:
        """`true`, `false` or `error`."""
        form, *parts = node
        if form in ("and", "or"):
            return self._joined(form, [self.of(each) for each in parts])
        if form == "not":
            return {TRUE: FALSE, FALSE: TRUE, ERROR: ERROR}[self.of(parts[0])]
        if form == "if":
            found = self.of(parts[0])
            return found if found == ERROR else self.of(parts[1] if found == TRUE else parts[2])
        if form == "list":
            return said(self._verb == "list")
        if form == "has":
            return self._has(parts[0])
        if form == "listed":
            return self._listed(*parts)
        return self._test(form, *parts)

    def _joined(self, form: str, found: Sequence[str]) -> str:
        decisive, other = (FALSE, TRUE) if form == "and" else (TRUE, FALSE)
        return decisive if decisive in found else ERROR if ERROR in found else other

    def value(self, ref: Ref) -> Any:
        """The value at a reference."""
        found = self._objects[ref[0]]
        for name in ref[1]:
            if not isinstance(found, dict) or name not in found:
                return LACKING
            found = found[name]
        return found

    def _has(self, ref: Ref) -> str:
        holder = self.value((ref[0], ref[1][:-1]))
        if holder is LACKING and not self._as_selector:
            return ERROR
        return said(self.value(ref) is not LACKING)  # null has no keys (cel-go interpreter/attributes.go refQualify)

    def _listed(self, variable: str, name: str) -> str:
        labels = self.value((variable, ("metadata", "labels")))
        if labels is LACKING:
            return FALSE if self._as_selector else ERROR
        return said(name in labels)

    def _test(self, form: str, *parts: Any) -> str:
        if form == "in":
            if not parts[1]:
                return FALSE  # cel-go decides it before anything is read
            if any(map(is_reference, parts[1])):
                return self._joined("or", [self._test("eq", parts[0], each) for each in parts[1]])
        read = [each for each in parts if is_reference(each)]
        lacking = [each for each in read if self.value(each) is LACKING]
        if form == "broken" or (lacking and not self._as_selector):
            return ERROR
        if any(map(is_label, lacking)):
            return said(form == "ne")
        values = [self._zeros.get(each[1], "") if each in lacking else self.value(each) if each in read else each for each in parts]
        found = self._holds(form, *values)
        return said(form == "ne") if found == ERROR and lacking else found

    def _holds(self, form: str, value: Any, *more: Any) -> str:
        if form in ("eq", "ne"):
            return said(equal(value, more[0]) is (form == "eq"))
        if form == "in":
            return said(any(equal(value, each) for each in more[0]))
        if form == "flag":
            return said(value) if isinstance(value, bool) else ERROR
        if form == "order":
            if isinstance(value, bool) or not isinstance(value, int):
                return ERROR
            bound = more[1]
            return said({"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[more[0]])
        if not isinstance(value, str):
            return ERROR
        if form == "size":
            return said({"<": len(value) < more[1], ">=": len(value) >= more[1], "==": len(value) == more[1]}[more[0]])
        tests = {"startsWith": value.startswith, "endsWith": value.endswith, "contains": lambda text: text in value}
        return said(tests[more[0]](more[1]))


def said(value: bool) -> str:
    """A boolean as a result."""
    return TRUE if value else FALSE


def equal(one: Any, other: Any) -> bool:
    """Equality of CEL between scalars: values of two types are never equal, and a boolean is no number."""
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else int for each in (one, other)]
    return kinds[0] is kinds[1] and bool(one == other)


# -- decisions: a member is a plain effect, or lists of conditions by effect

Member = str | Mapping[str, Sequence[Node]]


def decision(members: Sequence[tuple[Member, Evaluator]]) -> tuple[str, bool]:
    """The effect of a chain, and whether an error travels with a refusal."""
    kept: list[tuple[Member, Evaluator]] = []
    for each in members:
        kept.append(each)
        if each[0] in ("Allow", "Deny"):
            break
    possible = set[str]().union(*({one} if isinstance(one, str) else {"NoOpinion", *filter(one.get, one)} for one, _ in kept))
    if kept[-1][0] in ("Allow", "Deny") and possible - {"NoOpinion"} == {kept[-1][0]}:
        return str(kept[-1][0]), False  # a chain with one possible outcome is decided before any condition is evaluated
    erred = False
    for member, evaluator in members:
        effect, error = (member, False) if isinstance(member, str) else of_lists(member, evaluator)
        erred = erred or error
        if effect != "NoOpinion":
            return effect, error
    return "NoOpinion", erred


def of_lists(lists: Mapping[str, Sequence[Node]], evaluator: Evaluator) -> tuple[str, bool]:
    """The effect of one member's lists."""
    if not lists["Deny"] and not lists["Allow"]:
        return "NoOpinion", False
    for effect in ("Deny", "NoOpinion", "Allow"):
        found = [evaluator.of(each) for each in lists[effect]]
        if TRUE in found:
            return effect, False
        if ERROR in found:
            return ("Deny" if effect == "Deny" else "NoOpinion"), True
    return "NoOpinion", False


# -- selections: requirements as (key, operator, values), terms as (field, value, is negated)


def selects(
    obj: Mapping[str, Any],
    requirements: Sequence[tuple[str, str, Sequence[str]]],
    terms: Sequence[tuple[str, str, bool]],
    paths: Mapping[str, tuple[str, ...]],
    zeros: Zeros,
) -> bool:
    """Whether selectors take an object. `paths` has those of the fields."""
    labels = obj["metadata"].get("labels", {})
    for key, operator, values in requirements:
        there = key in labels
        among = there and labels[key] in values
        if not {"In": among, "NotIn": not among, "Exists": there, "DoesNotExist": not there}[operator]:
            return False
    return all((shown(obj, paths[name], zeros) == value) is not negated for name, value, negated in terms)


def shown(obj: Mapping[str, Any], path: tuple[str, ...], zeros: Zeros) -> str:
    """A field as a selector compares it."""
    found: Any = obj
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            found = zeros.get(path, "")
            break
        found = found[name]
    return str(found).lower() if isinstance(found, bool) else str(found)
