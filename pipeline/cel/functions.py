"""How a CEL function is declared: overloads for the checker, one Python callable for evaluation, one for cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .types import Type
from .values import Value

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

    `call` takes the evaluated arguments, receiver first, and does its own dispatch by class and number: it returns a value or
    raises `CelError` (`no such overload` where no overload fits). It never sees an error or an `Unknown` as argument.
    `cost` takes the arguments and the result and returns what cel-go's runtime cost tracker charges for this call (1 if None).
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Callable[..., Value]
    cost: Callable[[tuple[Value, ...], Value], int] | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """Functions that come and go together. `removed` is the first version without them (replaced by another library)."""

    name: str
    functions: tuple[Function, ...]
    introduced: Version = (1, 0)
    removed: Version | None = None
    macros: frozenset[str] = field(default_factory=frozenset)

    def present_in(self, version: Version) -> bool:
        """Whether a server of this version evaluates stored expressions with this library."""
        return self.introduced <= version and (self.removed is None or version < self.removed)
