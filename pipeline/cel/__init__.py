"""CEL as kube-apiserver evaluates it: `Environment(version, variables).compile(text)` gives a `Program`, whose
`evaluate(activation)` gives a value, a `CelError` or an `Unknown`.

This package can be used elsewhere: it imports nothing else of the project, does no input or output, and knows no Kubernetes
objects.
"""

from .environment import Environment
from .errors import CompileError, Issue, ProgramError, ResultTypeError
from .explain import Finding
from .program import Program
from .readset import ReadSet
from .types import BOOL, DOUBLE, DYN, INT, STRING, ObjectType, Type, list_of, map_of
from .values import CelError, CelMap, Duration, LazyMap, Opaque, Optional, SparseMap, Timestamp, UInt, Unknown, Value

__all__ = [
    "BOOL",
    "DOUBLE",
    "DYN",
    "INT",
    "STRING",
    "CelError",
    "CelMap",
    "CompileError",
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
