"""What the expressions of a chain may cost: kube-apiserver's own limits, which no released server applies to conditions.

The limits are those of every other CEL in admission: kubernetes/apiserver pkg/apis/cel/config.go, PerCallLimit for one expression
and RuntimeCELCostBudget for all expressions of a request. What a server would do above them is not known, and so is the result
here. A run has a budget, too, so that it ends. Everything is counted in the server's units of cost, never in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...cel import CelError, Program, ast
from ...cel.costs.metered import LimitExceededError, Meter
from ...cel.program import COST_LIMIT
from ...cel.values import Unknown, Value

COST_BUDGET = 10_000_000  # of all expressions of one request
# Of one run: some ten seconds, and what ordinary expressions cost for each question.
RUN_BUDGET, RUN_BUDGET_EACH = 20_000_000, 10_000
OVER_LIMIT = f"the expression costs more than {COST_LIMIT:,}, the limit of a server for one expression"
OVER_BUDGET = f"the expressions together cost more than {COST_BUDGET:,}, the budget of a server for one request"
OVER_RUN = "the expressions of all requests together cost more than one run may spend"
LIMITS = frozenset({OVER_LIMIT, OVER_BUDGET, OVER_RUN})


class RunBudget:
    """What is left for the expressions of one run, or of a part of it."""

    __slots__ = ("left",)

    def __init__(self, questions: int = 1, parts: int = 1) -> None:
        """`questions` are those of the part, and `parts` is how many the run has."""
        self.left = RUN_BUDGET // parts + RUN_BUDGET_EACH * questions

    def grow(self, questions: int) -> None:
        """Add what ordinary expressions cost for more questions."""
        self.left += RUN_BUDGET_EACH * questions


class Spending:
    """What is left of the budget of one request, and the size of its variables in bytes of JSON."""

    __slots__ = ("bytes", "left", "run")

    def __init__(self, activation: Mapping[str, Value], run: RunBudget) -> None:
        self.left = COST_BUDGET
        self.run = run
        self.bytes = _size(activation)

    def meter(self) -> Meter:
        """The meter of one expression."""
        return Meter(max(0, min(COST_LIMIT, self.left, self.run.left)))

    def spend(self, cost: int) -> None:
        """Count a cost."""
        self.left -= cost
        self.run.left -= cost

    def over(self) -> str:
        """Which limit an expression met."""
        return OVER_RUN if self.run.left <= 0 else OVER_BUDGET if self.left <= 0 else OVER_LIMIT


class Costed:
    """One of the programs of a chain. Its cost is counted where it may matter."""

    def __init__(self, program: Program, programs: int) -> None:
        self.program = program
        self._uncounted_max = min(COST_LIMIT, COST_BUDGET // programs)
        self._cheap: dict[int, bool] = {}

    def value(self, activation: Mapping[str, Value], spending: Spending) -> Value | CelError | Unknown:
        """Its value; unknown where it costs too much."""
        if self._is_cheap(spending.bytes):
            return self.program.evaluate(activation)
        return self.parts(spending)(self.program.ast, activation)

    def parts(self, spending: Spending) -> Callable[[ast.Expr, Mapping[str, Value]], Value | CelError | Unknown]:
        """Evaluates parts of it, whose costs are added up."""
        meter = spending.meter()

        def part(node: ast.Expr, activation: Mapping[str, Value]) -> Value | CelError | Unknown:
            before = meter.cost
            try:
                value = self.program.part_with_cost(node, activation, meter)
            except LimitExceededError:
                value = None
            spending.spend(meter.cost - before)
            return Unknown(spending.over()) if meter.cost > meter.limit else value

        return part

    def _is_cheap(self, size: int) -> bool:
        found = self._cheap.get(size)
        if found is None:
            sizes = dict.fromkeys(("request", "object", "oldObject", "options"), size)
            found = self._cheap[size] = not self.program.cost_may_exceed(self._uncounted_max, sizes)
        return found


def words_of(unknown: Unknown) -> str:
    """What is not known."""
    return ", ".join(sorted(unknown.attributes))


def _size(activation: Mapping[str, Value]) -> int:
    """A power of two that the variables do not exceed as JSON."""
    whole = {name: value for name, value in activation.items() if not isinstance(value, Unknown)}
    return 1 << len(msgspec.json.encode(whole, enc_hook=lambda value: str(value))).bit_length()
