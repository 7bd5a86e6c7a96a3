"""The rollout to Deny in waves: the namespaces where it can begin today, those that follow, and what has to change there first.

Wave 1 holds the namespaces with matched requests and no denial. The others follow by how many workloads have to change. The
namespaces of the system, and objects outside of namespaces, come last, with the binding for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from ..request import Object
from ..stages.actions import Actions
from ..stages.waves import CLEAN, FEW, FEW_WORKLOADS, MANY, REST, Needed, Rollout, Tried, Wave
from .counting.bounds import upper_bound
from .exempting.manifests import Manifests
from .exempting.measures import RolloutStep
from .rollout import DENY, is_clean, spared_namespaces, step_manifest
from .rules import ReadinessRules
from .sql import statement


@dataclass(frozen=True, slots=True)
class _Space:
    """The counts of one namespace; see sql/waves.sql."""

    namespace: str
    middle: datetime
    matched: int
    denied: int
    unknown: int
    denied_units: int
    earlier: int
    earlier_denied: int
    later: int
    later_denied: int


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the waves of all policies are made from."""

    rules: ReadinessRules
    manifests: Manifests
    actions: Actions
    labels: Mapping[str, Mapping[str, str] | None]


def plan_waves(
    connection: duckdb.DuckDBPyConnection,
    rules: ReadinessRules,
    manifests: Manifests,
    actions: Actions,
    labels: Mapping[str, Mapping[str, str] | None],
) -> list[Rollout]:
    """The rollout of each policy and binding that matched requests and does not deny yet.

    `actions` are those of their stage, and `labels` those of each known namespace (None: not known). The tables of
    assess.judge_units must be there.
    """
    spaces: dict[tuple[str, str | None], list[_Space]] = {}
    for policy, binding, *rest in connection.execute(statement("waves")).fetchall():
        spaces.setdefault((policy, binding), []).append(_Space(*rest))
    needed = changes_of(connection)
    ground = _Ground(rules, manifests, actions, labels)
    return [
        _rollout(policy, binding, found, needed.get((policy, binding), ()), ground)
        for (policy, binding), found in spaces.items()
        if not _denies(binding, manifests)
    ]


def changes_of(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str | None], list[Needed]]:
    """The workloads that would be denied, by policy and binding. The tables of assess.judge_units must be there."""
    needed: dict[tuple[str, str | None], list[Needed]] = {}
    for policy, binding, *rest in connection.execute(statement("wave_changes")).fetchall():
        needed.setdefault((policy, binding), []).append(Needed(*rest))
    return needed


def _denies(binding: str | None, manifests: Manifests) -> bool:
    found = manifests.binding(binding)
    return found is not None and "Deny" in (found["spec"].get("validationActions") or ())


def _rollout(policy: str, binding: str | None, spaces: Sequence[_Space], needed: Sequence[Needed], ground: _Ground) -> Rollout:
    spared = spared_namespaces(ground.rules)
    own = [each for each in spaces if each.namespace not in spared]
    groups = {CLEAN: [each for each in own if is_clean(each, ground.rules)]}
    rest = [each for each in own if each not in groups[CLEAN]]
    groups[FEW] = [each for each in rest if each.denied and each.denied_units <= FEW_WORKLOADS]
    groups[MANY] = [each for each in rest if each not in groups[FEW]]
    given = ground.manifests.binding(binding)
    waves: list[Wave] = []
    chosen: list[str] = []
    # Wave 1 is always that which can begin today: without such namespaces the first one has number 2 or 3.
    for number, (why, found) in enumerate(groups.items(), start=1):
        if found:
            chosen += sorted(each.namespace for each in found)
            made = step_manifest(RolloutStep(DENY, tuple(chosen)), policy, binding, ground.manifests, ground.actions, ground.labels)
            waves.append(_wave(number, why, found, needed, made, waves[-1].manifests if waves else ()))
    last = [each for each in spaces if each.namespace in spared]
    made = step_manifest(RolloutStep(DENY), policy, binding, ground.manifests, ground.actions)
    waves.append(_wave(len(groups) + 1, REST, last, needed, made, (given,) if given is not None else ()))
    needs = ground.manifests.alone(policy, made)
    own_needs = tuple(each for each in (*needs.objects.values(), *needs.others) if each is not made)
    return Rollout(policy, binding, tuple(waves), _tried(own, spaces[0].middle, ground.rules), own_needs)


def _wave(
    number: int, why: str, spaces: Sequence[_Space], needed: Iterable[Needed], binding: Object, before: tuple[Object, ...]
) -> Wave:
    """A wave of this binding. `before` holds the binding of this name that the cluster has before the wave, if there is one."""
    names = tuple(sorted(each.namespace for each in spaces))
    own = tuple(each for each in needed if each.namespace in names)
    removal = ("kubectl", "delete", binding["kind"].lower(), binding["metadata"]["name"])
    return Wave(
        number,
        why,
        tuple(filter(None, names)) if why != REST else (),
        sum(each.matched for each in spaces),
        own,
        (binding,),
        before,
        () if before else (removal,),
    )


def _tried(spaces: Sequence[_Space], middle: datetime, rules: ReadinessRules) -> Tried:
    chosen = [each for each in spaces if each.earlier and not each.earlier_denied and each.later]
    denied = sum(each.later_denied > 0 for each in chosen)
    return Tried(len(chosen), denied, middle, upper_bound(denied, len(chosen), rules.confidence))
