"""The declarations against which an expression is type checked: variables, functions, object types and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..functions import Function, Overload
from ..standard import TYPE_NAMES
from ..syntax.builder import RESERVED
from ..types import BOOL, DURATION, INT, TIMESTAMP, ObjectType, Type, list_of, map_of, optional_of, parameter, type_of
from ..wellknown import MESSAGES

_A, _B, _V, _K = parameter("A"), parameter("B"), parameter("V"), parameter("K")
_LIST, _MAP, _VALUES, _PAIRS = list_of(_A), map_of(_A, _B), list_of(_V), map_of(_K, _V)

# Operators and parts of macros that are not functions when evaluated (cel-go common/stdlib, cel/library.go, ext/comprehensions.go).
INDEX: Final = "_[_]"
OPTIONAL_INDEX: Final = "_[?_]"
CONDITIONAL: Final = "_?_:_"
MAP_INSERT: Final = "cel.@mapInsert"
BUILT_IN: dict[str, tuple[Overload, ...]] = {
    CONDITIONAL: (Overload("conditional", (BOOL, _A, _A), _A),),
    INDEX: (
        Overload("index_list", (_LIST, INT), _A),
        Overload("index_map", (_MAP, _A), _B),
        Overload("optional_list_index_int", (optional_of(_VALUES), INT), optional_of(_V)),
        Overload("optional_map_index_value", (optional_of(_PAIRS), _K), optional_of(_V)),
    ),
    OPTIONAL_INDEX: (
        Overload("list_optindex_optional_int", (_VALUES, INT), optional_of(_V)),
        Overload("optional_list_optindex_optional_int", (optional_of(_VALUES), INT), optional_of(_V)),
        Overload("map_optindex_optional_value", (_PAIRS, _K), optional_of(_V)),
        Overload("optional_map_optindex_optional_value", (optional_of(_PAIRS), _K), optional_of(_V)),
    ),
    MAP_INSERT: (
        Overload("@mapInsert_map_key_value", (_PAIRS, _K, _V), _PAIRS),
        Overload("@mapInsert_map_map", (_PAIRS, _PAIRS), _PAIRS),
    ),
}
# The declared types of Kubernetes bring these names along (kubernetes/apiserver pkg/cel/types.go findScalar).
_SCALAR_NAMES = {"duration": DURATION, "timestamp": TIMESTAMP}
# Types that never have fields, as opposed to messages whose fields are not declared.
OPAQUE_TYPES = frozenset(("net.IP", "net.CIDR"))


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use. `types` are the names that stand for types unless a variable has the name.

    `dot_is_root`: `.x` is never a variable of a macro, and a macro's variable hides every dotted name that begins with it. Before
    the cel-go of Kubernetes 1.37 this was not so. `shares_targets`: optMap puts its target twice into the tree, as before 1.31.
    """

    variables: Mapping[str, Type] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    objects: Mapping[str, ObjectType] = field(default_factory=dict)
    types: Mapping[str, Type] = field(default_factory=dict)
    dot_is_root: bool = True
    shares_targets: bool = False

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Type],
        functions: Mapping[str, Function],
        object_types: Iterable[ObjectType] = (),
        dot_is_root: bool = True,
        shares_targets: bool = False,
    ) -> Scope:
        """The scope of an environment with these declarations."""
        objects = {each.name: each for each in object_types}
        types = TYPE_NAMES | {name: message.type for name, message in MESSAGES.items()}
        types |= {name: Type(name) for name in objects.keys() | OPAQUE_TYPES}
        return cls(variables, functions, objects, (_SCALAR_NAMES if objects else {}) | types, dot_is_root, shares_targets)

    def type_of(self, name: str) -> Type | None:
        """The type that a name has outside of all macros: that of a variable, or of a type."""
        found = self.variables.get(name)
        if found is None and name in self.types:
            return type_of(self.types[name])
        return found

    def named(self, name: str) -> Type | None:
        """The type that a literal `NAME{...}` names; None if there is no such type."""
        found = self.types.get(name)
        return Type(name) if found is None and self.object(name) is not None else found

    def object(self, name: str) -> ObjectType | None:
        """The declared object type of a name; None if it names no such type."""
        found = self.objects.get(name)
        if found is None and "." in name:
            root = self.objects.get(name.partition(".")[0])
            return root if root is not None and root.is_root else None
        return found

    def overloads(self, name: str) -> tuple[Overload, ...] | None:
        """The signatures of a function or operator; None if it is not declared."""
        function = self.functions.get(name)
        return BUILT_IN.get(name) if function is None else function.overloads

    def is_declared(self, type_name: str) -> bool:
        """Whether the fields of a type are known."""
        return type_name in MESSAGES or self.object(type_name) is not None

    def field(self, type_name: str, name: str) -> Type | None:
        """The type of a field of a declared object; None if it has no such field.

        A reserved word is declared as `__word__` and may be written either way (apiserver pkg/cel/types.go, since 1.31).
        """
        message = MESSAGES.get(type_name)
        if message is not None:
            return message.fields.get(name)
        declared = self.object(type_name)
        assert declared is not None
        found = declared.fields.get(name)
        if found is None and name in RESERVED:
            found = declared.fields.get(f"__{name}__")
        return declared.others if found is None else found


def is_message(type_: Type, scope: Scope) -> bool:
    """Whether a type has fields, known or not."""
    return scope.object(type_.name) is not None or (
        "." in type_.name and type_.name not in OPAQUE_TYPES and message_of(type_) is None
    )


def message_of(type_: Type) -> str | None:
    """The protobuf message whose syntax a plain type also has: `list{}` is a ListValue (cel-go checker.isWellKnownType)."""
    return _MESSAGE_OF.get(type_)


_MESSAGE_OF = {message.type: name for name, message in MESSAGES.items() if name != "google.protobuf.Empty"}
