"""Caches the costs of expressions by the values that they read: counting costs is many times slower than evaluating."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..cel import Program, ReadSet
from ..cel.costs.sizes import BUILT_BYTES_MAX, Room

_encode = msgspec.json.Encoder().encode
# Above this size the cache is cleared, and costs are counted again.
_KNOWN_MAX = 20_000


class KnownCosts:
    """The costs of the expressions of one policy; not for several threads at once."""

    def __init__(self, variables: Mapping[str, Program]) -> None:
        self._variables = variables
        self._reads: dict[str, ReadSet] = {}
        self._known: dict[tuple[str, bytes], tuple[int, int]] = {}

    def of(self, program: Program, roots: Mapping[str, Any]) -> tuple[int, int]:
        """The cost of an expression over some roots, without that of variables, and the number of bytes that it builds."""
        key = self._key(program, roots)
        found = self._known.get(key) if key else None
        if found is None:
            room = Room()
            cost = program.evaluate_with_cost(roots, room=room)[1]
            found = (cost, BUILT_BYTES_MAX - room.left)
            if key:
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[key] = found
        return found

    def _key(self, program: Program, roots: Mapping[str, Any]) -> tuple[str, bytes] | None:
        """The key of all values that the expression reads, through variables too; None where some are unknown."""
        reads = self._reads.get(program.text)
        if reads is None:
            reads = self._reads[program.text] = program.reads_with(self._variables)
        if "variables" in reads.root.fields:
            return None
        try:
            return program.text, _encode(reads.project(roots))
        except (TypeError, ValueError, RecursionError):
            return None
