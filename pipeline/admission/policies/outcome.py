"""What evaluation found, before failurePolicy and actions make something of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .verdict import Decision


class Outcome(NamedTuple):
    """What one validation, or a group of expressions as a whole, came to. `message` None: nobody can tell the wording."""

    decision: Decision
    message: str | None = ""
    reason: str = ""
    why: str = ""


class Annotations(NamedTuple):
    """What the audit annotations came to, by key. `failed` has error texts, `unknown` the missing evidence."""

    values: Mapping[str, str]
    failed: Mapping[str, str]
    unknown: Mapping[str, str]


class Evaluation(NamedTuple):
    """`whole` is set if one decision stands for all: then no validation was decided."""

    whole: Outcome | None
    outcomes: tuple[Outcome, ...] = ()
    annotations: Annotations | None = None


ADMIT = Outcome(Decision.ADMIT)
