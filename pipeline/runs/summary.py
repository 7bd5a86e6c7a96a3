"""The result of a run in a few numbers. All of them can be computed again from the run's verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

# What a reader of the counts of a policy has to know.
UNBOUND = "no binding is given: it was tried on everything that its rules match, and a cluster applies it only where it is bound"
VACUOUS = "its 0 denials are vacuous: it was asked about no request"


@dataclass(frozen=True, slots=True)
class BindingSummary:
    """One (policy, binding) and the admission passes that it was evaluated on.

    Each matched pass counts once: denied, or unknown, or with an error that failurePolicy ignored, or admitted. `deny` counts
    decisions after failurePolicy; `actions` decide whether the client would have got the denial.
    """

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    matched: int = 0
    admit: int = 0
    deny: int = 0
    error: int = 0
    unknown: int = 0
    nomatch: int = 0


@dataclass(frozen=True, slots=True)
class Defect:
    """A policy that Hindcast failed to judge, why, and for how many requests: 0, for unknown, if the policy cannot be read."""

    policy: str
    why: str
    requests: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One finished run. `not_evaluated` counts planned requests that could not be evaluated, by reason."""

    run_id: str
    planned: int
    evaluated: int
    not_evaluated: tuple[tuple[str, int], ...]
    verdicts: int
    bindings: tuple[BindingSummary, ...]
    defects: tuple[Defect, ...] = ()

    def to_json(self) -> str:
        """As kept in summary.json."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1).decode() + "\n"


def summary_from_json(text: str | bytes) -> RunSummary:
    """Read the output of `to_json`. Raises msgspec.DecodeError, which is a ValueError, for any other text."""
    return msgspec.json.decode(text, type=RunSummary)
