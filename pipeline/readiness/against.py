"""A version against the version before: new denials, kept ones and denials that are gone, over the same requests.

Judged things are paired by name alone. A request counts as denied before only where the base enforced the denial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from queries import LakeReader

from ..policies.model import Action
from ..runs import RunSummary
from ..runs.plan import RunPlan
from ..stages.judging import Judge
from ..stages.readiness import AS_GIVEN, StageReadiness
from .assess import Key, judge_units
from .change import Change, ChangedUnit, Fate, FateCount
from .counting.bounds import upper_bound
from .model import PolicyReadiness
from .rules import ReadinessRules
from .sql import rows_of, statement
from .verdict import decide_change

# How many workloads of one fate a report lists for each (policy, binding).
UNITS_MAX = 100


@dataclass(frozen=True)
class Base:
    """The version before: its rules, its plan, and the verdicts of its run over the same requests.

    `now` and `new_plan` are the rules and the plan of the new version. `renamed` maps names of judged things of the version before,
    such as policies, to the names that they have now; the others keep theirs.
    """

    readiness: StageReadiness[Any, Any]
    rules: Any
    now: Any
    new_plan: RunPlan
    plan: RunPlan
    summary: RunSummary
    verdicts: Path
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> Sequence[str]:
        """The names of its judged things."""
        return self.readiness.names(self.rules, self.plan)

    def name_of(self, policy: str) -> str | None:
        """The name that a thing of the new version has in the version before; None where that version does not have it."""
        now = {self.renamed.get(name, name): name for name in self.names}
        return now.get(policy)

    def is_same(self, old: str, new: str) -> bool:
        """Whether both versions of a thing are surely equal. A plan is named after all its manifests."""
        if old != new:
            return False
        found = self.readiness.is_same(self.now, self.rules, new)
        return self.plan.run_id == self.new_plan.run_id if found is None else found

    def alike(self, policy: str) -> str:
        """A thing that has the same content and another name, and is not in the new version; empty unless exactly one fits."""
        return self.readiness.alike(self.now, self.rules, policy, set(self.renamed))


def keep_before(reader: LakeReader, base: Base, rules: ReadinessRules, counted: str = AS_GIVEN) -> None:
    """Make `outcomes_before` and `over_cost_before`: the base's outcomes, and its requests over a cost limit.

    Its policies have the names that they have now. `counted` is as in judge_units.
    """
    connection = reader.connection
    judge_units(reader, str(base.verdicts), rules, counted)
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


def judges_before(reader: LakeReader, base: Base, plan: RunPlan) -> dict[str, list[Judge]] | None:
    """For each thing of the new plan, the base's judges that enforce their denials; None where the stage has no judges."""
    judges = base.readiness.judges(reader, base.plan)
    if judges is None:
        return None
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
    rules: ReadinessRules,
) -> tuple[tuple[PolicyReadiness, ...], tuple[Change, ...]]:
    """The entries, each with its change and the verdict on it; then the changes of bindings that only the base has.

    Needs the tables of `keep_before`, `judge_units` and `keep_changes`.
    """
    changes = _Changes(connection, base, rules)
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

    def __init__(self, connection: duckdb.DuckDBPyConnection, base: Base, rules: ReadinessRules) -> None:
        self._base = base
        self._rules = rules
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
            renamed_from=self._base.alike(entry.policy) if name is None else "",
            is_enforced=entry.binding is None or Action.DENY in entry.actions,
            is_same=name is not None and self._base.is_same(name, entry.policy),
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


def _key(row: Mapping[str, Any]) -> Key:
    return row["policy"], row["binding"]
