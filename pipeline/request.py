"""The admission request: the noun that every room of the pipeline shares.

Follows kubernetes/apiserver pkg/admission/interfaces.go (Attributes), with one difference. Every value that an audit log may lack
is `Known(value, source)` or `Unknown(reason)`, and stays so until the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from .withheld import REDACTED_IN_PART, holds_placeholder

T_co = TypeVar("T_co", covariant=True)
Json: TypeAlias = Any
Object: TypeAlias = dict[str, Any]


class Grade(StrEnum):
    """How good a piece of evidence is; a verdict is as good as the worst piece that it read."""

    EXACT = "exact"  # the server itself recorded it for this request
    INFERRED = "inferred"  # follows from other recorded requests by the server's own rules
    PARTIAL = "partial"  # the best evidence there is; parts of it may differ from the server's input


def worst(*grades: Grade) -> Grade:
    """The weakest of some grades; EXACT without grades."""
    found = Grade.EXACT
    for grade in grades:
        if grade is Grade.PARTIAL:
            return grade
        if grade is Grade.INFERRED:
            found = grade
    return found


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value and its source, such as `responseObject` or `snapshot namespaces.json`."""

    value: T_co
    source: str
    grade: Grade = Grade.EXACT

    @property
    def is_redacted(self) -> bool:
        """Whether redaction may have replaced values inside: see pipeline/withheld.py."""
        return REDACTED_IN_PART in self.source


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not recorded. `reason` says which record is missing, in words that a report can print."""

    reason: str


Evidence: TypeAlias = Known[T_co] | Unknown


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The effective user: the impersonated one if the request impersonated.

    `is_whole` is false if the record holds at most the name: then empty fields are unknown.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = field(default_factory=dict)
    is_whole: bool = True

    @property
    def is_identified(self) -> bool:
        """Whether the name and all groups are known: only authenticators and redaction write these values."""
        return self.is_whole and not any(map(holds_placeholder, (self.username, *self.groups)))


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One pass of validating admission: the input that a policy had, or would have had.

    `kind` is the kind of the object in the request (Scale for `deployments/scale`, PodExecOptions for `pods/exec`). It is Unknown
    if neither a body nor the table of built-in resources says it. `object` is Known(None) if the API server passes null (DELETE),
    `old_object` likewise (CREATE, CONNECT). `name` is as validating admission saw it: the server has resolved a generated name.
    `dry_run` is unknown if the options are unknown: those of a delete come in its body.
    """

    cluster: str
    audit_id: str
    pass_index: int
    ts: datetime  # requestReceivedTimestamp: the time at which policies, params and namespaces are looked up
    operation: Operation
    kind: Evidence[GroupVersionKind]
    resource: GroupVersionResource
    subresource: str
    namespace: str
    name: Evidence[str]
    user: UserInfo
    dry_run: bool | Unknown
    options: Evidence[Object | None]
    object: Evidence[Object | None]
    old_object: Evidence[Object | None]
