"""The rollout to Deny in waves: the namespaces where it can begin today, those that follow, and what has to change there first.

Wave 1 holds the namespaces with matched requests and no denial. The others follow by how many workloads have to change. The
namespaces of the system, and objects outside of namespaces, come last, with the binding for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from ..request import Object
from ..stages.actions import Actions
from .counting.bounds import upper_bound
from .exempting.manifests import Manifests
from .exempting.measures import RolloutStep
from .rollout import DENY, is_clean, spared_namespaces, step_manifest
from .rules import ReadinessRules
from .sql import statement

# A second wave should need few people.
_FEW_WORKLOADS = 2
CLEAN = "nothing would have been denied"
FEW = f"up to {_FEW_WORKLOADS} workloads of each have to change"
MANY = "more workloads have to change, or too much is unknown"
REST = "the system, and what has no namespace or no traffic"


@dataclass(frozen=True, slots=True)
class Needed:
    """A workload that has to change before its namespace can follow, with the user to write to."""

    namespace: str
    unit: str
    requests: int
    user: str
    example: str


@dataclass(frozen=True, slots=True)
class Wave:
    """Namespaces that begin to deny together, after those before. Without namespaces it is the binding for all that it selects.

    `binding` is the ValidatingAdmissionPolicyBinding to apply; it takes the place of that of the wave before.
    """

    number: int
    why: str
    namespaces: tuple[str, ...]
    requests: int
    needed: tuple[Needed, ...]
    binding: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tried:
    """The choice of wave 1 by the earlier half alone, tried on the later half: `denied` of `namespaces` would have had a denial.

    `upper` is the bound of their share. `since` is when the later half begins.
    """

    namespaces: int
    denied: int
    upper: float
    since: datetime


@dataclass(frozen=True, slots=True)
class Rollout:
    """The waves of one policy and binding, and the binding as it was given; None: a new one, which goes back by its removal."""

    policy: str
    binding: str | None
    waves: tuple[Wave, ...]
    tried: Tried
    before: Object | None


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


def plan_waves(
    connection: duckdb.DuckDBPyConnection, rules: ReadinessRules, manifests: Manifests, actions: Actions
) -> list[Rollout]:
    """The rollout of each policy and binding that matched requests and does not deny yet.

    `actions` are those of their stage. The tables of assess.judge_units must be there.
    """
    spaces: dict[tuple[str, str | None], list[_Space]] = {}
    for policy, binding, *rest in connection.execute(statement("waves")).fetchall():
        spaces.setdefault((policy, binding), []).append(_Space(*rest))
    needed: dict[tuple[str, str | None], list[Needed]] = {}
    for policy, binding, *rest in connection.execute(statement("wave_changes")).fetchall():
        needed.setdefault((policy, binding), []).append(Needed(*rest))
    return [
        _rollout(policy, binding, found, needed.get((policy, binding), ()), rules, manifests, actions)
        for (policy, binding), found in spaces.items()
        if not _denies(binding, manifests)
    ]


def _denies(binding: str | None, manifests: Manifests) -> bool:
    found = manifests.binding(binding)
    return found is not None and "Deny" in (found["spec"].get("validationActions") or ())


def _rollout(
    policy: str,
    binding: str | None,
    spaces: Sequence[_Space],
    needed: Sequence[Needed],
    rules: ReadinessRules,
    manifests: Manifests,
    actions: Actions,
) -> Rollout:
    spared = spared_namespaces(rules)
    own = [each for each in spaces if each.namespace not in spared]
    groups = [
        (CLEAN, [each for each in own if is_clean(each, rules)]),
        (FEW, [each for each in own if each.denied and each.denied_units <= _FEW_WORKLOADS]),
        (MANY, [each for each in own if not is_clean(each, rules) and not (each.denied and each.denied_units <= _FEW_WORKLOADS)]),
    ]
    waves: list[Wave] = []
    chosen: list[str] = []
    # Wave 1 is always that which can begin today: without such namespaces the first one has number 2 or 3.
    for number, (why, found) in enumerate(groups, start=1):
        if found:
            chosen += sorted(each.namespace for each in found)
            waves.append(_wave(number, why, found, needed, step_manifest(_step(chosen), policy, binding, manifests, actions)))
    last = [each for each in spaces if each.namespace in spared]
    waves.append(_wave(len(groups) + 1, REST, last, needed, step_manifest(_step(()), policy, binding, manifests, actions)))
    return Rollout(policy, binding, tuple(waves), _tried(own, spaces[0].middle, rules), manifests.binding(binding))


def _wave(number: int, why: str, spaces: Sequence[_Space], needed: Iterable[Needed], binding: Object) -> Wave:
    names = tuple(sorted(each.namespace for each in spaces))
    own = tuple(each for each in needed if each.namespace in names)
    return Wave(number, why, tuple(filter(None, names)) if why != REST else (), sum(each.matched for each in spaces), own, binding)


def _step(namespaces: Sequence[str]) -> RolloutStep:
    return RolloutStep(DENY, tuple(namespaces))


def _tried(spaces: Sequence[_Space], middle: datetime, rules: ReadinessRules) -> Tried:
    chosen = [each for each in spaces if each.earlier and not each.earlier_denied and each.later]
    denied = sum(each.later_denied > 0 for each in chosen)
    return Tried(len(chosen), denied, upper_bound(denied, len(chosen), rules.confidence), middle)
