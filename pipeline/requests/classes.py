"""Classes of recorded requests: a plan asks the rules about these few rows before any request is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import pyarrow as pa

from queries import LakeReader

from ..matching import Target
from ..request import GroupVersionResource
from ..runs.window import Window
from .sql import statement

# SQL of the requests of a window that admission is for.
ADMISSION = statement("admission")


@dataclass(frozen=True, slots=True, order=True)
class RequestClass:
    """Requests that the rules of policies cannot tell apart.

    `refused` ones may have been another operation than they look like. `reads_old_object`: some policy for them looks at it.
    """

    cluster: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    verb: str
    operation: str
    is_namespaced: bool
    refused: bool
    reads_old_object: bool = False
    requests: int = 0

    def targets(self) -> Iterator[Target]:
        """The targets for the rules. A refused update or patch may have been an attempt to create the object."""
        resource = GroupVersionResource(self.api_group, self.api_version, self.resource)
        yield Target(self.operation, resource, self.subresource, self.is_namespaced)
        if self.refused and self.operation == "UPDATE":
            yield Target("CREATE", resource, self.subresource, self.is_namespaced)


@dataclass(frozen=True)
class Requests:
    """Recorded requests of a window, by class.

    `found` is an SQL relation with the columns of `reach` that a class and its requests are named by, and with `number`, which is
    the stage's own. It may use the parameters `since` and `until`.
    """

    found: str
    window: Window
    classes: tuple[RequestClass, ...]

    @classmethod
    def of(cls, reader: LakeReader, found: str, window: Window) -> Requests:
        """All requests of a relation that arrived in a window."""
        rows = reader.rows(f"WITH found AS ({found}) {statement('classes')}", window.parameters)
        return cls(found, window, tuple(RequestClass(**row) for row in rows))

    def only(self, wanted: Callable[[RequestClass], bool]) -> Requests:
        """The requests of some classes."""
        return replace(self, classes=tuple(filter(wanted, self.classes)))

    def excluded(self, chosen: Requests, why: str) -> dict[str, int]:
        """How many of these are not among chosen ones, by the reason."""
        return {why: count} if (count := self.count - chosen.count) else {}

    @cached_property
    def count(self) -> int:
        """How many requests these are."""
        return sum(item.requests for item in self.classes)

    def relation(self, reader: LakeReader, name: str) -> str:
        """SQL of those that arrived between the parameters `since` and `until`; it reads the classes from a table of this name."""
        columns = {
            field.name: pa.array([getattr(item, field.name) for item in self.classes], _TYPES[str(field.type)])
            for field in fields(RequestClass)
        }
        reader.put_table(name, pa.table(columns))
        return f"WITH found AS ({self.found}), classes AS (FROM {name}) {statement('chosen')}"


_TYPES: dict[str, pa.DataType] = {"str": pa.string(), "bool": pa.bool_(), "int": pa.int64()}
