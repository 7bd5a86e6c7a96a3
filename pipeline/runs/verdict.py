"""The verdict table, the contract between stages and their readers: one row per (audit_id, pass, stage, policy, binding, param,
expression_index).

`policy` names the judged thing: a policy, a webhook configuration, a definition; or the stage, where a row judges a whole request.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from ..row import INSUFFICIENT, Row

_FIELDS: list[pa.Field[Any]] = [
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("audit_id", pa.string(), nullable=False),
    pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("pass", pa.int32(), nullable=False),
    pa.field("policy", pa.string(), nullable=False),
    pa.field("binding", pa.string()),
    pa.field("param_namespace", pa.string()),
    pa.field("param_name", pa.string()),
    pa.field("expression_index", pa.int32()),
    pa.field("decision", pa.string(), nullable=False),
    pa.field("effect", pa.string()),
    pa.field("message", pa.string()),
    pa.field("reason", pa.string()),
    pa.field("code", pa.int32()),
    pa.field("why", pa.string()),
    pa.field("evidence", pa.string(), nullable=False),
    pa.field("actions", pa.list_(pa.string()), nullable=False),
    pa.field("audit_annotations", pa.map_(pa.string(), pa.string()), nullable=False),
    # Configuration errors, errors of audit annotations and a missing namespace deny regardless of the binding's actions.
    pa.field("bypasses_actions", pa.bool_(), nullable=False),
    pa.field("stage", pa.string(), nullable=False),
    pa.field("rule_ref", pa.string()),
    pa.field("recorded", pa.string()),
    pa.field("flip", pa.string()),
    pa.field("detail", pa.string()),
]
VERDICTS = pa.schema(_FIELDS)
# The columns that identify a pass of a request, and the columns of the verdict on it.
PASS_FIELDS = _FIELDS[1:5]
VERDICT_VALUES = pa.schema(_FIELDS[5:])  # from `policy` on, in the order of Row
# How good the evidence of a verdict is, from the weakest to the strongest: a request.Grade, or one of these.
RECORDED = "recorded"  # not evaluated: the server's own answer to the request proves it
EVIDENCE = (INSUFFICIENT, "partial", "inferred", RECORDED, "exact")


class Flip(StrEnum):
    """How a verdict differs from what the log recorded of the same request at the same stage."""

    SAME = "same"
    NEWLY_DENIED = "newly-denied"
    NEWLY_ALLOWED = "newly-allowed"
    STILL_DENIED = "still-denied"
    CHANGED = "changed"  # still allowed, but the stored object would differ
    UNKNOWN = "unknown"


class Verdict(Protocol):
    """A verdict of any stage."""

    @property
    def row(self) -> Row:
        """Its columns."""
        ...
