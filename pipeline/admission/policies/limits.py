"""Whether a policy could exceed a cost limit over data of some size, found without evaluating anything.

Counting costs makes evaluation several times slower, and hardly any policy comes near a limit. So two upper
bounds are asked first, the cheaper one before, and only data for which both are too high is evaluated with costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...cel import Program
from .cost_bound import CostBound, Extent, extent_of, is_bounded, largest
from .reads import used_variables

MANAGED_FIELDS = "managedFields"
PROGRAM_LIMIT = 1_000_000  # of each evaluation of one program: kubernetes/apiserver pkg/apis/cel/config.go PerCallLimit
BUDGET = 10_000_000  # of validations with their messages, and of audit annotations: about one second each on an API server
BUDGET_MATCH_CONDITIONS = 2_500_000

# Variable, or `variable.field`, and the bytes of its JSON rounded up to a power of two; None if it is not plain JSON.
Sizes = tuple[tuple[str, int], ...] | None
Steps = Sequence[tuple[int, Sequence[Program]]]


class Measured:
    """How large one variable is. The extent is found out no sooner than asked for."""

    __slots__ = ("_extents", "_value", "sizes")

    def __init__(self, name: str, value: Any) -> None:
        self._value = value
        self._extents: dict[str, Extent] = {}
        self.sizes = _sizes_of(name, value)

    def extent(self, skipped: str) -> Extent:
        """The longest list or map and the longest string, rounded up to four steps in every doubling."""
        found = self._extents.get(skipped)
        if found is None:
            length, entries = extent_of(self._value, skipped)
            found = self._extents[skipped] = Extent(_rounded_up(int(length)), _rounded_up(int(entries)))
        return found


def _rounded_up(number: int) -> int:
    shift = max(number.bit_length() - 3, 0)
    return -(-number >> shift) << shift


class Together:
    """How large several variables are."""

    __slots__ = ("_parts", "sizes")

    def __init__(self, parts: Sequence[Measured]) -> None:
        self._parts = parts
        sizes = [part.sizes for part in parts]
        self.sizes: Sizes = None if None in sizes else tuple(item for each in sizes for item in each or ())

    def extent(self, skipped: str) -> Extent:
        """That of the largest."""
        return largest(part.extent(skipped) for part in self._parts)

    def and_also(self, part: Measured) -> Together:
        """With one more."""
        return Together([*self._parts, part])


class Limits:
    """What steps of one policy can cost. Remembers its answers: what it is asked about is rounded, so that there are few."""

    def __init__(self, steps: Steps, variables: Mapping[str, Program]) -> None:
        """`steps` are budgets with the programs that share them; each step computes the `variables` that it uses anew."""
        self._steps = steps
        self._variables = used_variables((program for _, programs in steps for program in programs), variables)
        trees = [*self._variables.values(), *(program for _, programs in steps for program in programs)]
        self._is_bounded = is_bounded(program.ast for program in trees)
        # Half of an object is often managedFields, which hardly any policy looks at.
        self._skipped = "" if any(map(_reads_managed_fields, trees)) else MANAGED_FIELDS
        self._by_sizes: dict[Sizes, bool] = {None: False}
        self._by_extent: dict[Extent, bool] = {}

    def allow(self, data: Together) -> bool:
        """Whether no evaluation over such data exceeds a limit. False says that one might."""
        sizes = data.sizes
        found = self._by_sizes.get(sizes)
        if found is None:
            found = self._by_sizes[sizes] = self._are_small(dict(sizes or ()))
        if found or sizes is None or not self._is_bounded:
            return found
        extent = data.extent(self._skipped)
        found = self._by_extent.get(extent)
        if found is None:
            found = self._by_extent[extent] = self._is_short(extent)
        return found

    def _are_small(self, sizes: dict[str, int]) -> bool:
        """By the bounds that programs have on their own costs."""
        costs: dict[str, float | None] = {}
        for name, program in self._variables.items():
            costs[name], size = program.cost_bound(sizes), program.size_bound(sizes)
            if size is None:
                return False
            sizes[f"variables.{name}"] = size
        return self._are_within(costs, [[program.cost_bound(sizes) for program in programs] for _, programs in self._steps])

    def _is_short(self, extent: Extent) -> bool:
        """By the longest list and the longest string."""
        known: dict[str, Extent] = {}
        costs: dict[str, float | None] = {}
        for name, program in self._variables.items():
            bound = CostBound(program.ast, extent, known)
            known[name], costs[name] = bound.extent, bound.cost
        found = [[CostBound(program.ast, extent, known).cost for program in programs] for _, programs in self._steps]
        return self._are_within(costs, found)

    def _are_within(self, variables: Mapping[str, float | None], steps: Sequence[Sequence[float | None]]) -> bool:
        for (budget, _), programs in zip(self._steps, steps, strict=True):
            # Messages have variables of their own, computed and charged again.
            costs = [*variables.values(), *variables.values(), *programs]
            if any(cost is None or cost > PROGRAM_LIMIT for cost in costs) or sum(cost or 0 for cost in costs) > budget:
                return False
        return True


def _reads_managed_fields(program: Program) -> bool:
    for name in ("object", "oldObject", "params", "namespaceObject"):
        reads = program.reads.of(name)
        metadata = reads.fields.get("metadata")
        if (
            reads.whole
            or reads.elements
            or (metadata and (metadata.whole or metadata.elements or MANAGED_FIELDS in metadata.fields))
        ):
            return True
    return False


def _sizes_of(name: str, value: Any) -> Sizes:
    """The size of a variable, and of its fields if it is a map."""
    found: list[tuple[str, int]] = []
    try:
        if value.__class__ is dict:
            whole = 2
            for field, item in value.items():
                size = len(msgspec.json.encode(item))
                whole += size + len(field.encode()) + 4
                found.append((f"{name}.{field}", 1 << size.bit_length()))
        else:
            whole = len(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return None
    return (*found, (name, 1 << whole.bit_length()))
