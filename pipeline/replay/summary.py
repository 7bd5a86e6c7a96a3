"""The result of a run in a few numbers. All of them can be computed again from the run's verdicts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from ..cel.defects import DEFECT
from .merge import Merged
from .plan import ReplayPlan
from .sql import statement


@dataclass(frozen=True, slots=True)
class BindingSummary:
    """One (policy, binding) and the admission passes that it was evaluated on.

    Each matched pass counts once: denied, or unknown, or with an error that failurePolicy ignored, or admitted. `deny` counts
    decisions after failurePolicy; `actions` decide whether the client would have got the denial.
    """

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    matched: int = 0
    admit: int = 0
    deny: int = 0
    error: int = 0
    unknown: int = 0
    nomatch: int = 0


@dataclass(frozen=True, slots=True)
class Defect:
    """A policy that Hindcast failed to judge, why, and for how many requests: 0, for unknown, if the policy cannot be read."""

    policy: str
    why: str
    requests: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One finished run. `not_evaluated` counts planned requests that could not be evaluated, by reason."""

    run_id: str
    planned: int
    evaluated: int
    not_evaluated: tuple[tuple[str, int], ...]
    verdicts: int
    bindings: tuple[BindingSummary, ...]
    defects: tuple[Defect, ...] = ()

    def to_json(self) -> str:
        """As kept in summary.json."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


def summary_from_json(text: str) -> RunSummary:
    """Read the output of `to_json`."""
    fields = json.loads(text)
    bindings = tuple(BindingSummary(**{**item, "actions": tuple(item["actions"])}) for item in fields.pop("bindings"))
    not_evaluated = tuple((reason, count) for reason, count in fields.pop("not_evaluated"))
    defects = tuple(Defect(**item) for item in fields.pop("defects", ()))
    return RunSummary(**fields, bindings=bindings, not_evaluated=not_evaluated, defects=defects)


def summarize(plan: ReplayPlan, run: Merged, evaluated: int, not_evaluated: Mapping[str, int]) -> RunSummary:
    """Count the verdicts of a finished run; every planned (policy, binding) has its line, also where nothing matched."""
    with duckdb.connect() as connection:
        for name, table in (("members", run.members()), ("distinct_verdicts", run.numbered_verdicts()), ("passes", run.passes())):
            connection.register(name, table)
        counted = connection.execute(statement("summary")).fetchall()
        defects = connection.execute(statement("defects"), {"defect": DEFECT}).fetchall()
        rows = connection.execute("SELECT coalesce(sum(passes), 0)::BIGINT FROM members JOIN passes USING (set)").fetchall()[0][0]
    return RunSummary(
        run_id=plan.run_id,
        planned=plan.requests,
        evaluated=evaluated,
        not_evaluated=tuple(sorted(not_evaluated.items(), key=lambda entry: (-entry[1], entry[0]))),
        verdicts=rows,
        bindings=tuple(_bindings(plan, counted)),
        defects=(*(Defect(*row) for row in defects), *(Defect(name, why, 0) for name, why in plan.unreadable)),
    )


def _bindings(plan: ReplayPlan, counted: Iterable[tuple[str, str | None, *tuple[int, ...]]]) -> Iterable[BindingSummary]:
    found = {(row[0], row[1]): row[2:] for row in counted}
    for item in plan.bindings:
        yield BindingSummary(item.policy, item.binding, item.actions, *found.pop((item.policy, item.binding), ()))
    # Verdicts on a policy as a whole: its constraints did not match, or its configuration is invalid.
    for (policy, binding), counts in found.items():
        yield BindingSummary(policy, binding, (), *counts)
