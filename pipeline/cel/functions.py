"""The declaration of a CEL function: overloads for the checker, one Python callable for evaluation, one for cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .types import Type
from .values import Value, runtime_type

Version = tuple[int, int]  # Kubernetes minor: (1, 35)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature, identified as cel-go identifies it. The receiver of a member call is the first of `arguments`."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function or operator under one name (`startsWith`, `ip.isCanonical`, `_+_`), global and member forms together.

    `call` takes the evaluated arguments, receiver first, and does its own dispatch by class and number. It returns a value or
    raises `CelError` (`no such overload` where no overload fits). It never sees an error or an `Unknown` as argument.
    `cost` takes the arguments and the result and returns the charge of cel-go's runtime cost tracker for this call (1 if None).
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Callable[..., Value]
    cost: Callable[[tuple[Value, ...], Value], int] | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """Functions that come and go together.

    `introduced` and `removed` are versions of environments: the first with this option, and the first without it, because another
    option replaced it. `since` and `until` are versions of servers: the first with this code, and the first without it.
    """

    name: str
    functions: tuple[Function, ...]
    introduced: Version = (1, 0)
    removed: Version | None = None
    macros: frozenset[str] = field(default_factory=frozenset)
    since: Version = (1, 0)
    until: Version | None = None

    def present_in(self, version: Version, compatible: Version | None = None) -> bool:
        """Whether a server of this version has the library in the environment of a version; by default its own, for stored
        expressions."""
        options = compatible or version
        has_option = self.introduced <= options and (self.removed is None or options < self.removed)
        return has_option and self.since <= version and (self.until is None or version < self.until)


def merge(functions: Sequence[Function]) -> Function:
    """One function from the declarations of several libraries under one name, such as `ip(string)` and `cidr.ip()`.

    The type of the first argument tells them apart; it differs in all libraries of Kubernetes.
    """
    if len(functions) == 1:
        return functions[0]
    by_type = {
        overload.arguments[0].name: function
        for function in reversed(functions)
        for overload in function.overloads
        if overload.arguments and not overload.arguments[0].is_parameter
    }
    fallback = by_type.get("dyn", functions[0])

    def choose(arguments: Sequence[Value]) -> Function:
        return by_type.get(runtime_type(arguments[0]).name, fallback) if arguments else fallback

    def call(*arguments: Value) -> Value:
        return choose(arguments).call(*arguments)

    def cost(arguments: tuple[Value, ...], result: Value) -> int:
        charge = choose(arguments).cost
        return 1 if charge is None else charge(arguments, result)

    overloads = tuple(overload for function in functions for overload in function.overloads)
    return Function(functions[0].name, overloads, call, cost)
