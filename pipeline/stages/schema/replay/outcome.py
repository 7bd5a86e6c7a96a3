"""The verdict of a definition on one recorded request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ....request import Grade
from ....runs.verdict import Flip
from ..field_errors import FieldError
from .difference import Change

NO_OLD_DEFINITION: Final = (
    "the definition of that time is not known, so it is not known what it dropped from the request; ingest a snapshot of the "
    "customresourcedefinitions, or give --against"
)


NO_MANAGED_FIELDS: Final = "which fields the apply removes depends on managedFields, which are not recorded"


class Decision(StrEnum):
    """What the new definition says about a request."""

    ADMIT = "admit"
    CHANGE = "change"  # admitted, and stored otherwise than recorded
    DENY = "deny"
    UNREACHED = "unreached"  # refused before the schema is asked, under either definition
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one request. `recorded` is admit or deny, as the log says of the same stage; empty where it does not say.

    `is_whole_text` is false where further errors may join those listed. `otherwise` is the verdict on an unknown request if nothing
    was hidden. `write` names the write that stored the object which the request met. `agreement` says whether the definition of
    that time agrees or differs with the record, where both are known.
    """

    decision: Decision
    why: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()
    ratcheted: tuple[FieldError, ...] = ()
    changes: tuple[Change, ...] = ()
    object: dict[str, Any] | None = None
    evidence: Grade | None = None
    recorded: str = ""
    flip: Flip | None = None
    is_whole_text: bool = True
    hidden: tuple[str, ...] = ()
    otherwise: str = ""
    write: str = ""
    agreement: str = ""
