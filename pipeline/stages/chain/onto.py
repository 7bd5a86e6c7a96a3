"""The object in a recorded answer, as it would have been with the changes of other mutating policies."""

from __future__ import annotations

from typing import Any, Final

from ...history.json_values import copied, json_equal
from ...request import Evidence, Json, Known, Object

_ABSENT: Final = object()
# What the strategy of Jobs adds to the labels of a template (kubernetes pkg/registry/batch/job/strategy.go, generateSelector).
_NAMES: Final = ("controller-uid", "job-name")
GENERATED_LABELS: Final = (*_NAMES, *(f"batch.kubernetes.io/{name}" for name in _NAMES))
_TEMPLATES: Final = "deprecated.daemonset.template.generation"


def onto(before: Json, after: Json, recorded: Json) -> Any:
    """`recorded` with the changes that make `after` of `before`. Entries of lists are paired by names, else by numbers."""
    if json_equal(before, after):
        return copied(recorded)
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(recorded, dict):
        return _of_maps(before, after, recorded)
    if isinstance(before, list) and isinstance(after, list) and isinstance(recorded, list):
        return _of_lists(before, after, recorded)
    return copied(after)


def _of_maps(before: dict[str, Any], after: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    found = {name: copied(value) for name, value in recorded.items()}
    for name in before.keys() | after.keys():
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if new is _ABSENT:
            found.pop(name, None)
        elif old is _ABSENT:
            was = recorded.get(name, _ABSENT)
            found[name] = copied(new) if was is _ABSENT else _added(new, was)
        elif not json_equal(old, new):
            found[name] = onto(old, new, recorded[name]) if name in recorded else copied(new)
    return found


def _added(new: Any, recorded: Any) -> Any:
    """A field that the changes bring, where the server or a plugin brings one as well."""
    if isinstance(new, list) and isinstance(recorded, list):
        return [*copied(recorded), *(copied(each) for each in new if each not in recorded)]
    return onto({} if isinstance(new, dict) else None, new, recorded)


def _of_lists(before: list[Any], after: list[Any], recorded: list[Any]) -> list[Any]:
    names = [_names(each) for each in (before, after, recorded)]
    if None in names:
        if len(before) == len(after) == len(recorded):
            return [onto(*each) for each in zip(before, after, recorded, strict=True)]
        # A policy that adds to the end of the sent list adds behind the recorded elements.
        if len(after) > len(before) and all(map(json_equal, before, after)):
            return [*copied(recorded), *copied(after[len(before) :])]
        return list(copied(after))
    old, new, stored = (each or {} for each in names)
    found = {name: onto(old.get(name), new[name], value) if name in new else copied(value) for name, value in stored.items()}
    kept = [found[name] for name in found if name in new or name not in old]
    added = {name: at for at, name in enumerate(new) if name not in found}
    for name, at in added.items():
        kept.insert(at if at < len(old) else len(kept), copied(new[name]))
    return kept


def _names(entries: list[Any]) -> dict[str, Any] | None:
    found = {each["name"]: each for each in entries if isinstance(each, dict) and isinstance(each.get("name"), str)}
    return found if len(found) == len(entries) else None


def count_generation(value: Object, old: Evidence[Object | None]) -> None:
    """Set metadata.generation as the strategies of kinds do: an update that changes the spec counts."""
    metadata = value.get("metadata") or {}
    if "generation" not in metadata or not isinstance(old, Known) or old.value is None:
        return
    before = old.value.get("metadata") or {}
    same = json_equal(value.get("spec"), old.value.get("spec"))
    if value.get("kind") == "Deployment":  # kubernetes pkg/registry/apps/deployment/strategy.go, PrepareForUpdate
        same = same and json_equal(metadata.get("annotations") or {}, before.get("annotations") or {})
    if value.get("kind") == "DaemonSet":
        _count_templates(value, old.value)
    if "generation" in before:
        metadata["generation"] = before["generation"] if same else before["generation"] + 1


def _count_templates(value: Object, old: Object) -> None:
    """kubernetes pkg/registry/apps/daemonset/strategy.go counts versions of the template, and an annotation shows it."""
    annotations = value["metadata"].get("annotations") or {}
    number = str(((old.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATES, ""))
    if _TEMPLATES in annotations and number.isdigit():
        same = json_equal((value.get("spec") or {}).get("template"), (old.get("spec") or {}).get("template"))
        value["metadata"]["annotations"] = annotations | {_TEMPLATES: number if same else str(int(number) + 1)}


def part_labels(value: Object) -> None:
    """Take from a new Job what its own labels have of those of its template alone.

    A Job without labels shares the map of its template (kubernetes pkg/apis/batch/v1/defaults.go, SetDefaults_Job), so that the
    labels of its strategy show up in both. A mutation makes a new object, with maps of their own.
    """
    labels = (value["metadata"].get("labels") or {}) if value.get("kind") == "Job" else {}
    for name in GENERATED_LABELS:
        labels.pop(name, None)
