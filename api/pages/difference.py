"""The structural difference of two versions of an object, as lines of YAML with unchanged parts folded.

Maps are compared by key, and lists of maps by the name of their items. Other lists are compared by their longest common part, texts
of several lines by line. Fields that an expression read are never folded; deciding fields are marked. This module knows no HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from pipeline.cel.explain import EVERY
from pipeline.policies.trace import step_text

from .lines import UNCHANGED, Change, Fold, Line, folded

# Deeper parts are written on one line; lines beyond this number are not shown. Both keep a page small for any object.
_DEPTH_MAX = 40
LINES_MAX = 3000
_TEXT_MAX = 2000
# One of these fields identifies the items of a Kubernetes list (`x-kubernetes-list-map-keys` of the built-in types).
_ITEM_KEYS = ("name", "key", "type", "containerPort", "port", "ip", "uid", "mountPath", "topologyKey")
_FIRST_KEYS = ("apiVersion", "kind", "metadata", "spec", "data", "status")
# Who last wrote each field: the API server's bookkeeping, which changes with every write.
_BOOKKEEPING = "managedFields"
REDACTED = "REDACTED"


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of the objects as a trace names them (`object.spec.replicas`): all that expressions read, and those that decided."""

    read: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


NO_FIELDS = Fields()


@dataclass(frozen=True, slots=True)
class _Spot:
    """The names of a line's place in the old and in the new version; empty where no field begins with them."""

    fields: Fields
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    is_within: bool = False  # an expression read the whole value around it

    @property
    def is_read(self) -> bool:
        return self.is_within or not self.fields.read.isdisjoint(self.old + self.new)

    @property
    def decided(self) -> bool:
        return not self.fields.decided.isdisjoint(self.old + self.new)

    def at(self, step: str | int) -> _Spot:
        """One step further, the same in both versions."""
        return self.item(step, step)

    def item(self, old: str | int | None, new: str | int | None) -> _Spot:
        """One step further in each version; None where that version does not have it."""
        return _Spot(self.fields, self._further(self.old, old), self._further(self.new, new), self.is_read)

    def side(self, change: Change) -> _Spot:
        """The part of a name that a line of this change shows."""
        old = () if change is Change.ADDED else self.old
        new = () if change is Change.REMOVED else self.new
        return _Spot(self.fields, old, new, self.is_within)

    def inside(self) -> _Spot:
        """A line of a text, which is not a field of its own."""
        return _Spot(self.fields, is_within=self.is_read)

    def _further(self, names: tuple[str, ...], step: str | int | None) -> tuple[str, ...]:
        steps = () if step is None else (step_text(step), step_text(EVERY)) if isinstance(step, int) else (step_text(step),)
        longer = (f"{name}{text}" for name in names for text in steps)
        return tuple(name for name in longer if any(field.startswith(name) for field in self.fields.read))


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """The content of the page: lines and folds in order, and how many lines were added and removed (bookkeeping left out)."""

    blocks: tuple[Line | Fold, ...]
    added: int
    removed: int
    is_cut: bool = False


def object_difference(old: Any, new: Any, fields: Fields = NO_FIELDS) -> ObjectDifference:
    """The change from the old to the new version of one object. Objects that nest too deeply for Python are compared as a whole.

    `fields` are named as `oldObject` has them in the old version, and as `object` has them in the new one.
    """
    return _compared(old, new, _Spot(fields, ("oldObject",), ("object",)))


def _compared(old: Any, new: Any, spot: _Spot) -> ObjectDifference:
    try:
        lines = list(_without_bookkeeping(old, new, spot))
        bookkeeping = _bookkeeping(old, new, spot)
    except RecursionError:
        lines, bookkeeping = [Line(Change.SAME, 0, "(nested too deeply to be shown)")], []
    added, removed = (sum(line.change is change for line in lines) for change in (Change.ADDED, Change.REMOVED))
    is_cut = len(lines) > LINES_MAX
    blocks = list(folded(lines[:LINES_MAX]))
    if bookkeeping:
        blocks.append(Fold(1, tuple(bookkeeping[:LINES_MAX]), (_BOOKKEEPING,), "of the API server's bookkeeping"))
    return ObjectDifference(tuple(blocks), added, removed, is_cut)


def object_lines(value: Any, fields: Fields = NO_FIELDS, name: str = "object", *, folded: bool = False) -> ObjectDifference:
    """One object alone, as YAML; bookkeeping is folded, and with `folded` all fields that no expression read.

    `name` is the object's name in expressions: `object`, `oldObject`, `params` or `namespaceObject`.
    """
    shown = _compared(value, value, _Spot(fields, new=(name,)))
    if folded:
        return replace(shown, blocks=tuple(_named(block, "not read") for block in shown.blocks))
    opened: list[Line | Fold] = []
    for block in shown.blocks:
        if isinstance(block, Fold) and block.label == UNCHANGED:
            opened += block.lines
        else:
            opened.append(block)
    return ObjectDifference(tuple(opened), 0, 0, shown.is_cut)


def _named(block: Line | Fold, label: str) -> Line | Fold:
    return replace(block, label=label) if isinstance(block, Fold) and block.label == UNCHANGED else block


def _without_bookkeeping(old: Any, new: Any, spot: _Spot) -> Iterator[Line]:
    if isinstance(old, dict) and isinstance(new, dict):
        return _mapping(_plain(old), _plain(new), 0, spot)
    return _value("", old, new, 0, spot)


def _plain(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or _BOOKKEEPING not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != _BOOKKEEPING}}


def _bookkeeping(old: Any, new: Any, spot: _Spot) -> list[Line]:
    before, after = _managed(old), _managed(new)
    place = spot.at("metadata").at(_BOOKKEEPING)
    return [] if before is None and after is None else list(_value(f"{_BOOKKEEPING}:", before, after, 1, place))


def _managed(obj: Any) -> Any:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata.get(_BOOKKEEPING) if isinstance(metadata, dict) else None


def _value(prefix: str, old: Any, new: Any, indent: int, spot: _Spot) -> Iterator[Line]:
    """The lines of one field or item; `prefix` is `key:` or `-`."""
    if indent >= _DEPTH_MAX or type(old) is not type(new) or not isinstance(old, (dict, list, str)) or not (old and new):
        yield from _replaced(prefix, old, new, indent, spot)
    elif isinstance(old, dict):
        yield _line(Change.SAME, indent, prefix, spot)
        yield from _mapping(old, new, indent + 1, spot)
    elif isinstance(old, list):
        yield _line(Change.SAME, indent, prefix, spot)
        yield from _items(old, new, indent + 1, spot)
    elif "\n" in old and "\n" in new:
        yield _line(Change.SAME, indent, f"{prefix} |", spot)
        yield from _texts(old.splitlines(), new.splitlines(), indent + 1, spot)
    else:
        yield from _replaced(prefix, old, new, indent, spot)


def _replaced(prefix: str, old: Any, new: Any, indent: int, spot: _Spot) -> Iterator[Line]:
    if old == new and type(old) is type(new):
        yield from _whole(Change.SAME, prefix, old, indent, spot)
    else:
        yield from _whole(Change.REMOVED, prefix, old, indent, spot)
        yield from _whole(Change.ADDED, prefix, new, indent, spot)


def _mapping(old: dict[str, Any], new: dict[str, Any], indent: int, spot: _Spot) -> Iterator[Line]:
    for key in _keys(old, new):
        prefix, place = f"{_scalar(key)}:", spot.at(key)
        if key not in new:
            yield from _whole(Change.REMOVED, prefix, old[key], indent, place)
        elif key not in old:
            yield from _whole(Change.ADDED, prefix, new[key], indent, place)
        else:
            yield from _value(prefix, old[key], new[key], indent, place)


def _keys(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Every key once: first those that objects begin with, then the others alphabetically, as `kubectl get -o yaml` prints."""
    keys = {*old, *new}
    return [key for key in _FIRST_KEYS if key in keys] + sorted(keys.difference(_FIRST_KEYS))


def _items(old: Sequence[Any], new: Sequence[Any], indent: int, spot: _Spot) -> Iterator[Line]:
    key = _item_key(old, new)
    if key is not None:
        yield from _named_items(key, old, new, indent, spot)
        return
    before, after = ([json.dumps(item, sort_keys=True) for item in items] for items in (old, new))
    for tag, first, last, from_, to in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if last - first == to - from_:  # equal, or replaced one by one
            for left, right in zip(range(first, last), range(from_, to), strict=True):
                place = spot.item(left, right)
                if tag == "equal":
                    yield from _whole(Change.SAME, "-", old[left], indent, place)
                else:
                    yield from _value("-", old[left], new[right], indent, place)
            continue
        for left in range(first, last):
            yield from _whole(Change.REMOVED, "-", old[left], indent, spot.item(left, None))
        for right in range(from_, to):
            yield from _whole(Change.ADDED, "-", new[right], indent, spot.item(None, right))


def _item_key(*lists: Sequence[Any]) -> str | None:
    """The field that identifies the items of both lists; None without one."""
    for key in _ITEM_KEYS:
        if all(_is_key(key, items) for items in lists):
            return key
    return None


def _is_key(key: str, items: Sequence[Any]) -> bool:
    values = [item.get(key) if isinstance(item, dict) else None for item in items]
    return all(isinstance(value, (str, int)) and not isinstance(value, bool) for value in values) and len(set(values)) == len(
        values
    )


def _named_items(key: str, old: Sequence[Any], new: Sequence[Any], indent: int, spot: _Spot) -> Iterator[Line]:
    before, after = ({item[key]: (index, item) for index, item in enumerate(items)} for items in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        left, right = before.get(name), after.get(name)
        place = spot.item(left[0] if left else None, right[0] if right else None)
        if left is None or right is None:
            change, found = (Change.REMOVED, left) if right is None else (Change.ADDED, right)
            assert found is not None
            yield from _whole(change, "-", found[1], indent, place)
        else:
            yield _line(Change.SAME, indent, f"- {key}: {_scalar(name)}", place, place.at(key))
            rest = [{field: value for field, value in item.items() if field != key} for _, item in (left, right)]
            yield from _mapping(rest[0], rest[1], indent + 1, place)


def _texts(old: Sequence[str], new: Sequence[str], indent: int, spot: _Spot) -> Iterator[Line]:
    within = spot.inside()
    for tag, first, last, from_, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for text in old[first:last]:
            yield _line(Change.SAME if tag == "equal" else Change.REMOVED, indent, text, within)
        for text in new[from_:to] if tag != "equal" else ():
            yield _line(Change.ADDED, indent, text, within)


def _whole(change: Change, prefix: str, value: Any, indent: int, spot: _Spot) -> Iterator[Line]:
    """Every line of one value, all with the same change."""
    spot = spot.side(change)
    if indent >= _DEPTH_MAX or not isinstance(value, (dict, list)) or not value:
        if isinstance(value, str) and "\n" in value:
            yield _line(change, indent, f"{prefix} |".lstrip(), spot)
            yield from (_line(change, indent + 1, text, spot.inside()) for text in value.splitlines())
        else:
            yield _line(change, indent, f"{prefix} {_scalar(value)}".lstrip(), spot)
        return
    also = None
    if prefix == "-" and isinstance(value, dict):
        # The identifying field of an item is on its first line.
        key = next((key for key in _ITEM_KEYS if isinstance(value.get(key), (str, int))), None)
        if key is not None:
            also = spot.at(key)
            prefix, value = f"- {key}: {_scalar(value[key])}", {name: item for name, item in value.items() if name != key}
    if prefix:
        yield _line(change, indent, prefix, spot, also)
        indent += 1
    if isinstance(value, dict):
        for key in _keys(value, ()):
            yield from _whole(change, f"{_scalar(key)}:", value[key], indent, spot.at(key))
    else:
        for index, item in enumerate(value):
            yield from _whole(change, "-", item, indent, spot.at(index))


def _line(change: Change, indent: int, text: str, spot: _Spot, also: _Spot | None = None) -> Line:
    """One line; `also` is a second field that stands on it."""
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(text):,} characters)"
    spots = [each for each in (spot, also) if each is not None]
    is_read, decided = any(each.is_read for each in spots), any(each.decided for each in spots)
    return Line(change, indent, shown, REDACTED in text, is_read, decided)


def _scalar(value: Any) -> str:
    """A scalar in YAML; texts that YAML could read as another type, and control characters, are quoted."""
    if isinstance(value, str) and value and value.isprintable() and value.strip() == value:
        plain = value[0].isalpha() or value[0] in "/."
        if plain and ": " not in value and " #" not in value and not value.endswith(":") and value.lower() not in _WORDS:
            return value
    return json.dumps(value, ensure_ascii=isinstance(value, str) and not value.isprintable())


_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
