"""The rules that turn figures into a verdict: stated, few, and each one configurable."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import yaml

from ingest.errors import InputError


@dataclass(frozen=True, slots=True)
class ReadinessRules:
    """What must hold before a policy may deny. A file given with `--rules` overrides single values.

    matched_units_min: independent units (workloads, users) whose requests the policy matched and that could be judged.
    days_min: days between the first and the last matched request, as a span of traffic.
    unknown_share_max: share of matched requests without a verdict.
    agreement_min: share of recorded outcomes of this policy that the replay reproduces, where there are any.
    denied_units_max: units that may still be denied.
    confidence: of the upper bound on the rate of denied units.
    """

    matched_units_min: int = 20
    days_min: float = 7.0
    unknown_share_max: float = 0.05
    agreement_min: float = 0.99
    denied_units_max: int = 0
    confidence: float = 0.95

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a YAML or JSON mapping of rule names to numbers.

        Raises InputError naming the file and the rule when a name is not known or a value is not a number.
        """
        try:
            given = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"{path}: cannot read readiness rules: {error}") from error
        if not isinstance(given, dict):
            raise InputError(f"{path}: found {type(given).__name__}, wanted a mapping of rule names to numbers")
        known = {entry.name for entry in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise InputError(f"{path}: no readiness rule is named {name!r}", f"the rules are {', '.join(sorted(known))}")
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"{path}: rule {name} is {value!r}, wanted a number")
            values[name] = value
        return cls(**values)
