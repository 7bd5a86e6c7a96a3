"""The macros over lists and maps, each as the loop into which cel-go expands it (cel-go parser/macro.go, ext/comprehensions.go).

`all` and `exists` absorb errors and unknowns as `&&` and `||` do. The others keep them: `map` and the transforms keep the first
failure. `filter`, `exists_one` and filters inside transforms keep the last, because a failed condition replaces the accumulated
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ..values import CelError, CelMap, LazyMap, SparseMap, Unknown, Value, no_such_overload
from .attributes import go_type, key_text
from .equality import entries
from .frames import FAILED, Frame, Run
from .undecided import Undecided

Loop: TypeAlias = Callable[[Frame, Iterable[Any]], Value]
Step: TypeAlias = Callable[[Frame, Value, Any], Value]


def elements(value: Value) -> Iterable[Value]:
    """The values that a macro with one variable visits: elements of a list, keys of a map. Raises CelError for other values."""
    kind = value.__class__
    if kind is list or kind is dict or kind is SparseMap or kind is CelMap:
        return value  # type: ignore[no-any-return]
    if isinstance(value, LazyMap):
        return sorted(value.names)
    raise CelError(f"got '{go_type(value)}', expected iterable type")


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """The pairs that a macro with two variables visits: positions and elements of a list, keys and values of a map."""
    kind = value.__class__
    if kind is list:
        return enumerate(value)
    if kind is dict or kind is SparseMap or kind is CelMap:
        return entries(value)
    raise CelError(f"unsupported comprehension range type: {go_type(value)}")


def loop(macro: str, slots: Sequence[int], arguments: Sequence[Run]) -> Loop:
    """The loop of one macro.

    `slots` are the loop variables' places in the frame, `arguments` the arguments of the macro after its variables.
    """
    return _LOOPS[macro](list(slots), list(arguments))


def loop_over(over: Run, each: Loop, two_variables: bool) -> Run:
    """A loop over the value of `over`."""
    visit = pairs if two_variables else elements

    def run(frame: Frame) -> Value:
        value = over(frame)
        if value.__class__ in FAILED:
            return value
        try:
            items = visit(value)
        except CelError as problem:
            return problem.with_traceback(None)
        return each(frame, items)

    return run


def assign(slots: list[int]) -> Callable[[Frame, Any], None]:
    """Puts an item into the loop variables."""
    if len(slots) == 1:
        (only,) = slots

        def one(frame: Frame, item: Any) -> None:
            frame[only] = item

        return one
    first, second = slots

    def two(frame: Frame, item: Any) -> None:
        frame[first], frame[second] = item

    return two


def _quantifier(decisive: bool) -> Callable[[list[int], list[Run]], Loop]:
    def make(slots: list[int], arguments: list[Run]) -> Loop:
        put, (predicate,) = assign(slots), arguments

        def run(frame: Frame, items: Iterable[Any]) -> Value:
            undecided: Undecided | None = None
            for item in items:
                put(frame, item)
                value = predicate(frame)
                if value is decisive:
                    return decisive
                if value.__class__ is not bool:
                    if undecided is None:
                        undecided = Undecided(value)
                    else:
                        undecided.note(value)
            return not decisive if undecided is None else undecided.outcome()

        return run

    return make


def failed_condition(value: Value, accumulated: Value) -> Value:
    """The accumulated value after a step whose condition was neither true nor false."""
    if value.__class__ is Unknown:
        return value.merge(accumulated) if accumulated.__class__ is Unknown else value
    return value if value.__class__ is CelError else no_such_overload()


def _exists_one(slots: list[int], arguments: list[Run]) -> Loop:
    put, (predicate,) = assign(slots), arguments

    def run(frame: Frame, items: Iterable[Any]) -> Value:
        count: Value = 0
        for item in items:
            put(frame, item)
            value = predicate(frame)
            if value is True:
                if count.__class__ is int:
                    count += 1
            elif value is not False:
                count = failed_condition(value, count)
        return count == 1 if count.__class__ is int else count

    return run


def _filter(slots: list[int], arguments: list[Run]) -> Loop:
    put, (predicate,), slot = assign(slots), arguments, slots[0]

    def run(frame: Frame, items: Iterable[Any]) -> Value:
        kept: Value = []
        for item in items:
            put(frame, item)
            value = predicate(frame)
            if value is True:
                kept = append(kept, frame[slot])
            elif value is not False:
                kept = failed_condition(value, kept)
        return kept

    return run


def append(collected: Value, value: Value) -> Value:
    """`collected + [value]`: a failure on the left stays, a failure on the right replaces the result."""
    if collected.__class__ is list:
        if value.__class__ in FAILED:
            return value
        collected.append(value)
        return collected
    if collected.__class__ is Unknown and value.__class__ is Unknown:
        return collected.merge(value)
    return collected


def insert(collected: Value, key: Value, value: Value) -> Value:
    """`collected` with one more entry. Each key may come once."""
    if collected.__class__ in FAILED:
        return collected
    for part in (key, value):
        if part.__class__ in FAILED:
            return part
    try:
        slot = CelMap.slot(key)
    except CelError as problem:
        return problem.with_traceback(None)
    if slot in collected.entries:
        return CelError(f"insert failed: key {key_text(key)} already exists")
    collected.entries[slot] = (key, value)
    return collected


def insert_all(collected: Value, added: Value) -> Value:
    """`collected` with all entries of another map."""
    if collected.__class__ in FAILED:
        return collected
    if added.__class__ in FAILED:
        return added
    if not isinstance(added, dict | CelMap):
        return no_such_overload()
    for key, value in entries(added):
        collected = insert(collected, key, value)
    return collected


def plain(collected: Value) -> Value:
    """A map whose keys are all strings becomes a plain dict; any other map stays unchanged."""
    if collected.__class__ is CelMap and all(key.__class__ is str for key in collected):
        return dict(collected.entries.values())
    return collected


def transforming(start: Callable[[], Value], add: Step, finish: Callable[[Value], Value]) -> Callable[[list[int], list[Run]], Loop]:
    """A macro that collects `arguments[-1]` of every item, or of those items for which `arguments[0]` is true."""

    def make(slots: list[int], arguments: list[Run]) -> Loop:
        put, transform = assign(slots), arguments[-1]
        condition = arguments[0] if len(arguments) == 2 else None
        key = slots[0]

        def run(frame: Frame, items: Iterable[Any]) -> Value:
            collected = start()
            for item in items:
                put(frame, item)
                if condition is not None:
                    value = condition(frame)
                    if value is False:
                        continue
                    if value is not True:
                        collected = failed_condition(value, collected)
                        continue
                collected = add(frame, collected, (key, transform))
            return finish(collected)

        return run

    return make


def _add_element(frame: Frame, collected: Value, part: Any) -> Value:
    return append(collected, part[1](frame))


def add_entry(frame: Frame, collected: Value, part: Any) -> Value:
    if collected.__class__ in FAILED:
        return collected
    return insert(collected, frame[part[0]], part[1](frame))


def _add_entries(frame: Frame, collected: Value, part: Any) -> Value:
    return insert_all(collected, part[1](frame))


_collect_list = transforming(list, _add_element, lambda collected: collected)
_LOOPS: dict[str, Callable[[list[int], list[Run]], Loop]] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _collect_list,
    "transformList": _collect_list,
    "transformMap": transforming(CelMap, add_entry, plain),
    "transformMapEntry": transforming(CelMap, _add_entries, plain),
}
