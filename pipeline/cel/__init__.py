"""CEL as kube-apiserver evaluates it: `Environment(version, variables).compile(text)` gives a `Program`, whose
`evaluate(activation)` gives a value, a `CelError` or an `Unknown`.

This package can be used elsewhere: it imports nothing else of the project, does no input or output, and knows no Kubernetes
objects.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .environment import Environment
    from .errors import CompileError, Issue, ProgramError, ResultTypeError
    from .explain import Finding
    from .program import Program
    from .readset import ReadSet
    from .types import BOOL, DOUBLE, DYN, INT, STRING, ObjectType, Type, list_of, map_of
    from .values import (
        CelError,
        CelMap,
        Constructed,
        Duration,
        LazyMap,
        Opaque,
        Optional,
        SparseMap,
        Timestamp,
        UInt,
        Unknown,
        Value,
    )

# Loaded on first use: most commands ask only for the versions of the language.
_PUBLIC = {
    "BOOL": ".types",
    "DOUBLE": ".types",
    "DYN": ".types",
    "INT": ".types",
    "STRING": ".types",
    "CelError": ".values",
    "CelMap": ".values",
    "CompileError": ".errors",
    "Constructed": ".values",
    "Duration": ".values",
    "Environment": ".environment",
    "Finding": ".explain",
    "Issue": ".errors",
    "LazyMap": ".values",
    "ObjectType": ".types",
    "Opaque": ".values",
    "Optional": ".values",
    "Program": ".program",
    "ProgramError": ".errors",
    "ReadSet": ".readset",
    "ResultTypeError": ".errors",
    "SparseMap": ".values",
    "Timestamp": ".values",
    "Type": ".types",
    "UInt": ".values",
    "Unknown": ".values",
    "Value": ".values",
    "list_of": ".types",
    "map_of": ".types",
}

__all__ = [
    "BOOL",
    "DOUBLE",
    "DYN",
    "INT",
    "STRING",
    "CelError",
    "CelMap",
    "CompileError",
    "Constructed",
    "Duration",
    "Environment",
    "Finding",
    "Issue",
    "LazyMap",
    "ObjectType",
    "Opaque",
    "Optional",
    "Program",
    "ProgramError",
    "ReadSet",
    "ResultTypeError",
    "SparseMap",
    "Timestamp",
    "Type",
    "UInt",
    "Unknown",
    "Value",
    "list_of",
    "map_of",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name], __name__), name)
