"""The structural difference of two versions of an object, as lines of YAML with what did not change folded away.

Maps are compared by key, lists of maps by the name of their items, other lists by their longest common part, texts of several lines
by line. Nothing here knows HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

# Deeper parts are written on one line; more lines than this are not shown. Both keep a page small whatever an object holds.
_DEPTH_MAX = 40
LINES_MAX = 3000
_TEXT_MAX = 2000
# Runs of unchanged lines that are shorter stay open: a fold is a line itself.
_FOLD_LINES_MIN = 4
# Items of Kubernetes lists are known by one of these fields (`x-kubernetes-list-map-keys` of the built-in types).
_ITEM_KEYS = ("name", "key", "type", "containerPort", "port", "ip", "uid", "mountPath", "topologyKey")
_FIRST_KEYS = ("apiVersion", "kind", "metadata", "spec", "data", "status")
# Who last wrote each field: the API server's bookkeeping, which changes with every write.
_BOOKKEEPING = "managedFields"
REDACTED = "REDACTED"


class Change(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of YAML, `indent` levels deep."""

    change: Change
    indent: int
    text: str
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that are not worth reading at first, with the names of the fields in them."""

    indent: int
    lines: tuple[Line, ...]
    names: tuple[str, ...]
    label: str = "unchanged"


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """What stands on the page: lines and folds in order, and how many lines were added and removed (bookkeeping left out)."""

    blocks: tuple[Line | Fold, ...]
    added: int
    removed: int
    is_cut: bool = False


def object_difference(old: Any, new: Any) -> ObjectDifference:
    """From the old to the new version of one object. Objects that nest too deeply for Python are compared as a whole."""
    try:
        lines = list(_without_bookkeeping(old, new))
        bookkeeping = _bookkeeping(old, new)
    except RecursionError:
        lines, bookkeeping = [Line(Change.SAME, 0, "(nested too deeply to be shown)")], []
    added, removed = (sum(line.change is change for line in lines) for change in (Change.ADDED, Change.REMOVED))
    is_cut = len(lines) > LINES_MAX
    blocks = list(_folded(lines[:LINES_MAX]))
    if bookkeeping:
        blocks.append(Fold(1, tuple(bookkeeping[:LINES_MAX]), (_BOOKKEEPING,), "of the API server's bookkeeping"))
    return ObjectDifference(tuple(blocks), added, removed, is_cut)


def object_lines(value: Any) -> ObjectDifference:
    """One object alone, as YAML; bookkeeping is folded."""
    shown = object_difference(value, value)
    opened: list[Line | Fold] = []
    for block in shown.blocks:
        if isinstance(block, Fold) and block.label == "unchanged":
            opened += block.lines
        else:
            opened.append(block)
    return ObjectDifference(tuple(opened), 0, 0, shown.is_cut)


def _without_bookkeeping(old: Any, new: Any) -> Iterator[Line]:
    return _mapping(_plain(old), _plain(new), 0) if isinstance(old, dict) and isinstance(new, dict) else _value("", old, new, 0)


def _plain(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or _BOOKKEEPING not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != _BOOKKEEPING}}


def _bookkeeping(old: Any, new: Any) -> list[Line]:
    before, after = _managed(old), _managed(new)
    return [] if before is None and after is None else list(_value(f"{_BOOKKEEPING}:", before, after, 1))


def _managed(obj: Any) -> Any:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata.get(_BOOKKEEPING) if isinstance(metadata, dict) else None


def _value(prefix: str, old: Any, new: Any, indent: int) -> Iterator[Line]:
    """The lines of one field or item; `prefix` is `key:` or `-`."""
    if indent >= _DEPTH_MAX or type(old) is not type(new) or not isinstance(old, (dict, list, str)) or not (old and new):
        yield from _replaced(prefix, old, new, indent)
    elif isinstance(old, dict):
        yield _line(Change.SAME, indent, prefix)
        yield from _mapping(old, new, indent + 1)
    elif isinstance(old, list):
        yield _line(Change.SAME, indent, prefix)
        yield from _items(old, new, indent + 1)
    elif "\n" in old and "\n" in new:
        yield _line(Change.SAME, indent, f"{prefix} |")
        yield from _texts(old.splitlines(), new.splitlines(), indent + 1)
    else:
        yield from _replaced(prefix, old, new, indent)


def _replaced(prefix: str, old: Any, new: Any, indent: int) -> Iterator[Line]:
    if old == new and type(old) is type(new):
        yield from _whole(Change.SAME, prefix, old, indent)
    else:
        yield from _whole(Change.REMOVED, prefix, old, indent)
        yield from _whole(Change.ADDED, prefix, new, indent)


def _mapping(old: dict[str, Any], new: dict[str, Any], indent: int) -> Iterator[Line]:
    for key in _keys(old, new):
        prefix = f"{_scalar(key)}:"
        if key not in new:
            yield from _whole(Change.REMOVED, prefix, old[key], indent)
        elif key not in old:
            yield from _whole(Change.ADDED, prefix, new[key], indent)
        else:
            yield from _value(prefix, old[key], new[key], indent)


def _keys(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Every key once: what an object begins with first, then in the order of the alphabet, as `kubectl get -o yaml` prints."""
    keys = {*old, *new}
    return [key for key in _FIRST_KEYS if key in keys] + sorted(keys.difference(_FIRST_KEYS))


def _items(old: Sequence[Any], new: Sequence[Any], indent: int) -> Iterator[Line]:
    key = _item_key(old, new)
    if key is not None:
        yield from _named_items(key, old, new, indent)
        return
    before, after = ([json.dumps(item, sort_keys=True) for item in items] for items in (old, new))
    for tag, first, last, from_, to in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "replace" and last - first == to - from_:
            for left, right in zip(old[first:last], new[from_:to], strict=True):
                yield from _value("-", left, right, indent)
            continue
        for item in old[first:last]:
            yield from _whole(Change.SAME if tag == "equal" else Change.REMOVED, "-", item, indent)
        for item in new[from_:to] if tag != "equal" else ():
            yield from _whole(Change.ADDED, "-", item, indent)


def _item_key(*lists: Sequence[Any]) -> str | None:
    """The field by which the items of both lists are told apart; None if there is none."""
    for key in _ITEM_KEYS:
        if all(_is_key(key, items) for items in lists):
            return key
    return None


def _is_key(key: str, items: Sequence[Any]) -> bool:
    values = [item.get(key) if isinstance(item, dict) else None for item in items]
    return all(isinstance(value, (str, int)) and not isinstance(value, bool) for value in values) and len(set(values)) == len(
        values
    )


def _named_items(key: str, old: Sequence[Any], new: Sequence[Any], indent: int) -> Iterator[Line]:
    before, after = ({item[key]: item for item in items} for items in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            yield from _whole(Change.REMOVED, "-", before[name], indent)
        elif name not in before:
            yield from _whole(Change.ADDED, "-", after[name], indent)
        else:
            yield _line(Change.SAME, indent, f"- {key}: {_scalar(name)}")
            left, right = ({field: value for field, value in side[name].items() if field != key} for side in (before, after))
            yield from _mapping(left, right, indent + 1)


def _texts(old: Sequence[str], new: Sequence[str], indent: int) -> Iterator[Line]:
    for tag, first, last, from_, to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for text in old[first:last]:
            yield _line(Change.SAME if tag == "equal" else Change.REMOVED, indent, text)
        for text in new[from_:to] if tag != "equal" else ():
            yield _line(Change.ADDED, indent, text)


def _whole(change: Change, prefix: str, value: Any, indent: int) -> Iterator[Line]:
    """Every line of one value, all of one change."""
    if indent >= _DEPTH_MAX or not isinstance(value, (dict, list)) or not value:
        if isinstance(value, str) and "\n" in value:
            yield _line(change, indent, f"{prefix} |".lstrip())
            yield from (_line(change, indent + 1, text) for text in value.splitlines())
        else:
            yield _line(change, indent, f"{prefix} {_scalar(value)}".lstrip())
        return
    if prefix == "-" and isinstance(value, dict):
        # What tells an item apart from the others stands on its first line.
        key = next((key for key in _ITEM_KEYS if isinstance(value.get(key), (str, int))), None)
        if key is not None:
            prefix, value = f"- {key}: {_scalar(value[key])}", {name: item for name, item in value.items() if name != key}
    if prefix:
        yield _line(change, indent, prefix)
        indent += 1
    if isinstance(value, dict):
        for key in _keys(value, ()):
            yield from _whole(change, f"{_scalar(key)}:", value[key], indent)
    else:
        for item in value:
            yield from _whole(change, "-", item, indent)


def _line(change: Change, indent: int, text: str) -> Line:
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(text):,} characters)"
    return Line(change, indent, shown, is_redacted=REDACTED in text)


def _scalar(value: Any) -> str:
    """A scalar as YAML would have it; what YAML could take for something else, and every control character, is quoted."""
    if isinstance(value, str) and value and value.isprintable() and value.strip() == value:
        plain = value[0].isalpha() or value[0] in "/."
        if plain and ": " not in value and " #" not in value and not value.endswith(":") and value.lower() not in _WORDS:
            return value
    return json.dumps(value, ensure_ascii=isinstance(value, str) and not value.isprintable())


_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


def _folded(lines: Sequence[Line]) -> Iterator[Line | Fold]:
    """The lines with runs of unchanged ones folded; headers that lead to no change are folded with what they lead to."""
    needed = _needed(lines)
    run: list[Line] = []
    for line, is_needed in zip(lines, needed, strict=True):
        if not is_needed:
            run.append(line)
            continue
        yield from _close(run)
        run = []
        yield line
    yield from _close(run)


def _needed(lines: Sequence[Line]) -> list[bool]:
    """Which lines changed, or lead to one that did."""
    needed = [line.change is not Change.SAME for line in lines]
    below: int | None = None  # the indent of the nearest needed line below: only a line with less can lead to it
    for index in range(len(lines) - 1, -1, -1):
        indent = lines[index].indent
        if needed[index] or (below is not None and indent < below):
            needed[index], below = True, indent
    return needed


def _close(run: Sequence[Line]) -> Iterator[Line | Fold]:
    if len(run) < _FOLD_LINES_MIN:
        yield from run
        return
    indent = min(line.indent for line in run)
    names = tuple(line.text.partition(":")[0] for line in run if line.indent == indent and not line.text.startswith("-"))
    yield Fold(indent, tuple(run), names)
