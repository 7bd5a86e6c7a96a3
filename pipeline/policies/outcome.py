"""The outcome of an evaluation, before failurePolicy and actions apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .verdict import Decision


class Outcome(NamedTuple):
    """The outcome of one validation, or of a group of expressions as a whole. `message` is None where the wording is unknown."""

    decision: Decision
    message: str | None = ""
    reason: str = ""
    why: str = ""


class Annotations(NamedTuple):
    """The outcomes of the audit annotations, by key. `failed` has error texts, `unknown` the missing evidence."""

    values: Mapping[str, str]
    failed: Mapping[str, str]
    unknown: Mapping[str, str]


class Evaluation(NamedTuple):
    """`whole` is set if one decision stands for all; then there are no decisions for single validations."""

    whole: Outcome | None
    outcomes: tuple[Outcome, ...] = ()
    annotations: Annotations | None = None


ADMIT = Outcome(Decision.ADMIT)
