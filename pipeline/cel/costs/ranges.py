"""Ranges of sizes and costs, as cel-go estimates them: unsigned 64-bit integers that stay at their largest value on overflow."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

LARGEST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """From `min` to `max`, both included."""

    min: int
    max: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.min + other.min, LARGEST), min(self.max + other.max, LARGEST))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.min * other.min, LARGEST), min(self.max * other.max, LARGEST))

    def __or__(self, other: Range) -> Range:
        """The smallest range that contains both."""
        return Range(min(self.min, other.min), max(self.max, other.max))

    def scaled(self, factor: float) -> Range:
        """Both ends multiplied and rounded up."""
        return Range(_scaled(self.min, factor), _scaled(self.max, factor))


def _scaled(value: int, factor: float) -> int:
    product = float(value) * factor
    return LARGEST if product >= 2.0**64 else ceil(product)


def exactly(value: int) -> Range:
    """The range of one value."""
    return Range(value, value)


UNKNOWN = Range(0, LARGEST)
ZERO, ONE = exactly(0), exactly(1)
# The empty range, for unions.
NOWHERE = Range(LARGEST, 0)
