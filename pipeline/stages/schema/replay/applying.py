"""Server-side apply of a custom resource: the typed check of the applied object, and its merge with the stored one.

Follows structured-merge-diff typed/{validate,merge}.go and kubernetes/apimachinery pkg/util/managedfields. Which fields an apply
removes depends on `managedFields`, which logs often leave out. What the apply removed under the schema of the time shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..correlation import same
from ..metadata import MetadataError, object_meta
from ..props import Props
from ..pruning import set_defaults
from ..writing import ObjectKind
from .sent import Sent
from .served import UndecidedError

# One step into a value: the name of a field, the keys of an item of a map list, or an item of a set.
Path: TypeAlias = tuple[Any, ...]
_SCALARS = {"string": (str,), "boolean": (bool,), "integer": (int, float), "number": (int, float)}
_WORDS = {"string": "string", "boolean": "boolean", "integer": "numeric (int or float)", "number": "numeric (int or float)"}


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply removes: these paths, or, with `everything`, all that the stored object has and the applied one lacks.

    At the paths `replaced` the applied list replaces the stored one. `metadata` is that which the apply left, where the answer
    shows it.
    """

    removed: frozenset[Path] = frozenset()
    replaced: frozenset[Path] = frozenset()
    everything: bool = False
    metadata: Any = None


def typed_problem(kind: ObjectKind, config: dict[str, Any], name: str) -> str:
    """The text of the error of an applied object that does not fit the schema; empty if it fits."""
    problems = list(typed_errors(config, kind.schema, True))
    if not problems:
        return ""
    shown = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
    return f"failed to create typed patch object ({name}; {kind.api_version}, Kind={kind.kind}): {shown}"


def apply(kind: ObjectKind, config: dict[str, Any], old: dict[str, Any] | None, applied: Applied | None) -> dict[str, Any]:
    """The object after an apply that fits the schema. `old` is the stored object as the request meets it."""
    if old is None:
        value = copy.deepcopy(config)
    else:
        value = merged(old, config, kind.schema)
        done = applied or Applied()
        if done.everything:
            value = _only(value, config, kind.schema, True)
        for path in done.replaced:
            _replace(value, path, config, kind.schema)
        for path in sorted(done.removed, key=len, reverse=True):
            remove(value, path, kind.schema)
        value["metadata"] = copy.deepcopy(done.metadata or value.get("metadata") or {})
    set_defaults(value, kind.schema)
    return value


def typed_errors(value: Any, schema: Props | None, is_resource: bool = False, path: str = "") -> Iterator[str]:
    """The errors of the conversion to the typed form, which knows fewer keywords than validation, and takes null for anything."""
    if value is None or schema is None or schema.is_int_or_string:
        return
    where = path or "."
    if isinstance(value, dict) and schema.type in ("object", ""):
        yield from _map_errors(value, schema, is_resource or schema.is_embedded_resource, path)
    elif isinstance(value, list) and schema.type in ("array", ""):
        yield from _list_errors(value, schema, path)
    elif schema.type in ("object", "array"):
        yield f"{where}: expected {'map' if schema.type == 'object' else 'list'}, got {_shown(value)}"
    elif schema.type in _SCALARS and (
        not isinstance(value, _SCALARS[schema.type]) or (isinstance(value, bool) and schema.type != "boolean")
    ):
        yield f"{where}: expected {_WORDS[schema.type]}, got {_shown(value)}"


def _map_errors(value: dict[str, Any], schema: Props, is_resource: bool, path: str) -> Iterator[str]:
    for name, item in value.items():
        where = f"{path}.{name}"
        if is_resource and name in ("apiVersion", "kind", "metadata"):
            yield from _metadata_errors(item, where) if name == "metadata" else ()
        elif name in schema.properties:
            yield from typed_errors(item, schema.properties[name], False, where)
        elif schema.values is not None:
            yield from typed_errors(item, schema.values, False, where)
        elif not _takes_anything(schema):
            yield f"{where}: field not declared in schema"


def _metadata_errors(value: Any, path: str) -> Iterator[str]:
    unknown: list[str] = []
    try:
        object_meta(value, unknown, False)
    except MetadataError as problem:
        raise UndecidedError(f"applied metadata of a wrong type: {problem}") from None
    for each in unknown:
        yield f"{path}.{each}: field not declared in schema"


def _takes_anything(schema: Props) -> bool:
    """Whether the typed form takes undeclared fields: the published schema says no more than that it is an object."""
    return bool(schema.preserves_unknown_fields) or schema.additional_properties is not None or not schema.properties


def _list_errors(value: list[Any], schema: Props, path: str) -> Iterator[str]:
    if schema.items is None:
        return
    for number, item in enumerate(value):
        where = f"{path}[{number}]"
        if schema.list_type == "map" and isinstance(item, dict):
            shown = [f'{name}="{item[name]}"' if isinstance(item.get(name), str) else f"{name}={item.get(name)}"
                     for name in schema.list_map_keys]  # fmt: skip
            where = f"{path}[{','.join(shown)}]"
        yield from typed_errors(item, schema.items, False, where)
    if schema.list_type not in ("set", "map"):
        return
    seen: list[Any] = []
    for number, item in enumerate(value):
        step = step_of(item, schema)
        if step is None:
            yield f"{path}: element {number}: associative list with keys has an element that omits a key field"
        elif step in seen:
            yield f"{path}: duplicate entries for key {step}"
        seen.append(step)


def _shown(value: Any) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
    return f"&value.valueUnstructured{{Value:{text}}}"


def step_of(item: Any, schema: Props) -> Any:
    """The step to an item of a set or map list; None if the item lacks a key."""
    if schema.list_type == "set":
        return ("set", item.__class__.__name__, repr(item))
    if not isinstance(item, dict) or schema.items is None:
        return None
    found = []
    for name in schema.list_map_keys:
        below = schema.items.properties.get(name)
        value = item.get(name)
        if value is None and below is not None and below.has_default:
            value = below.default
        if value is None:
            return None
        found.append((name, value))
    return ("map", *found)


def is_granular(schema: Props) -> bool:
    """Whether the fields of a map have owners of their own."""
    return schema.map_type != "atomic"


def merged(live: Any, config: Any, schema: Props | None) -> Any:
    """The applied value merged into the live one, with which it may share parts."""
    if isinstance(live, dict) and isinstance(config, dict) and (schema is None or is_granular(schema)):
        value = dict(live)
        for name, item in config.items():
            below = None if schema is None else schema.properties.get(name) or schema.values
            if name in value:
                value[name] = merged(value[name], item, below)
            else:
                value[name] = copy.deepcopy(item)
        return value
    if isinstance(live, list) and isinstance(config, list) and schema is not None and schema.list_type in ("set", "map"):
        return _merged_lists(live, config, schema)
    if isinstance(live, dict | list) and live and config is None:
        return live
    return copy.deepcopy(config)


def _merged_lists(live: list[Any], config: list[Any], schema: Props) -> list[Any]:
    """Two associative lists merged: items of both keep the order of the applied list (typed/merge.go, visitListItems)."""
    lefts, rights = ([step_of(item, schema) for item in items] for items in (live, config))
    if None in lefts or len(set(lefts)) != len(lefts):
        raise UndecidedError("an apply merges into a stored list that repeats an item or lacks a key")
    left_of, right_of = dict(zip(lefts, live, strict=True)), dict(zip(rights, config, strict=True))
    shared = [step for step in rights if step in left_of]
    done: set[Any] = set()
    out: list[Any] = []
    at = to = 0
    while at < len(lefts) or to < len(rights):
        if at < len(lefts) and to < len(rights):
            step = lefts[at]
            if step == rights[to]:
                done.add(step)
                out.append(merged(left_of[step], right_of[step], schema.items))
                at, to, shared = at + 1, to + 1, shared[1:]
                continue
            if step in right_of and shared and shared[0] != step:
                at += 1
                continue
        if at < len(lefts):
            step = lefts[at]
            if step not in right_of:
                out.append(left_of[step])
                at += 1
                continue
            if step in done:
                at += 1
        if to < len(rights):
            step = rights[to]
            done.add(step)
            known = left_of.get(step)
            out.append(merged(known, right_of[step], schema.items) if step in left_of else copy.deepcopy(right_of[step]))
            to += 1
            if shared and shared[0] == step:
                shared = shared[1:]
    return out


def _only(value: Any, config: Any, schema: Props | None, is_root: bool = False) -> Any:
    """The merged value with the fields of the applied one alone."""
    if isinstance(value, dict) and isinstance(config, dict) and (schema is None or is_granular(schema)):
        kept = {}
        for name, item in value.items():
            below = None if schema is None else schema.properties.get(name) or schema.values
            if name in config:
                kept[name] = _only(item, config[name], below)
            elif is_root and name in ("apiVersion", "kind", "metadata", "status"):
                kept[name] = item
        return kept
    if isinstance(value, list) and isinstance(config, list) and schema is not None and schema.list_type in ("set", "map"):
        right_of = {step_of(item, schema): item for item in config}
        found = [(step_of(item, schema), item) for item in value]
        return [_only(item, right_of[step], schema.items) for step, item in found if step in right_of]
    return value


def removed_between(
    sent: Sent, before: dict[str, Any], after: dict[str, Any], old: ObjectKind, new: ObjectKind
) -> tuple[Applied, set[Path]]:
    """What an apply removed that made `before` into `after`, and the lists that the new definition merges otherwise."""
    left_out = {"apiVersion", "kind", "metadata"}
    if sent.subresource == "status":
        left_out |= {name for name in before if name != "status"}
    elif old.has_status:
        left_out.add("status")
    was, became = ({name: item for name, item in each.items() if name not in left_out} for each in (before, after))
    unsure: set[Path] = set()
    paths = frozenset(_removals(was, became, sent.body, old.schema, new.schema, unsure))
    return Applied(paths, metadata=after.get("metadata")), unsure


def _removals(
    before: Any, after: Any, config: Any, old: Props | None, new: Props | None, unsure: set[Path], path: Path = ()
) -> Iterator[Path]:
    """The paths that an apply removed under the schema of the time. Lists that the new schema merges otherwise go to `unsure`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, item in before.items():
            below_old = None if old is None else old.properties.get(name) or old.values
            below_new = None if new is None else new.properties.get(name) or new.values
            if name not in after:
                yield (*path, name)
            else:
                given = config.get(name) if isinstance(config, dict) else None
                yield from _removals(item, after[name], given, below_old, below_new, unsure, (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and old is not None and new is not None:
        if (old.list_type or "atomic") != (new.list_type or "atomic") and not _merges_alike(before, after, config):
            unsure.add(path)
            return
        if old.list_type in ("set", "map") and old.list_type == new.list_type:
            kept = {step_of(item, old): item for item in after}
            given = {step_of(item, old): item for item in config} if isinstance(config, list) else {}
            for item in before:
                step = step_of(item, old)
                if step not in kept:
                    yield (*path, step)
                else:
                    yield from _removals(item, kept[step], given.get(step), old.items, new.items, unsure, (*path, step))


def _merges_alike(before: list[Any], after: list[Any], config: Any) -> bool:
    """Whether it does not matter how a list is merged: nothing is applied to it, it was empty, or it stays as it was."""
    return config is None or not before or (same(before, after) and same(after, config))


def _replace(value: Any, path: Sequence[Any], config: Any, schema: Props | None) -> None:
    """Take the applied list at a path in place of the merged one."""
    step, *rest = path
    if isinstance(step, str):
        if not isinstance(value, dict) or not isinstance(config, dict) or step not in value or step not in config:
            return
        if not rest:
            value[step] = copy.deepcopy(config[step])
            return
        _replace(value[step], rest, config[step], None if schema is None else schema.properties.get(step) or schema.values)
    elif isinstance(value, list) and isinstance(config, list) and schema is not None:
        found, given = ([item for item in items if step_of(item, schema) == step] for items in (value, config))
        if found and given:
            _replace(found[0], rest, given[0], schema.items)


def remove(value: Any, path: Sequence[Any], schema: Props | None) -> None:
    """Remove what lies at a path, if something does."""
    step, *rest = path
    if isinstance(step, str):
        if not isinstance(value, dict) or step not in value:
            return
        if not rest:
            del value[step]
            return
        below = None if schema is None else schema.properties.get(step) or schema.values
        remove(value[step], rest, below)
    elif isinstance(value, list) and schema is not None:
        for number, item in enumerate(value):
            if step_of(item, schema) == step:
                if rest:
                    remove(item, rest, schema.items)
                else:
                    del value[number]
                return
