"""Which keywords of a definition refuse recorded requests, and the definition without them.

An error names a field and its mistake. The keyword that forbids the mistake lies at the node of the field, or around it.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

# The words of errors, and the keywords behind them.
_KEYWORDS: Final = (
    ("should be at least", ("minLength",)),
    ("should match", ("pattern",)),
    ("should be less than", ("maximum", "exclusiveMaximum")),
    ("should be greater than", ("minimum", "exclusiveMinimum")),
    ("should be a multiple of", ("multipleOf",)),
    ("should have at least", ("minItems", "minProperties")),
    ("must have at most", ("maxItems", "maxProperties")),
    ("Too long", ("maxLength",)),
    ("Unsupported value", ("enum",)),
    ("must be of type", ("format",)),
    ("Duplicate value", ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")),
)
SERVED: Final = "served"
_JUNCTORS: Final = {"(anyOf)": "anyOf", "(oneOf)": "oneOf", "(allOf)": "allOf", "(not)": "not"}
_STEP: Final = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_QUOTED: Final = re.compile(r'"([^"]*)" must')
_RULES: Final = "x-kubernetes-validations"


class Dropped(NamedTuple):
    """A keyword that is taken away, with the recorded requests that it refuses. `place` is PATH: KEYWORD."""

    definition: str
    version: str
    place: str
    requests: int

    @property
    def words(self) -> str:
        """The keyword, for a person."""
        return f"{self.version}, which is not served any more" if self.place == SERVED else f"{self.version}, {self.place}"


class Relaxed(NamedTuple):
    """Definitions as they would have to be, by name, and the keywords that they lost, the most requests first."""

    definitions: dict[str, dict[str, Any]]
    dropped: tuple[Dropped, ...]


def relaxed(documents: Mapping[str, Mapping[str, Any]], refusals: Iterable[tuple[Any, ...]]) -> Relaxed:
    """Definitions without the keywords that refuse some requests. `refusals` are the rows of refusals.sql.

    An error that no keyword can be found for stays, so that the requests with it stay refused.
    """
    after = {name: copy.deepcopy(dict(each)) for name, each in documents.items()}
    counts: Counter[tuple[str, str, str]] = Counter()
    for name, version, code, errors, requests in refusals:
        old, new = (_version(each.get(name), version) for each in (documents, after))
        if old is None or new is None:
            continue
        if code == 404:
            new["served"] = True
            counts[name, version, SERVED] += requests
        for place in _places(new, old, json.loads(errors)):
            counts[name, version, place] += requests
    found = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return Relaxed(after, tuple(Dropped(*key, requests) for key, requests in found))


def _version(definition: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    versions = ((definition or {}).get("spec") or {}).get("versions") or ()
    return next((each for each in versions if each.get("name") == name), None)


def _places(new: dict[str, Any], old: dict[str, Any], errors: list[dict[str, str]]) -> Iterator[str]:
    """The places of the keywords behind some errors, as PATH: KEYWORD. They are taken away from `new`."""
    now, before = ((each.get("schema") or {}).get("openAPIV3Schema") for each in (new, old))
    if now is None or before is None:
        return
    for error in errors:
        path, text = error["field"], error["message"]
        if "some validation rules were not checked" in text:
            continue
        yield from _place(now, before, "" if path == "<nil>" else path, text)


def _place(now: dict[str, Any], before: dict[str, Any], path: str, text: str) -> Iterator[str]:
    if text.startswith("Required value") and path:
        around, _, name = path.rpartition(".")
        yield from _drop_required(now, before, around, name)
        return
    for words, keyword in _JUNCTORS.items():
        if words in text:
            named = _QUOTED.search(text)
            yield from _drop(now, before, named[1] if named else path, (keyword,))
            return
    rule = _drop_rule(now, before, path, text)
    if rule:
        yield rule
        return
    for words, keywords in _KEYWORDS:
        if words in text:
            # A repeated item is an error of the item, and the promise is that of its list.
            yield from _drop(now, before, path.rpartition("[")[0] if "Duplicate" in words else path, keywords)
            return


def _drop(now: dict[str, Any], before: dict[str, Any], path: str, keywords: tuple[str, ...]) -> Iterator[str]:
    places = [(now, before), *zip(_along(now, path), _along(before, path), strict=False)] if path else [(now, before)]
    for node, old in reversed(places):
        if any(keyword in old for keyword in keywords):
            for keyword in keywords:
                node.pop(keyword, None)
            yield f"{_general(path) or 'the root'}: {keywords[0]}"
            return


def _drop_required(now: dict[str, Any], before: dict[str, Any], around: str, name: str) -> Iterator[str]:
    node, old = _at(now, around), _at(before, around)
    if node is None or old is None or name not in (old.get("required") or ()):
        return
    node["required"] = [each for each in node.get("required") or () if each != name]
    if not node["required"]:
        del node["required"]
    yield f"{_general(around) or 'the root'}: required {name}"


def _drop_rule(now: dict[str, Any], before: dict[str, Any], path: str, text: str) -> str:
    """Take away the rule whose words are in an error: at the node of the field, or at one around it."""
    nodes = [("", now, before)]
    steps = _STEP.findall(path)
    for count in range(1, len(steps) + 1):
        below = "".join(each if each.startswith("[") else f".{each}" for each in steps[:count]).removeprefix(".")
        node, old = _at(now, below), _at(before, below)
        if node is not None and old is not None:
            nodes.append((below, node, old))
    for place, node, old in reversed(nodes):
        for rule in old.get(_RULES) or ():
            words = [rule.get("message"), f"failed rule: {rule.get('rule')}"]
            words += [rule.get("rule")] if "evaluating rule" in text else []
            if any(each and each.strip() in text for each in words) or (rule.get("messageExpression") and _is_alone(old)):
                node[_RULES] = [each for each in node.get(_RULES) or () if each != rule]
                if not node[_RULES]:
                    del node[_RULES]
                return f"{_general(place) or 'the root'}: rule {rule.get('rule')}"
    return ""


def _is_alone(node: Mapping[str, Any]) -> bool:
    return len(node.get(_RULES) or ()) == 1 and not any(each in node for _, keywords in _KEYWORDS for each in keywords)


def _along(node: Any, path: str) -> Iterator[dict[str, Any]]:
    """The nodes from below the root to the node of a path."""
    for step in _STEP.findall(path):
        node = _below(node, step)
        if node is None:
            return
        yield node


def _at(node: dict[str, Any], path: str) -> dict[str, Any] | None:
    steps = _STEP.findall(path)
    found = [node, *_along(node, path)]
    return found[-1] if len(found) == len(steps) + 1 else None


def _below(node: Mapping[str, Any], step: str) -> dict[str, Any] | None:
    name = step.strip("[]")
    items = node.get("items")
    if step.startswith("[") and isinstance(items, dict):
        return items
    found = (node.get("properties") or {}).get(name)
    if found is None:
        values = node.get("additionalProperties")
        found = values if isinstance(values, dict) else None
    return found if isinstance(found, dict) else None


def _general(path: str) -> str:
    """A path without the numbers of list items."""
    return re.sub(r"\[\d+\]", "[]", path)
