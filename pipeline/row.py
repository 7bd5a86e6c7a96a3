"""One row of the verdict table, as the judge of a stage gives it. runs/verdict.py says what the table is."""

from __future__ import annotations

from typing import NamedTuple

# How good the evidence of an unknown is.
INSUFFICIENT = "insufficient"


class Row(NamedTuple):
    """The columns of a verdict, without those of its request, in the order of VERDICT_VALUES. Texts are None where they are empty.

    `rule_ref` is the place of the rule that decided, as `KIND/NAME/PATH`. `recorded` is what the log says that this stage made of
    the request, and `flip` a Flip; both are None where the record names another rule or none. `detail` is JSON of what only
    this stage has.
    """

    policy: str
    binding: str | None
    param_namespace: str | None
    param_name: str | None
    expression_index: int | None
    decision: str
    effect: str | None
    message: str | None
    reason: str | None
    code: int | None
    why: str | None
    evidence: str
    actions: list[str]
    audit_annotations: list[tuple[str, str]]
    bypasses_actions: bool
    stage: str
    rule_ref: str | None = None
    recorded: str | None = None
    flip: str | None = None
    detail: str | None = None

    @property
    def row(self) -> Row:
        """See Verdict: a row is a verdict of itself."""
        return self
