"""CEL's static types.

A `Type` is a name and its parameters, printed as cel-go prints it: `list(int)`, `map(string, dyn)`, `optional_type(string)`. The
text is part of messages that users compare with kube-apiserver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Type:
    """One CEL type: `name` such as `int`, `list` or `kubernetes.Quantity`, and the types it is made of.

    `levels` counts itself and the types within each other; `is_open`: it is or holds a type parameter.
    """

    name: str
    parameters: tuple[Type, ...] = ()
    is_parameter: bool = False
    levels: int = field(init=False, compare=False, repr=False)
    is_open: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", 1 + max((each.levels for each in self.parameters), default=0))
        object.__setattr__(self, "is_open", self.is_parameter or any(each.is_open for each in self.parameters))

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null_type")
DYN = Type("dyn")
ERROR = Type("!error!")
TIMESTAMP = Type("google.protobuf.Timestamp")
DURATION = Type("google.protobuf.Duration")
# The element types of these three are dyn: the form that type() returns and that untyped JSON has.
LIST = Type("list", (DYN,))
MAP = Type("map", (DYN, DYN))
TYPE = Type("type")


def list_of(element: Type) -> Type:
    """list(element)"""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """map(key, value)"""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """optional_type(value)"""
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    """type(value): the type of a type."""
    return Type("type", (value,))


def parameter(name: str) -> Type:
    """A type parameter of an overload, such as the A in `indexOf(list(A), A) -> int`."""
    return Type(name, is_parameter=True)


def opaque(name: str, *parameters: Type) -> Type:
    """A type whose values only functions can read, such as `kubernetes.Quantity`."""
    return Type(name, parameters)


@dataclass(frozen=True)
class ObjectType:
    """A declared object: reading a field that is not listed is a compile error (`undefined field 'x'`).

    `others` is the type of fields that are not listed, where these are allowed. `is_root`: every name `NAME.a.b` is an object of
    this kind too, as the names of the nested types of `Object` are.
    """

    name: str
    fields: Mapping[str, Type] = field(default_factory=dict)
    others: Type | None = None
    is_root: bool = False

    @property
    def type(self) -> Type:
        """The type to declare a variable or a field with."""
        return Type(self.name)
