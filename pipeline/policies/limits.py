"""Decides, without an evaluation, whether a policy could exceed a cost limit over data of some size.

Counting costs makes evaluation several times slower, and few policies come near a limit. So this module tries upper bounds first,
from the cheapest to the dearest. They use the size of each variable, then the sizes of its fields, then its longest list and
string. Where all bounds are too high, mostly one or two expressions are the cause. Only their costs are counted; if these exceed a
limit, the whole policy is evaluated with costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..cel import Program
from ..cel.values import Unknown
from .cost_bound import CostBound, Extent, extent_of, is_bounded, largest
from .reads import MANAGED_FIELDS, reads_managed_fields, used_variables


def _nothing(value: object) -> None:
    """An unknown value within others: looking at it costs nothing."""
    if value.__class__ is not Unknown:
        raise TypeError


_encode = msgspec.json.Encoder(enc_hook=_nothing).encode
_WITH_METADATA = ("object", "oldObject", "params", "namespaceObject")
PROGRAM_LIMIT = 1_000_000  # of each evaluation of one program: kubernetes/apiserver pkg/apis/cel/config.go PerCallLimit
BUDGET = 10_000_000  # of validations with their messages, and of audit annotations: about one second each on an API server
BUDGET_MATCH_CONDITIONS = 2_500_000

# A variable, or `variable.field`, and the bytes of its JSON rounded up to a power of two; None if it has none, see `_json_of`.
Size: TypeAlias = tuple[str, int]
Sizes: TypeAlias = tuple[Size, ...] | None
Steps = Sequence[tuple[int, Sequence[Program]]]


class Doubt(NamedTuple):
    """Programs of one step that may exceed a limit. They do not if each costs at most PROGRAM_LIMIT and all at most `spare`."""

    programs: tuple[Program, ...]
    spare: float


# Empty: no limit can be exceeded. None: so many programs are in doubt that everything must be counted.
Doubts: TypeAlias = tuple[Doubt, ...] | None


class Measured:
    """The size of one variable, measured only as far as callers ask."""

    __slots__ = ("_extents", "_name", "_rough", "_sizes", "_text", "_value", "size")

    def __init__(self, name: str, value: Any) -> None:
        self._name = name
        self._value = value
        self._extents: dict[str, Extent] = {}
        self._rough: Extent | None = None
        self._sizes: Sizes = None
        self._text = _json_of(value)
        self.size: Size | None = None if self._text is None else (name, 1 << len(self._text).bit_length())

    @property
    def sizes(self) -> Sizes:
        """The size of the variable and of its fields."""
        if self._sizes is None and self.size is not None:
            self._sizes = (*_field_sizes(self._name, self._value), self.size)
        return self._sizes

    @property
    def rough_extent(self) -> Extent:
        """An upper bound of the extent that is quick to find, from the JSON. The size of the JSON must be known.

        A list has at most one entry more than there are commas. A string is at most as long as the longest run between quotes.
        All lists and maps together have at most one entry for each comma, and one for each of them.
        """
        if self._rough is None:
            assert self._text is not None
            longest = len(self._text) if b"\\" in self._text else max(map(len, self._text.split(b'"')))
            commas, opened = self._text.count(b","), self._text.count(b"[") + self._text.count(b"{")
            self._rough = Extent(*map(_rounded_up, (longest, commas + 1, commas + opened)))
        return self._rough

    def extent(self, skipped: str) -> Extent:
        """The longest list or map and the longest string, each rounded up to one of four steps per doubling."""
        found = self._extents.get(skipped)
        if found is None:
            found = self._extents[skipped] = Extent(*(_rounded_up(int(each)) for each in extent_of(self._value, skipped)))
        return found


def _rounded_up(number: int) -> int:
    shift = max(number.bit_length() - 3, 0)
    return -(-number >> shift) << shift


class Together:
    """The sizes of several variables."""

    __slots__ = ("_parts", "_rough", "_sizes", "whole")

    def __init__(self, parts: Sequence[Measured]) -> None:
        self._parts = parts
        sizes = tuple([part.size for part in parts if part.size is not None])
        self.whole: Sizes = sizes if len(sizes) == len(parts) else None
        self._rough: Extent | None = None
        self._sizes: Sizes = None

    @property
    def sizes(self) -> Sizes:
        """The sizes of the variables and of their fields."""
        if self._sizes is None and self.whole is not None:
            self._sizes = tuple([item for part in self._parts for item in part.sizes or ()])
        return self._sizes

    def extent(self, skipped: str) -> Extent:
        """The extent of the largest variable."""
        return largest(part.extent(skipped) for part in self._parts)

    @property
    def rough_extent(self) -> Extent:
        """The rough extent of the largest variable."""
        if self._rough is None:
            self._rough = largest(part.rough_extent for part in self._parts)
        return self._rough

    def and_also(self, part: Measured) -> Together:
        """These variables and one more."""
        return Together([*self._parts, part])


class Limits:
    """The possible costs of the steps of one policy. Caches its answers: sizes are rounded, so there are few."""

    def __init__(self, steps: Steps, variables: Mapping[str, Program]) -> None:
        """`steps` are budgets with the programs that share them; each step computes again the `variables` that it uses."""
        self._steps = steps
        self._variables = used_variables((program for _, programs in steps for program in programs), variables)
        trees = [*self._variables.values(), *(program for _, programs in steps for program in programs)]
        self._is_bounded = is_bounded(program.ast for program in trees)
        # managedFields often make up half of an object, and few policies read them.
        read = any(reads_managed_fields(program.reads, name) for program in trees for name in _WITH_METADATA)
        self._skipped = "" if read else MANAGED_FIELDS
        self._by_sizes: dict[Sizes, Doubts] = {None: None}
        self._by_extent: dict[Extent, Doubts] = {}

    def doubts(self, data: Together) -> Doubts:
        """The programs to count for proof that no evaluation over such data exceeds a limit."""
        if data.whole is None:
            return None
        found = self._known_by_size(data.whole)
        if found == () or (self._is_bounded and self._known_by_longest(data.rough_extent) == ()):
            return ()
        found = self._known_by_size(data.sizes)
        if found == () or not self._is_bounded:
            return found
        return self._known_by_longest(data.extent(self._skipped))

    def _known_by_longest(self, extent: Extent) -> Doubts:
        try:
            return self._by_extent[extent]
        except KeyError:
            found = self._by_extent[extent] = self._by_longest(extent)
            return found

    def _known_by_size(self, sizes: Sizes) -> Doubts:
        try:
            return self._by_sizes[sizes]
        except KeyError:
            found = self._by_sizes[sizes] = self._by_size(dict(sizes or ()))
            return found

    def _by_size(self, sizes: dict[str, int]) -> Doubts:
        """The doubts by the programs' own cost bounds."""
        costs: dict[str, float | None] = {}
        for name, program in self._variables.items():
            costs[name], size = program.cost_bound(sizes), program.size_bound(sizes)
            if size is None:
                return None
            sizes[f"variables.{name}"] = size
        return self._doubts(costs, [[program.cost_bound(sizes) for program in programs] for _, programs in self._steps])

    def _by_longest(self, extent: Extent) -> Doubts:
        """The doubts by the longest list and the longest string."""
        known: dict[str, Extent] = {}
        costs: dict[str, float | None] = {}
        for name, program in self._variables.items():
            bound = CostBound(program.ast, extent, known)
            known[name], costs[name] = bound.extent, bound.cost
        found = [[CostBound(program.ast, extent, known).cost for program in programs] for _, programs in self._steps]
        return self._doubts(costs, found)

    def _doubts(self, variables: Mapping[str, float | None], steps: Sequence[Sequence[float | None]]) -> Doubts:
        if any(cost is None or cost > PROGRAM_LIMIT for cost in variables.values()):
            return None
        # Messages compute their variables again, and the server charges them again.
        of_variables = 2 * sum(cost or 0 for cost in variables.values())
        doubts = []
        for (budget, programs), costs in zip(self._steps, steps, strict=True):
            if any(cost is None for cost in costs) or of_variables > budget / 2:
                return None
            doubts.append(_doubt(programs, costs, budget - of_variables))
        return tuple(doubt for doubt in doubts if doubt.programs)


def _doubt(programs: Sequence[Program], costs: Sequence[float | None], budget: float) -> Doubt:
    """The dearest programs, chosen until the others together are sure to leave half of the budget to them."""
    dearest = sorted(zip(programs, (cost or 0 for cost in costs), strict=True), key=lambda pair: -pair[1])
    rest = sum(cost for _, cost in dearest)
    if rest <= budget and all(cost <= PROGRAM_LIMIT for _, cost in dearest):
        return Doubt((), budget)
    doubtful = []
    for program, cost in dearest:
        if cost <= PROGRAM_LIMIT and rest <= budget / 2:
            break
        doubtful.append(program)
        rest -= cost
    return Doubt(tuple(doubtful), budget - rest)


def _json_of(value: Any) -> bytes | None:
    """A value as JSON, with null for unknown parts; None if it is not JSON."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return None


def _field_sizes(name: str, value: Any) -> Iterator[Size]:
    """The sizes of the fields of a variable if it is a map."""
    if value.__class__ is dict:
        for field, item in value.items():
            yield (f"{name}.{field}", 1 << len(_encode(item)).bit_length())
