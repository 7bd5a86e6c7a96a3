"""Merging an ApplyConfiguration into an object, by the shape of its kind.

Follows sigs.k8s.io/structured-merge-diff typed/{validate,merge,helpers}.go, and ApplyStructuredMergeDiff of kubernetes/apiserver
pkg/admission/plugin/policy/mutating/patch/smd.go. There is no field manager and no ownership: nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...request import GroupVersionKind, Json, Object
from .nil_lists import copied
from .shapes import ListShape, Shape, merges
from .unconverted import Unconverted, go_print, go_syntax, go_type

Problem: TypeAlias = tuple[str, str]  # a path and a text
_ABSENT: Final = object()
# The scalar that a value surely is.
_SCALAR_OF: Final[Mapping[type, str]] = {str: "string", int: "numeric", float: "numeric", bool: "boolean"}


class MergeError(Exception):
    """A configuration that cannot be merged. `str()` is the API server's text after `error applying patch: `."""


class DuplicateError(MergeError):
    """An object with an entry twice in a list, which nothing is merged into."""


class _KeyError(Exception):
    """An entry of a list without the keys by which it would merge."""


def merge(
    live: Object, configuration: Mapping[str, Any], shape: Shape, kind: GroupVersionKind, *, takes_duplicates: bool = True
) -> Object:
    """The object with a configuration merged into it; both stay as they were. Raises MergeError.

    `takes_duplicates`: the object may have an entry twice in a list; else DuplicateError.
    """
    if not merges(kind):
        named = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        raise MergeError(f"failed to convert patch object to typed object: no corresponding type for {named}")
    patch = {**configuration, "apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    problems = list(_problems(patch, shape))
    if problems:
        raise MergeError(f"failed to convert patch object to typed object: {_listed(problems)}")
    atomics = list(_atomics(patch, shape, ""))
    if atomics:
        raise MergeError(f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomics)}")
    problems = list(_problems(live, shape, allows_duplicates=True))
    if problems:
        raise MergeError(f"failed to convert original object to typed object: {_listed(problems)}")
    if not takes_duplicates and (problems := list(_problems(live, shape))):
        raise DuplicateError(f"failed to convert original object to typed object: {_listed(problems)}")
    merged: Object = _merged(live, patch, shape)
    return merged


def united(live: Object, applied: Object, shape: Shape) -> Object:
    """The object with an applied one merged into it by a shape. Fields that the applier gave up stay: nothing records ownership."""
    result: Object = _merged(live, applied, shape)
    return result


def _listed(problems: Sequence[Problem]) -> str:
    texts = [f"{path}: {text}" if path else text for path, text in problems]
    return texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {each}" for each in texts)])


def _part(value: Json, shape: Shape) -> str:
    """As which part of its shape a value is read: a map, a scalar or a list."""
    if isinstance(value, bool | int | float | str) and shape.scalar:
        return "scalar"
    if isinstance(value, list) and shape.list is not None:
        return "list"
    if isinstance(value, dict) and shape.map is not None:
        return "map"
    return "map" if shape.map is not None else "scalar" if shape.scalar else "list"


def _problems(value: Json, shape: Shape, path: str = "", *, allows_duplicates: bool = False) -> Iterator[Problem]:
    """Why a value does not have a shape."""
    match _part(value, shape):
        case "map":
            if value is not None and not isinstance(value, dict):
                yield path, f"expected map, got &{{{go_print(value)}}}"
                return
            map_ = shape.map
            assert map_ is not None
            given = value or {}
            for name in sorted(given):
                within = map_.fields.get(name, map_.others)
                if within is None:
                    yield f"{path}.{name}", "field not declared in schema"
                    return
                own = given[name]
                if _SCALAR_OF.get(own.__class__, "") == within.scalar != "":
                    continue  # as most values
                if within.is_anything and not isinstance(own, Unconverted | dict | list):
                    continue
                yield from _problems(own, within, f"{path}.{name}", allows_duplicates=allows_duplicates)
        case "list":
            yield from _list_problems(value, shape, path, allows_duplicates)
        case _:
            yield from _scalar_problems(value, shape.scalar, path)


def _list_problems(value: Json, shape: Shape, path: str, allows_duplicates: bool) -> Iterator[Problem]:
    if value is not None and not isinstance(value, list):
        yield path, f"expected list, got &{{{go_print(value)}}}"
        return
    list_ = shape.list
    assert list_ is not None
    seen: set[Any] = set()
    for number, item in enumerate(value or ()):
        place = f"[{number}]"
        if list_.is_associative:
            try:
                key = _key(item, list_)
            except _KeyError as problem:
                yield path, f"element {number}: {problem}"
                return
            place = _shown(key)
            if key in seen and not allows_duplicates:
                yield path, f"duplicate entries for key {place}"
            seen.add(key)
        yield from _problems(item, list_.element, path + place, allows_duplicates=allows_duplicates)


def _scalar_problems(value: Json, scalar: str, path: str) -> Iterator[Problem]:
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match scalar:
        case "numeric" if not is_number:
            yield path, f"expected numeric (int or float), got {go_type(value)}"
        case "string" if not isinstance(value, str):
            yield path, f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            yield path, f"expected boolean, got &{{{go_print(value)}}}"
        case "untyped" if not isinstance(value, bool | int | float | str):
            yield path, f"expected any scalar, got &{{{go_print(value)}}}"


def _key(item: Json, shape: ListShape) -> tuple[Any, ...]:
    """What identifies an entry of an associative list. Raises _KeyError."""
    if not shape.keys:
        if isinstance(item, dict):
            raise _KeyError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise _KeyError("not supported: associative list with lists as elements")
        if item is None:
            raise _KeyError("associative list without keys has an element that's an explicit null")
        return (("", isinstance(item, bool), item),)
    if item is None:
        raise _KeyError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise _KeyError("associative list with keys may not have non-map elements")
    defaults = shape.element.map.defaults if shape.element.map is not None else {}
    found = []
    for name in sorted(shape.keys):
        value = item.get(name, defaults.get(name))
        if value is None and name not in item:
            text = f'associative list with keys has an element that omits key field "{name}" (and doesn\'t have default value)'
            raise _KeyError(text)
        found.append((name, isinstance(value, bool), value if not isinstance(value, dict | list) else repr(value)))
    return tuple(found)


def _shown(key: tuple[Any, ...]) -> str:
    return f"[{','.join(f'{name}={go_syntax(value)}' for name, _, value in key)}]"


def _atomics(value: Json, shape: Shape, path: str) -> Iterator[str]:
    """The places of a configuration that would replace a whole list or map."""
    if isinstance(value, dict) and (map_ := shape.map) is not None:
        if map_.is_atomic:
            yield path
        for name in sorted(value):
            if name in map_.fields:
                yield from _atomics(value[name], map_.fields[name], f"{path}.{name}")
    if isinstance(value, list) and (list_ := shape.list) is not None:
        if not list_.is_associative:
            yield path
        for number, item in enumerate(value):
            yield from _atomics(item, list_.element, f"{path}[{number}]")


def _merged(live: Any, patch: Any, shape: Shape) -> Any:
    if patch is _ABSENT:
        return copied(live)
    if live is _ABSENT or live is None:
        return copied(patch)
    part = _part(patch, shape)
    if patch is None:
        return copied(live) if live and isinstance(live, {"map": dict, "list": list}.get(part, ())) else None
    if part == "map" and isinstance(patch, dict) and isinstance(live, dict):
        map_ = shape.map
        assert map_ is not None
        if map_.is_atomic or not (live or patch):
            return copied(patch)
        result = {}
        for name in [*live, *(each for each in patch if each not in live)]:
            within = map_.fields.get(name, map_.others) or shape
            result[name] = _merged(live.get(name, _ABSENT), patch.get(name, _ABSENT), within)
        return result
    if part == "list" and isinstance(patch, list) and isinstance(live, list):
        list_ = shape.list
        assert list_ is not None
        if not list_.is_associative or not (live or patch):
            return copied(patch)
        return _merged_lists(live, patch, list_)
    return copied(patch)


def _merged_lists(live: list[Json], patch: list[Json], shape: ListShape) -> list[Json]:
    """Entries that both have keep the order of the patch, and the others stand where they stood (merge.go, visitListItems)."""
    lefts, rights = [_key(each, shape) for each in live], [_key(each, shape) for each in patch]
    # An entry that the live list has twice does not merge: the new one takes its place.
    of_left = {key: (live[at] if lefts.count(key) == 1 else None) for at, key in enumerate(lefts)}
    of_right = dict(zip(rights, patch, strict=True))
    shared = [key for key in rights if key in of_left]
    wanted = shared.pop(0) if shared else None
    merged: set[Any] = set()
    result: list[Json] = []
    left = right = 0

    def take(key: Any) -> None:
        merged.add(key)
        result.append(_merged(of_left.get(key, _ABSENT), of_right[key], shape.element))

    while left < len(lefts) or right < len(rights):
        if left < len(lefts) and right < len(rights):
            key = lefts[left]
            if key == rights[right]:
                take(key)
                left, right = left + 1, right + 1
                wanted = shared.pop(0) if shared else None
                continue
            if key in of_right and wanted is not None and wanted != key:
                left += 1
                continue
        if left < len(lefts):
            key = lefts[left]
            if key not in of_right:
                result.append(copied(live[left]))
                left += 1
                continue
            if key in merged:
                left += 1
        if right < len(rights):
            key = rights[right]
            take(key)
            right += 1
            if wanted == key:
                wanted = shared.pop(0) if shared else None
    return result
