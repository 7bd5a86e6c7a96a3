"""CEL values as Python objects.

| CEL | Python | |
| --- | --- | --- |
| null_type | `None` | |
| bool | `bool` | never counts as a number here, although Python's bool is an int |
| int | `int` | within int64 |
| uint | `UInt` | within uint64 |
| double | `float` | |
| string | `str` | |
| bytes | `bytes` | |
| list | `list` | |
| map | `dict` with string keys, or `CelMap` | JSON objects are used as they are |
| Timestamp, Duration | `Timestamp`, `Duration` | nanoseconds |
| type | `pipeline.cel.types.Type` | |
| optional_type | `Optional` | |
| any library type | a subclass of `Opaque` | |

Values and errors are two kinds of result; the third is `Unknown`, an attribute whose content is not known. It may stand anywhere in
the data that an expression is evaluated over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeAlias

from . import types
from .types import Type

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1

Value: TypeAlias = Any


class CelError(Exception):
    """A runtime error of CEL, in cel-go's words. It is a result, not a failure of the program."""

    @property
    def message(self) -> str:
        return str(self.args[0])


def no_such_overload(function: str = "", *arguments: Value) -> CelError:
    """The error of an operator or function that is not defined for its operands.

    Operators add nothing to it. Functions add their name and the types of their arguments (cel-go common/decls/decls.go).
    """
    if not function:
        return CelError("no such overload")
    return CelError(f"no such overload: {function}({', '.join(runtime_type(argument).name for argument in arguments)})")


class Unknown:
    """The result of an expression that needs a value that was not recorded. `attributes` names the missing values.

    It may stand for a whole variable, or inside one as the value of a key or as an element. Then the key or the element is known to
    exist; where even that is not known, the map or list around it is unknown.
    """

    __slots__ = ("attributes",)

    def __init__(self, *attributes: str) -> None:
        self.attributes = frozenset(attributes)

    def merge(self, other: Unknown) -> Unknown:
        """The unknown that needs both. Commutative, associative and idempotent, as cel-go merges unknowns."""
        return Unknown(*self.attributes, *other.attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.attributes == other.attributes

    def __hash__(self) -> int:
        return hash((Unknown, self.attributes))

    def __repr__(self) -> str:
        return f"Unknown({', '.join(sorted(self.attributes))})"


class UInt(int):
    """An unsigned 64-bit integer; a separate class, because `1u` and `1` cannot be added."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Opaque:
    """A value that only library functions can read. Subclasses set `cel_type` and define `__eq__` and `__hash__`."""

    __slots__ = ()
    cel_type: ClassVar[Type]
    # How Go hashes it as the key of a map: not at all, if this names its type there; by the address of what it wraps; or by value.
    go_unhashable: ClassVar[str] = ""
    is_pointer: ClassVar[bool] = False

    def equals(self, other: Value) -> bool:
        """`self == other` in CEL: unlike plain values, these cannot even be compared with a value of another type."""
        if other.__class__ is not self.__class__:
            raise no_such_overload()
        return bool(self == other)


class Optional:
    """optional_type: `Optional(value)` or `NONE`."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: Value = None, has_value: bool = True) -> None:
        self.value = value
        self.has_value = has_value

    def __repr__(self) -> str:
        return f"optional.of({self.value!r})" if self.has_value else "optional.none()"


NONE = Optional(has_value=False)


class UnorderedList(list[Value]):
    """A list that compares and adds by the keys of its elements, as the list types set and map of a schema want it.

    To CEL it is a list, so it says that its class is `list`; `type()` tells the two apart. The left operand decides how two lists
    compare (apiserver pkg/cel/common/valuesunstructured.go). Python does not check abstract methods of subclasses of `list`, so
    the two that each kind defines raise here.
    """

    __slots__ = ()
    __class__ = property(lambda self: list)

    def key_of(self, element: Value) -> Value:
        """What tells an element from others, as a value that can be hashed. Raises CelError for an element without a key."""
        raise NotImplementedError

    def made(self, elements: Iterable[Value]) -> Self:
        """A list of the same kind."""
        raise NotImplementedError

    def __add__(self, other: list[Value]) -> Self:
        """The elements of this list, with those of the other one in the place of elements with the same key, and the rest."""
        found = {self.key_of(each): each for each in self}
        for each in other:
            found[self.key_of(each)] = each
        return self.made(found.values())


class SetList(UnorderedList):
    """A list of type set; its elements are scalars."""

    __slots__ = ()

    def key_of(self, element: Value) -> Value:
        if isinstance(element, list | dict):
            raise unhashable("[]interface {}" if isinstance(element, list) else "map[string]interface {}")
        return element.__class__, element

    def made(self, elements: Iterable[Value]) -> SetList:
        return SetList(elements)


class MapList(UnorderedList):
    """A list of type map: `keys` are the fields that tell its elements apart."""

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Value], keys: tuple[str, ...]) -> None:
        super().__init__(elements)
        self.keys = keys

    def key_of(self, element: Value) -> Value:
        if element.__class__ is not dict:
            return None
        return tuple(CelMap.slot(element.get(name)) for name in self.keys)

    def made(self, elements: Iterable[Value]) -> MapList:
        return MapList(elements, self.keys)


class Timestamp:
    """Nanoseconds since 1970-01-01T00:00:00Z, within years 1 to 9999. Only `string()` shows the zone it was written with."""

    __slots__ = ("ns", "zone_seconds")

    def __init__(self, ns: int, zone_seconds: int = 0) -> None:
        if not -62135596800 * 10**9 <= ns <= 253402300799 * 10**9 + 999_999_999:
            raise CelError("timestamp overflow")
        self.ns = ns
        self.zone_seconds = zone_seconds

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Timestamp and self.ns == other.ns

    def __hash__(self) -> int:
        return hash((Timestamp, self.ns))


class Duration:
    """A signed span of nanoseconds within int64."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        if not INT_MIN <= ns <= INT_MAX:
            raise CelError("integer overflow")
        self.ns = ns

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Duration and self.ns == other.ns

    def __hash__(self) -> int:
        return hash((Duration, self.ns))


class CelMap:
    """A map that plain JSON cannot hold: its keys are anything that is not a string, or mixed.

    A server keeps these maps as Go maps over its values, and so do the slots. Equal numbers of two kinds are two keys, and each is
    found by the other where there is only one. A list, a map or an optional is the same key only if it is the same object.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[Value, Value]] = ()) -> None:
        self.entries: dict[object, tuple[Value, Value]] = {}
        for key, value in entries:
            self.entries[self.slot(key)] = (key, value)

    @staticmethod
    def slot(key: Value) -> object:
        """The dictionary key for `key`. Raises CelError for a value that Go cannot hash."""
        kind = key.__class__
        if kind is str:
            return key
        if kind in _GO_UNHASHABLE or isinstance(key, Opaque):
            return _opaque_slot(key)
        if kind in _SAME_BY_IDENTITY or isinstance(key, list | dict):
            return "identity", id(key)
        # A value that is not a number is a key of its own, which nothing finds.
        return object() if kind is float and key != key else (kind, key)

    def find(self, key: Value) -> tuple[Value, Value] | None:
        """The entry of a key, or else of the same number of another kind (cel-go common/types/map.go)."""
        if not self.entries:
            return None
        if (entry := self.entries.get(self.slot(key))) is not None:
            return entry
        kinds = _OTHER_NUMBERS.get(key.__class__, ())
        if not kinds or (kinds is _WHOLE and not key.is_integer()):
            return None
        found = (self.entries.get((kind, int(key))) for kind in kinds)
        return next((each for each in found if each is not None), None)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)


_WHOLE = (int, UInt)
_OTHER_NUMBERS: dict[type, tuple[type, ...]] = {int: (UInt,), UInt: (int,), float: _WHOLE}
# Byte strings are slices in Go, which it cannot hash.
_GO_UNHASHABLE = {bytes: "types.Bytes"}
_SAME_BY_IDENTITY = frozenset((CelMap, Optional))


def unhashable(go_type: str) -> CelError:
    """The error of a key that Go cannot hash; cel-go catches the panic (cel/program.go)."""
    return CelError(f"internal error: runtime error: hash of unhashable type {go_type}")


def _opaque_slot(key: Value) -> object:
    kind = key.__class__
    go_type = _GO_UNHASHABLE.get(kind) or kind.go_unhashable
    if go_type:
        raise unhashable(go_type)
    # Hindcast caches parsed values, and a server makes each of them again.
    return object() if kind.is_pointer else (kind, key)


class SparseMap(dict[str, Value]):
    """A map with values that were not recorded: each is Unknown, and so is its presence."""

    __slots__ = ()


class Constructed(dict[str, Value]):
    """The fields of a value that an expression made of a type of Kubernetes, such as `Object.spec{replicas: 1}`."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, fields: Mapping[str, Value]) -> None:
        super().__init__(fields)
        self.type = type_


class LazyMap(dict[str, Value]):
    """A map whose values are computed on first read and kept, such as the `variables` of a policy.

    `names` are its keys. `resolve(name)` computes one value, or raises or returns CelError, which is kept and raised again. Reading
    with `[]` is as fast as in a plain dict once the value is computed. One map serves one thread.
    """

    __slots__ = ("failures", "names", "resolve")

    def __init__(self, names: Iterable[str], resolve: Callable[[str], Value]) -> None:
        super().__init__()
        self.names = frozenset(names)
        self.resolve = resolve
        self.failures: dict[str, CelError] = {}

    def __missing__(self, name: str) -> Value:
        if name not in self.names:
            raise KeyError(name)
        failure = self.failures.get(name)
        if failure is None:
            try:
                value = self.resolve(name)
            except CelError as problem:
                failure = problem
            else:
                if value.__class__ is not CelError:
                    self[name] = value
                    return value
                failure = value
            self.failures[name] = failure
        raise failure

    def __contains__(self, name: object) -> bool:
        return name in self.names


_TYPES: dict[type, Type] = {
    None.__class__: types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: types.LIST,
    dict: types.MAP,
    CelMap: types.MAP,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Type: types.TYPE,
    Optional: types.optional_of(types.DYN),
}


def runtime_type(value: Value) -> Type:
    """The type that CEL's `type(value)` returns; the types of lists and maps leave out the types of their contents."""
    found = _TYPES.get(value.__class__)
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.cel_type
    if isinstance(value, dict):
        return value.type if value.__class__ is Constructed else types.MAP
    raise TypeError(f"{value.__class__.__name__} is not a CEL value; pipeline.cel.values lists the types")
