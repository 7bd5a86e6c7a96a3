"""A compiled expression and the ways to evaluate it: fast, exact, with its cost, and with an explanation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from . import ast
from .checking.check import Checked
from .checking.constants import Constants
from .checking.names import Names
from .costs.bounds import Bounds
from .costs.costed import EXCEEDED, CostedPlanner
from .costs.metered import LimitExceededError, Meter
from .costs.sizes import TOO_LARGE, Room, TooLargeError
from .defects import defect_of
from .evaluation.exact import Planner
from .evaluation.frames import Run
from .explain import Finding, explain
from .fast.generate import generate
from .readset import Analyzed, ReadSet, read_set
from .stack import again, on_fresh_stack
from .values import CelError, Unknown, Value

Activation = Mapping[str, Value]
COST_LIMIT = 1_000_000  # of one expression: apiserver pkg/apis/cel/config.go PerCallLimit
TOO_DEEP = "data nested deeper than can be evaluated"
_UNREAD: Any = Unknown(TOO_DEEP)


class Program:
    """One compiled expression, immutable and safe to share between threads."""

    def __init__(self, text: str, tree: ast.Expr, names: Names, checked: Checked) -> None:
        self.text = text
        self.ast = tree
        self.result_type = checked.result_type
        self.levels = levels(tree)
        self._names = names
        self._constants = Constants(names, checked.overloads, loop_variables(tree))
        planner = Planner(names, self._constants)
        self._exact = planner.plan(tree)
        self._frame_tail: list[Any] = [None] * (planner.slot_count - 1)
        self._fast = generate(tree, names, self._constants)
        self._parts: dict[int, tuple[Run, int]] = {}  # the plans of parts, by node id

    def evaluate(self, activation: Activation) -> Value | CelError | Unknown:
        """The expression's value over these variables, or its error or unknown. Raises nothing.

        Each single value that it builds is bounded (`sizes.py`), but their sum is not: call `cost_may_exceed` before, or count the
        cost.
        """
        if self._fast is not None:
            try:
                return self._fast(activation)
            except MemoryError:
                raise
            except RecursionError:
                return again(lambda: self.evaluate(activation), _UNREAD)
            except Exception:
                pass  # The exact tier finds the outcome of every unusual case.
        return self.evaluate_exactly(activation)

    @property
    def fast(self) -> Callable[[Activation], Value] | None:
        """The generated function, if there is one. If it raises, or returns an error or an unknown, the outcome is still open."""
        return self._fast

    def evaluate_exactly(self, activation: Activation) -> Value | CelError | Unknown:
        """As `evaluate`, by the exact tier only."""
        try:
            return on_fresh_stack(lambda: self._exact([activation, *self._frame_tail]), Unknown(TOO_DEEP))
        except TooLargeError:
            return self.evaluate_with_cost(activation)[0]
        except (MemoryError, RecursionError):
            raise
        except Exception as problem:
            return Unknown(defect_of(problem))  # The run goes on, and the result is not an error that a server would have met.

    def evaluate_with_cost(
        self, activation: Activation, limit: int = COST_LIMIT, room: Room | None = None
    ) -> tuple[Value | CelError | Unknown, int]:
        """As `evaluate`, with the cost that kube-apiserver would have charged. Above the limit the result is an error.

        The result is unknown where a value is too large for the `room`, or by itself, before the cost reaches the limit.
        """
        meter = Meter(limit, room)
        try:
            return on_fresh_stack(lambda: self._costed(activation, meter), Unknown(TOO_DEEP)), meter.cost
        except LimitExceededError:
            return CelError(EXCEEDED), meter.cost
        except TooLargeError:
            return Unknown(TOO_LARGE), meter.cost
        except (MemoryError, RecursionError):
            raise
        except Exception as problem:
            return Unknown(defect_of(problem)), meter.cost

    def _costed(self, activation: Activation, meter: Meter) -> Value:
        meter.cost = 0
        run, size = self._costed_plan
        return run([activation, meter, *[None] * (size - 2)])

    @cached_property
    def _costed_plan(self) -> tuple[Run, int]:
        """The costed tier, planned on first use."""
        planner = CostedPlanner(self._names, self._constants)
        run = planner.plan(self.ast)
        return run, planner.slot_count

    @cached_property
    def reads(self) -> ReadSet:
        """The parts of the variables that the result can depend on."""
        return self.reads_with({})

    def reads_with(self, variables: Mapping[str, Program]) -> ReadSet:
        """As `reads`, where these programs are the values of `variables.NAME`: reads of these are traced back to their origin."""

        def composed(name: str) -> Analyzed | None:
            return variables[name]._analyzed if name in variables else None

        try:
            return on_fresh_stack(lambda: read_set(self._analyzed, composed))
        except RecursionError:
            # Variables that use each other deeper than any stack: each is analyzed by itself, as if its whole value were read.
            return ReadSet.union(self.reads, *(program.reads for program in variables.values()))

    @property
    def _analyzed(self) -> Analyzed:
        return Analyzed(self.ast, self._names, self._constants)

    @cached_property
    def _bounds(self) -> Bounds:
        return on_fresh_stack(lambda: Bounds(self.ast, self._names, self._constants))

    def cost_bound(self, sizes: Mapping[str, int]) -> int | None:
        """An upper bound on the cost over variables whose JSON has at most these sizes in bytes, or None (see `bounds.py`)."""
        return self._bounds.cost(sizes)

    def size_bound(self, sizes: Mapping[str, int]) -> int | None:
        """An upper bound on the bytes of the result as JSON, or None: for the `sizes` of expressions that use it as a variable."""
        return self._bounds.size(sizes)

    def cost_may_exceed(self, limit: int, sizes: Mapping[str, int]) -> bool:
        """False only where no evaluation over variables of these sizes can cost more than the limit: then use `evaluate`."""
        bound = self.cost_bound(sizes)
        return bound is None or bound > limit

    def part_with_cost(self, node: ast.Expr, activation: Activation, meter: Meter) -> Value | CelError | Unknown:
        """The value of a part of the expression, which uses no variable of a macro around it. Its cost is added to the meter.

        Raises LimitExceededError above the meter's limit, and nothing else.
        """
        try:
            run, size = self._part(node)
            return on_fresh_stack(lambda: run([activation, meter, *[None] * (size - 2)]), Unknown(TOO_DEEP))
        except CelError as problem:
            return problem
        except (LimitExceededError, MemoryError, RecursionError):
            raise
        except TooLargeError:
            return Unknown(TOO_LARGE)
        except Exception as problem:
            return Unknown(defect_of(problem))

    def _part(self, node: ast.Expr) -> tuple[Run, int]:
        found = self._parts.get(node.id)
        if found is None:
            planner = CostedPlanner(self._names, self._constants)
            run = planner.plan(node)
            found = self._parts[node.id] = run, planner.slot_count
        return found

    def explain(self, activation: Activation) -> list[Finding]:
        """The parts of the expression that decided its value over these variables, with the values they saw."""

        def evaluate(node: ast.Expr, scope: Activation) -> Value:
            planner = Planner(self._names, self._constants)
            run = planner.plan(node)
            return run([scope, *[None] * (planner.slot_count - 1)])

        def arguments_of(node: ast.Call) -> list[ast.Expr]:
            return self._names.function(node)[1]

        return on_fresh_stack(lambda: explain(self.ast, activation, evaluate, arguments_of))

    def __repr__(self) -> str:
        return f"Program({self.text!r})"


def loop_variables(tree: ast.Expr) -> frozenset[str]:
    """Every name that a macro anywhere in the expression binds."""
    found: set[str] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Comprehension):
            found.update(node.variables)
        elif isinstance(node, ast.OptionalMap):
            found.add(node.variable)
        pending.extend(ast.children(node))
    return frozenset(found)


def levels(tree: ast.Expr) -> int:
    """How many levels of expressions nest within each other."""
    found, pending = 0, [tree]
    while pending:
        found += 1
        pending = [child for node in pending for child in ast.children(node)]
    return found
