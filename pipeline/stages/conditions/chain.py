"""A chain of authorizers, as a manifest or a recorded review describes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...matching.field_text import FieldTerm
from ...matching.selectors import Requirement
from .logic.translate import Semantics
from .model import Condition, ConditionsMap, Decision, Union

DESIGN = "kep-5681@2026-07"
SIMULATED = "it simulates conditional authorization (KEP-5681 and its draft for reads), which no released server has"


class Shape(StrEnum):
    """The form in which a chain was given."""

    CHAIN = "AuthorizerChain"
    KEP = "status.conditionSetChain, the form in the text of KEP-5681"
    API = "status.conditionalDecision, the form of the unmerged API"


class Reads(StrEnum):
    """What the server does with a list or a watch that conditions do not fully allow."""

    ENFORCE = "Enforce"  # it answers 403
    DOWNGRADE = "Downgrade"  # it adds a selector
    FAIL_CLOSED = "FailClosed"  # it takes conditions for writes only, as the KEP without its draft for reads


class Builtin(StrEnum):
    """An authorizer whose decision comes from elsewhere."""

    RBAC = "RBAC"  # the roles of the cluster at that time
    RECORDED = "Recorded"  # what the log recorded of the request, whoever decided
    OPAQUE = "Opaque"  # it may decide anything


@dataclass(frozen=True, slots=True)
class Authorizer:
    """One member of a chain. `when` is CEL over the request's metadata; empty for every request.

    Without `semantics` the default holds: `selector` for reads and `cel` for writes.
    """

    name: str
    decision: Decision | Builtin
    when: str = ""
    semantics: Semantics | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """The one question that a recorded review is about. `labels` and `fields` are None where the review has no selectors."""

    user: str
    groups: tuple[str, ...]
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    labels: frozenset[Requirement] | None = None
    fields: frozenset[FieldTerm] | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """Authorizers in the order in which the server asks them. `about` limits a review to its own question."""

    name: str
    shape: Shape
    authorizers: tuple[Authorizer, ...]
    reads: Reads = Reads.ENFORCE
    about: About | None = None
    source: str = ""

    @property
    def kind(self) -> str:
        """The kind of its manifest."""
        return "AuthorizerChain" if self.shape is Shape.CHAIN else "SubjectAccessReview"


def conditions_in(decision: Decision | Builtin) -> tuple[Condition, ...]:
    """Every condition of a decision, in order."""
    if isinstance(decision, ConditionsMap):
        return tuple(each for _, found in decision.lists() for each in found)
    if isinstance(decision, Union):
        return tuple(each for _, inner in decision.members for each in conditions_in(inner))
    return ()
