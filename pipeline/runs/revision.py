"""Verdicts on a pass of a request that take the place of those that a stage found by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..row import INSUFFICIENT
from .verdict import VERDICT_VALUES, Flip

# Part of the name of a run with mutating policies, so that runs of versions that called each changed object unknown are not read.
JUDGED = "the objects that mutating policies change"


class Revision(Protocol):
    """Revisions that are equal make equal rows of equal ones."""

    def rows(self, own: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """What takes the place of rows of VERDICT_VALUES."""
        ...


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The verdicts are not known after all."""

    why: str

    def rows(self, own: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """See Revision."""
        said: dict[str, Any] = {
            "decision": "unknown",
            "effect": None,
            "message": None,
            "reason": None,
            "code": None,
            "why": self.why,
        }
        said |= {"evidence": INSUFFICIENT, "audit_annotations": [], "bypasses_actions": False}
        return [row | said | {"flip": str(Flip.UNKNOWN) if row["flip"] is not None else None} for row in own]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Other verdicts stand in for them. `texts` are rows of VERDICT_VALUES as JSON; `by` names whose doing it is.

    The detail of a row whose effect differs has `first`: the effect that it takes the place of, and `by`.
    """

    texts: tuple[str, ...]
    by: str

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], by: str) -> Replaced:
        """By these rows, which may have more columns."""
        return cls(tuple(json.dumps({name: row[name] for name in VERDICT_VALUES.names}) for row in rows), by)

    def rows(self, own: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """See Revision."""
        effects = {_judged(row): row["effect"] for row in own}
        return [self._row(json.loads(text), effects) for text in self.texts]

    def _row(self, row: dict[str, Any], effects: Mapping[tuple[Any, ...], str | None]) -> dict[str, Any]:
        # An Arrow map takes pairs.
        found = row | {"audit_annotations": [tuple(pair) for pair in row["audit_annotations"]]}
        before = effects.get(_judged(row))
        if before is None or before == row["effect"]:
            return found
        detail = json.loads(row["detail"] or "{}") | {"first": {"effect": before, "by": self.by}}
        return found | {"detail": json.dumps(detail, sort_keys=True)}


def _judged(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("policy", "binding", "param_namespace", "param_name", "expression_index"))
