"""A version of policies against the version before: new denials, kept ones and denials that are gone, over the same requests.

Policies are paired by name alone. A request counts as denied before only where the base enforced the denial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from queries import LakeReader

from ..policies.model import Action, PolicySet
from ..request import Object
from ..runs import RunSummary
from ..runs.plan import RunPlan
from ..stages.readiness import AS_GIVEN
from ..stages.validating.decode import BINDING, POLICY
from ..stages.validating.judges import Judge, Judges
from ..stages.validating.plan import ReplayPlan
from .assess import Key, judge_units
from .change import Change, ChangedUnit, Fate, FateCount
from .counting.bounds import upper_bound
from .exempting.manifests import Key as ObjectKey
from .exempting.manifests import Manifests
from .model import PolicyReadiness
from .rules import ReadinessRules
from .sql import rows_of, statement
from .verdict import decide_change

# How many workloads of one fate a report lists for each (policy, binding).
UNITS_MAX = 100


@dataclass(frozen=True)
class Base:
    """The version before: its plan and the verdicts of its run over the same requests.

    `renamed` maps names of its judged things, such as policies, to the names that they have now; the others keep theirs.
    """

    plan: RunPlan
    summary: RunSummary
    verdicts: Path
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of its judged things."""
        return list(dict.fromkeys(item.policy for item in self.plan.bindings))

    def name_of(self, policy: str) -> str | None:
        """The name that a thing of the new version has in the version before; None where that version does not have it."""
        now = {self.renamed.get(name, name): name for name in self.names}
        return now.get(policy)

    def is_same(self, old: str, new: str, plan: RunPlan) -> bool:
        """Whether both versions of a thing are surely equal: a plan is named after all its manifests."""
        return old == new and self.plan.run_id == plan.run_id

    def alike(self, policy: str, plan: RunPlan) -> str:
        """A thing that has the same content and another name, and is not in the new version; empty unless exactly one fits."""
        return ""


@dataclass(frozen=True)
class PolicyBase(Base):
    """A version before of policies."""

    plan: ReplayPlan

    @property
    def policies(self) -> PolicySet:
        """The policies of the version before. Raises ValueError for a plan of the log's own policies."""
        if self.plan.policies is None:
            raise ValueError("a version before needs policies of its own")
        return self.plan.policies

    @property
    def names(self) -> list[str]:
        """The names of its policies, also of those that its plan does not bind."""
        return [each.name for each in self.policies.policies]

    def is_same(self, old: str, new: str, plan: RunPlan) -> bool:
        """Whether both versions of a policy are equal, with their bindings and with the objects that were given with them."""
        if old != new:
            return False
        before, after = Manifests.of(self.policies), Manifests.of(_policies_of(plan))
        return before.others == after.others and _of_policy(before, old) == _of_policy(after, new)

    def alike(self, policy: str, plan: RunPlan) -> str:
        """See Base; policies are alike if they have the same spec."""
        given = _policies_of(plan)
        new, old = Manifests.of(given), Manifests.of(self.policies)
        kept = {entry.name for entry in given.policies} | set(self.renamed)
        wanted = new.objects[POLICY, policy]["spec"]
        alike = [name for (kind, name), obj in old.objects.items() if kind == POLICY and name not in kept and obj["spec"] == wanted]
        return alike[0] if len(alike) == 1 else ""


def _policies_of(plan: RunPlan) -> PolicySet:
    return (plan.policies if isinstance(plan, ReplayPlan) else None) or PolicySet()


def keep_before(connection: duckdb.DuckDBPyConnection, base: Base, rules: ReadinessRules, counted: str = AS_GIVEN) -> None:
    """Make `outcomes_before` and `over_cost_before`: the base's outcomes, and its requests over a cost limit.

    Its policies have the names that they have now. `counted` is as in judge_units.
    """
    judge_units(connection, str(base.verdicts), rules, counted)
    names = pa.table({"old": pa.array([*base.renamed], pa.string()), "now": pa.array([*base.renamed.values()], pa.string())})
    connection.register("given_names", names)
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE outcomes_before AS "
        "SELECT o.* REPLACE (coalesce(n.now, o.policy) AS policy) FROM outcomes AS o LEFT JOIN given_names AS n ON n.old = o.policy"
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE over_cost_before AS "
        "SELECT o.* REPLACE (coalesce(n.now, o.policy) AS policy) FROM over_cost_requests AS o "
        "LEFT JOIN given_names AS n ON n.old = o.policy"
    )
    connection.unregister("given_names")


def judges_before(reader: LakeReader, base: PolicyBase, plan: ReplayPlan) -> dict[str, list[Judge]]:
    """For each policy of the new plan, the base's judges that enforce their denials."""
    judges = Judges(reader, base.plan)
    unbound = _unbound(plan)
    found: defaultdict[str, list[Judge]] = defaultdict(list)
    for item in base.plan.bindings:
        name = base.renamed.get(item.policy, item.policy)
        enforces = Action.DENY in item.actions if item.binding is not None else name in unbound
        judge = judges.judge_of(item.policy, item.binding) if enforces else None
        if judge is not None:
            found[name].append(judge)
    return dict(found)


def keep_changes(connection: duckdb.DuckDBPyConnection, plan: RunPlan) -> None:
    """Make the table `changed` from the tables of `keep_before` and `judge_units`."""
    connection.execute(statement("changed"), {"unbound": sorted(_unbound(plan))})


def with_changes(
    connection: duckdb.DuckDBPyConnection,
    entries: Iterable[PolicyReadiness],
    base: Base,
    plan: RunPlan,
    rules: ReadinessRules,
) -> tuple[tuple[PolicyReadiness, ...], tuple[Change, ...]]:
    """The entries, each with its change and the verdict on it; then the changes of bindings that only the base has.

    Needs the tables of `keep_before`, `judge_units` and `keep_changes`.
    """
    changes = _Changes(connection, base, plan, rules)
    found = []
    for entry in entries:
        change = changes.of(entry)
        status, reasons = decide_change(change, entry.exposure, entry.fidelity, entry.actions, rules)
        found.append(replace(entry, change=change, status=status, reasons=reasons))
    return tuple(found), tuple(changes.without_entry({(entry.policy, entry.binding) for entry in found}))


def _unbound(plan: RunPlan) -> set[str]:
    return {item.policy for item in plan.bindings if item.binding is None}


class _Changes:
    """The rows of this file's queries, by (policy, binding)."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, base: Base, plan: RunPlan, rules: ReadinessRules) -> None:
        self._base = base
        self._rules = rules
        self._plan = plan
        self._counts: defaultdict[Key, dict[Fate, FateCount]] = defaultdict(dict)
        for row in rows_of(connection, "change_counts"):
            self._counts[_key(row)][Fate(row["fate"])] = FateCount(row["requests"], row["units"])
        self._over_cost = {_key(row): row["requests"] for row in rows_of(connection, "change_over_cost")}
        self._critical: defaultdict[Key, dict[str, int]] = defaultdict(dict)
        for row in rows_of(connection, "change_critical"):
            self._critical[_key(row)][row["subject"]] = row["requests"]
        self._units: defaultdict[Key, list[ChangedUnit]] = defaultdict(list)
        order = list(Fate)
        for row in sorted(rows_of(connection, "change_units", {"listed_max": UNITS_MAX}), key=lambda row: order.index(row["fate"])):
            values = {name: value for name, value in row.items() if name not in ("policy", "binding", "fate")}
            self._units[_key(row)].append(ChangedUnit(fate=Fate(row["fate"]), **values))

    def of(self, entry: PolicyReadiness) -> Change:
        """The change for one (policy, binding) of the new version."""
        name = self._base.name_of(entry.policy)
        new = self._counts[entry.policy, entry.binding].get(Fate.NEW, FateCount())
        judged = max(entry.exposure.units_judged, new.units)
        return replace(
            self._counted((entry.policy, entry.binding)),
            base=name,
            base_actions=tuple(self._actions_before(name)) if name is not None else (),
            renamed_from=self._base.alike(entry.policy, self._plan) if name is None else "",
            is_enforced=entry.binding is None or Action.DENY in entry.actions,
            is_same=name is not None and self._base.is_same(name, entry.policy, self._plan),
            unit_rate_upper=upper_bound(new.units, judged, self._rules.confidence),
            over_cost_new=self._over_cost.get((entry.policy, entry.binding), 0),
            latent_new=entry.latent.fates.get(Fate.NEW, 0),
            latent_unsure=entry.latent.fates.get(Fate.UNSURE, 0),
            latent_kept=entry.latent.fates.get(Fate.KEPT, 0),
        )

    def without_entry(self, keys: set[Key]) -> Iterator[Change]:
        """The denials that are gone because the new version does not have their binding or policy."""
        for item in self._base.plan.bindings:
            key = (self._base.renamed.get(item.policy, item.policy), item.binding)
            if key not in keys:
                found = self._counted(key)
                yield replace(found, base=item.policy, base_actions=tuple(item.actions), is_enforced=False)

    def _counted(self, key: Key) -> Change:
        new, unsure, kept, gone, unenforced, unknown = (self._counts[key].get(fate, FateCount()) for fate in Fate)
        return Change(
            *key,
            new=new,
            unsure=unsure,
            kept=kept,
            gone=gone,
            unenforced=unenforced,
            unknown=unknown,
            critical_new=self._critical[key],
            units=tuple(self._units[key]),
        )

    def _actions_before(self, name: str) -> list[str]:
        return sorted({str(action) for item in self._base.plan.bindings if item.policy == name for action in item.actions})


def _of_policy(manifests: Manifests, name: str) -> dict[ObjectKey, Object]:
    wanted = {(POLICY, name), *((BINDING, each) for each in manifests.bindings_of(name))}
    return {key: obj for key, obj in manifests.objects.items() if key in wanted}


def _key(row: Mapping[str, Any]) -> Key:
    return row["policy"], row["binding"]
