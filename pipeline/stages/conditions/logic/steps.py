"""How much work a run, a question and a search may take, in steps of z3: it does some millions in a second.

A step is counted and not timed, so that two runs give the same answers. Work in Python counts as the steps that take as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# One check of an ordinary chain needs some thousand.
CHECK_STEPS_MAX = 5_000_000
QUESTION_STEPS_MAX = 10_000_000
SEARCH_STEPS_MAX = 2_000_000
# Of one run: some ten seconds, and what ordinary questions need.
RUN_STEPS, RUN_STEPS_EACH = 10_000_000, 20_000
TOO_HARD = "the solver reached its limit of steps"
OVER_QUESTION = "the solver spent the steps that one question may take"
OVER_RUN = "the solver spent the steps that one run may take"


class Steps:
    """What is left for the questions of one run, or of a part of it."""

    def __init__(self, questions: int = 1, check_max: int = CHECK_STEPS_MAX, parts: int = 1) -> None:
        """`questions` are those of the part, and `parts` is how many the run has."""
        self._check_max = check_max
        self._run = RUN_STEPS // parts + RUN_STEPS_EACH * questions
        self._inner: list[int] = []

    @property
    def left(self) -> int:
        """What the next check may take."""
        return min(self._check_max, self._run, *self._inner) if self._inner else min(self._check_max, self._run)

    def spend(self, steps: int) -> None:
        """Count some work."""
        self._run -= steps
        self._inner = [each - steps for each in self._inner]

    @contextmanager
    def within(self, steps: int) -> Iterator[None]:
        """Limit the work of a question, or of a part of it."""
        self._inner.append(steps)
        try:
            yield
        finally:
            self._inner.pop()

    @property
    def why(self) -> str:
        """Why nothing is left."""
        return OVER_RUN if self._run <= 0 else OVER_QUESTION
