"""Exemptions that the manifests have already: whether they are still needed, and whether a narrower one would do.

Each is taken out of a copy of its policy, and policy and copies are replayed together. This one exemption keeps out a request
that the copy matches and the policy itself does not. If two exemptions keep out the same request, it counts for neither.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from queries import LakeReader

from ...request import Object
from ...runs import Defect, RunKind, RunSummary
from ...runs.plan import RunPlan
from ...stages.stage import Asked, Stage
from ..counting.units import find_units
from ..run import Note, ignored, trial
from ..sql import statement
from .exemptions import Choice, Width
from .manifests import Key, Manifests, exemption_dates, is_binding
from .search import NOTHING, Search, find_exposed

_SELECTORS = ("namespaceSelector", "objectSelector")


class Need(StrEnum):
    """Whether the window shows that a present exemption is needed."""

    NEEDED = "needed"
    TOO_WIDE = "too wide"
    NOT_NEEDED = "no longer needed"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Present:
    """One exemption in a manifest: its place, and its words."""

    target: Key
    path: tuple[str | int, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The requests that one exemption keeps out. `narrower` exemptions would hide the same denials and fewer passing workloads."""

    target: str
    words: str
    need: Need
    width: Width
    narrower: tuple[str, ...] = ()
    narrower_width: Width | None = None

    @property
    def passing_share(self) -> float:
        """Share of the judged requests behind it that would pass anyway."""
        judged = self.width.passing_requests + self.width.denied_requests
        return self.width.passing_requests / judged if judged else 0.0


@dataclass(frozen=True, slots=True)
class Overdue:
    """An exemption whose review date, in the annotation of its object, has passed."""

    target: str
    words: str
    review_by: date


def overdue(manifests: Manifests, today: date) -> tuple[Overdue, ...]:
    """The exemptions whose review date has passed."""
    return tuple(
        Overdue("/".join(key), words, day)
        for key, obj in manifests.objects.items()
        for words, day in sorted(exemption_dates(obj).items())
        if day is not None and day <= today
    )


def present(manifests: Manifests) -> tuple[Present, ...]:
    """Every part of the manifests that only takes requests out: negative selectors, excluded resources, match conditions."""
    return tuple(item for key, obj in manifests.objects.items() for item in _present(key, obj))


def _present(key: Key, obj: Object) -> Iterator[Present]:
    field = "matchResources" if is_binding(key[0]) else "matchConstraints"
    resources = obj["spec"].get(field) or {}
    for name in _SELECTORS:
        expressions = (resources.get(name) or {}).get("matchExpressions") or []
        for index, item in enumerate(expressions):
            path: tuple[str | int, ...] = ("spec", field, name, "matchExpressions", index)
            if item["operator"] == "NotIn":
                for position, value in enumerate(item["values"]):
                    yield Present(key, (*path, "values", position), f"{name}: {item['key']} NotIn [{value}]")
            elif item["operator"] == "DoesNotExist":
                yield Present(key, path, f"{name}: {item['key']} DoesNotExist")
    for index, rule in enumerate(resources.get("excludeResourceRules") or []):
        path = ("spec", field, "excludeResourceRules", index)
        words = f"excludeResourceRules: {', '.join(rule['resources'])}"
        names = rule.get("resourceNames") or []
        for position, value in enumerate(names):
            yield Present(key, (*path, "resourceNames", position), f"{words} named {value}")
        if not names:
            yield Present(key, path, words)
    for index, condition in enumerate(obj["spec"].get("matchConditions") or []):
        yield Present(key, ("spec", "matchConditions", index), f"matchConditions: {condition['name']}")


def removed(obj: Object, path: Sequence[str | int]) -> Object:
    """An object without one exemption. An entry that would be left without values goes too: empty means everything."""
    found = copy.deepcopy(obj)
    parents: list[Any] = [found]
    for step in path[:-1]:
        parents.append(parents[-1][step])
    del parents[-1][path[-1]]
    if not parents[-1] and path[-2] in ("values", "resourceNames"):
        del parents[-3][path[-3]]
    return found


def review(
    reader: LakeReader,
    lake: Path,
    stage: Stage[Any, Any],
    manifests: Manifests,
    asked: Asked | None = None,
    workers: int = 1,
    note: Note = ignored,
) -> tuple[Finding, ...]:
    """The requests of a window that each exemption in the manifests of a stage keeps out, in the order of the manifests.

    `asked` are the wishes for the plan of the replay, and `note` gets what Hindcast failed to judge.
    """
    found = present(manifests)
    if not found:
        return ()
    variants = [_Variant.of(manifests, index, item) for index, item in enumerate(found)]
    together = manifests.replaced({key: obj for variant in variants for key, obj in variant.objects.items()})
    origin = {variant.name: variant.policy for variant in variants}

    def walk(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        return stage.run(plan, lake, workers, None, kind)

    def note_originals(defects: Sequence[Defect]) -> None:
        note([replace(each, policy=origin.get(each.policy, each.policy)) for each in defects])

    plan = stage.plan(reader, stage.read(together.documents()), asked or Asked())
    with trial(lake, stage, plan, walk, note_originals) as verdicts:
        search = _search(reader, verdicts, variants)
    # Denials that the policy itself already has do not depend on this exemption.
    widths = search.widths_behind()
    choices = search.choose({name: NOTHING for name, width in widths.items() if width.denied_requests})
    return tuple(
        _finding(item, widths.get(variant.name, Width()), choices.get(variant.name))
        for item, variant in zip(found, variants, strict=True)
    )


@dataclass(frozen=True)
class _Variant:
    """A copy of a policy and its bindings under other names, without one exemption. `names` maps its bindings to the originals."""

    name: str
    policy: str
    names: Mapping[str, str] | Mapping[None, None]
    objects: Mapping[Key, Object]

    @classmethod
    def of(cls, manifests: Manifests, index: int, item: Present) -> _Variant:
        kind, target = item.target
        own = is_binding(kind)
        policy = manifests.objects[item.target]["spec"]["policyName"] if own else target
        bound = kind if own else f"{kind}Binding"
        name = f"without-{index}.hindcast"
        less = manifests.replaced({item.target: removed(manifests.objects[item.target], item.path)})
        names_of = [target] if own else manifests.bindings_of(policy)
        objects, names = less.renamed((kind.removesuffix("Binding"), policy), name, [(bound, each) for each in names_of])
        return cls(name, policy, names or {None: None}, objects)


def _search(reader: LakeReader, verdicts: Path, variants: Sequence[_Variant]) -> Search:
    pairs = [(variant.name, new, variant.policy, old) for variant in variants for new, old in variant.names.items()]
    columns = zip(*pairs, strict=True)
    names = ("variant", "variant_binding", "policy", "binding")
    table = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], names=list(names))
    reader.connection.register("variants", table)
    try:
        reader.connection.execute(statement("exposed_behind"), {"verdicts": str(verdicts)})
        find_units(reader)
    finally:
        reader.connection.unregister("variants")
    find_exposed(reader.connection)
    return Search(reader.connection)


def _finding(item: Present, width: Width, choice: Choice | None) -> Finding:
    target = "/".join(item.target)
    if choice is None:
        need = Need.NOT_KNOWN if width.unknown_requests else Need.NOT_NEEDED
        return Finding(target, item.words, need, width)
    if _is_narrower(choice, width):
        words = tuple(chosen.exclusion.words for chosen in choice.chosen)
        return Finding(target, item.words, Need.TOO_WIDE, width, words, choice.width)
    return Finding(target, item.words, Need.NEEDED, width)


def _is_narrower(choice: Choice, width: Width) -> bool:
    """Whether other exemptions hide every denial and spare more workloads than there are more of them."""
    more = len(choice.chosen) - 1
    return not choice.left and choice.width.passing_units + more < width.passing_units
