"""The run-time form of exact evaluation: functions of a frame, one per node of the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ..values import CelError, Unknown, Value

# A run-time context: [activation, meter, loop variables...]. The meter is None unless cost is counted.
Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Value]

ACTIVATION, METER, FIRST_SLOT = 0, 1, 2
# Errors and unknowns are values here, as they are in cel-go.
FAILED: Final = frozenset((Unknown, CelError))
