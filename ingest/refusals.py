"""Why records went into quarantine: how often each reason came up, with the first example of it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

# Positions and lengths differ from record to record, and the reason is the same.
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class Refusals:
    """Counts of reasons. The example of a reason has the place of its record."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def kind(reason: str) -> str:
        """The reason without its numbers."""
        return _NUMBERS.sub("N", reason)

    def note(self, reason: str, example: str) -> None:
        """Count one record."""
        kind = self.kind(reason)
        self.counts[kind] += 1
        self.examples.setdefault(kind, example)

    def __add__(self, other: Refusals) -> Refusals:
        return Refusals(self.counts + other.counts, other.examples | self.examples)

    def commonest(self) -> str:
        """A sentence on the reason that came up most often; empty without any record."""
        if not self.counts:
            return ""
        ((kind, count),) = self.counts.most_common(1)
        return f"the commonest reason ({count:,} of {self.counts.total():,}): {self.examples[kind]}"
