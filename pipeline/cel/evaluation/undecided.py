"""The state of `&&`, `||`, `all` and `exists` while no term has decided the outcome (cel-go interpreter.evalAnd and evalOr)."""

from __future__ import annotations

from ..values import CelError, Unknown, Value, no_such_overload


class Undecided:
    """All unknowns, and the first error. An unknown outcome beats an error: the missing value might have decided."""

    __slots__ = ("error", "unknown")

    def __init__(self, value: Value) -> None:
        self.error: CelError | None = None
        self.unknown: Unknown | None = None
        self.note(value)

    def note(self, value: Value) -> None:
        """Records a term that is not a bool."""
        if value.__class__ is Unknown:
            self.unknown = value if self.unknown is None else self.unknown.merge(value)
        elif self.error is None:
            self.error = value if value.__class__ is CelError else no_such_overload()

    def outcome(self) -> Unknown | CelError | None:
        """The result if no other term decides."""
        return self.error if self.unknown is None else self.unknown
