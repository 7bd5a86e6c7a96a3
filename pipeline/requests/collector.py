"""Where the verdicts of a replay go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from ..runs.verdict import Verdict


class Collector(Protocol):
    """Takes verdicts as they are found."""

    def add(self, row: int, verdicts: Sequence[Verdict], pass_index: int = 0) -> None:
        """Take the verdicts on one pass of the request in a row."""
        ...

    def add_alike(self, groups: pa.Array[Any], verdicts: Sequence[Sequence[Verdict]]) -> None:
        """Take the verdicts on the first pass of all requests, row by row from 0: those with the number in `groups`."""
        ...
