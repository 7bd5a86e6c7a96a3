"""The smallest difference that makes a denied request pass: one field changed, added or removed, found by trying.

Where no object passes, another user or operation may.

It changes only fields that the policy reads, and takes values only from the policy's own expressions. Every reported change was
evaluated and admitted. A request that needs more than one change has no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from ...cel import ast
from ...cel.costs.costed import EXCEEDED
from ...cel.readset import Reads
from ...matching.label_text import is_label_value
from ...policies.evaluate import OUT_OF_BUDGET
from ...request import AdmissionRequest, Known, Operation
from ..judging import Judgement

if TYPE_CHECKING:
    from .judges import Judge

# How many changes are tried of one request.
_TRIALS_MAX = 200
# How many of these may end at a CEL cost limit: each takes about a second, and no single change makes a large object small.
_COSTLY_TRIALS_MAX = 2
# A value for a field that must only be there.
_ANY = "x"
_SHOWN_MAX = 80
_USERS_SHOWN, _USERS_TRIED = 3, 50

Path: TypeAlias = tuple[str | int, ...]


class _Absent:
    """No value: an added field has no value before, a removed field has no value after."""


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class _Change:
    path: Path
    before: Any
    after: Any

    @property
    def is_allowed(self) -> bool:
        """Whether the API takes the value: that of a label has a grammar, which names of users do not fit."""
        is_label = len(self.path) > 1 and self.path[-2] in ("labels", "matchLabels", "nodeSelector")
        return not is_label or self.after is ABSENT or (isinstance(self.after, str) and is_label_value(self.after))

    @property
    def order(self) -> tuple[int, int]:
        """Changing a field comes first, removing one last: removal is the larger decision, and larger still the more lies below."""
        return (2, -len(self.path)) if self.after is ABSENT else (1, 0) if self.before is ABSENT else (0, 0)

    def words(self, *, is_any: bool) -> str:
        """The change for a person. `is_any`: every value passes, so the tried one is not advice."""
        place = _words(self.path)
        if self.after is ABSENT:
            return f"remove {place}"
        if self.before is ABSENT:
            return f"add {place}" if is_any else f"add {place}, such as {_value(self.after)}"
        return f"set {place} to {_value(self.after)} (it is {_value(self.before)})"


class Differences:
    """Finds differences for one policy."""

    def __init__(self, judge: Judge, values: Iterable[Any] = ()) -> None:
        """`values` are tried in addition to the literals of the policy, such as values of params in comparisons."""
        self._judge = judge
        self._values = [value for value in values if isinstance(value, (str, int, float, bool))]

    @cached_property
    def _literals(self) -> tuple[Any, ...]:
        """Every value to try: the given ones, then every literal in the policy's expressions, in their order."""
        found: dict[tuple[type, Any], None] = dict.fromkeys((type(value), value) for value in self._values)
        for expression in self._judge.policy.expressions:
            pending = [expression.program.ast] if expression.program else []
            while pending:
                node = pending.pop(0)
                if isinstance(node, ast.Literal) and isinstance(node.value, (str, int, float, bool)):
                    found[type(node.value), node.value] = None
                pending += ast.children(node)
        return tuple(value for _, value in found)

    def smallest(self, request: AdmissionRequest) -> str:
        """The change in words; empty if the request has no object, or if no single change is enough.

        It is empty, too, after some trials that end at a CEL cost limit.
        """
        evidence = request.object
        if not isinstance(evidence, Known) or not isinstance(evidence.value, dict):
            return ""
        reads = self._judge.policy.reads.of("object")
        sent = _sent_alone(request, evidence.value)
        changes = sorted(
            (each for each in self._changes(reads, evidence.value, ()) if each.is_allowed and _is_below(each.path, sent)),
            key=lambda change: change.order,
        )
        costly = 0
        for change in changes[:_TRIALS_MAX]:
            value = _changed(evidence.value, change.path, change.after)
            found = self._judge.judge(replace(request, object=Known(value, evidence.source, evidence.grade)))
            if _is_admitted(found):
                return change.words(is_any=self._takes_anything(request, evidence, change))
            costly += found is not None and is_over_cost(found)
            if costly == _COSTLY_TRIALS_MAX:
                return ""
        return self._of_request(request)

    def _of_request(self, request: AdmissionRequest) -> str:
        """Another user or operation with which the same object passes; empty without any. A client cannot change these."""
        reads = self._judge.policy.reads.of("request")
        texts = {each for each in self._literals if isinstance(each, str)}
        user = reads.fields.get("userInfo")
        names = sorted(texts - {"", request.user.username})[:_USERS_TRIED] if user and "username" in user.fields else []
        users = [each for each in names if self._admits(_as_user(request, each))]
        named = [each for each in Operation if each in texts and each is not request.operation]
        others = [each for each in named if "operation" in reads.fields and self._admits(replace(request, operation=each))]
        told = [f"the user {_value(each)}" for each in users[:_USERS_SHOWN]] + [f"the operation {each}" for each in others]
        return f"no change of the object, but {' or '.join(told)}" if told else ""

    def _admits(self, request: AdmissionRequest) -> bool:
        return _is_admitted(self._judge.judge(request))

    def _takes_anything(self, request: AdmissionRequest, evidence: Known[Any], change: _Change) -> bool:
        """Whether an added field needs no particular value: an empty object, which no literal equals, passes as well."""
        if change.before is not ABSENT:
            return False
        value = _changed(evidence.value, change.path, {})
        return self._admits(replace(request, object=Known(value, evidence.source, evidence.grade)))

    def _changes(self, reads: Reads, value: Any, path: Path) -> Iterator[_Change]:
        """Every single change of a field that the policy reads."""
        if isinstance(value, dict):
            names = [*value] if reads.whole or reads.elements else [*reads.fields]
            for name in names:
                below = reads if reads.whole else reads.fields.get(name) or reads.elements or Reads()
                if name in value:
                    yield from self._at(below, value[name], (*path, name))
                else:
                    yield from self._added(below, (*path, name))
        elif isinstance(value, list):
            below = reads if reads.whole or reads.members else reads.elements or Reads()
            for index, item in enumerate(value):
                yield from self._at(below, item, (*path, index))

    def _at(self, reads: Reads, value: Any, path: Path) -> Iterator[_Change]:
        if path not in _KEPT:
            yield from (_Change(path, value, other) for other in self._others(value))
            if len(path) > 1:
                yield _Change(path, value, ABSENT)
        yield from self._changes(reads, value, path)

    def _added(self, reads: Reads, path: Path) -> Iterator[_Change]:
        if not reads.fields:
            words = [value for value in self._literals if isinstance(value, str) and value]
            others = [value for value in self._literals if not isinstance(value, (str, bool))]
            yield from (_Change(path, ABSENT, value) for value in (*words, _ANY, *others, True, False))
        for name, below in reads.fields.items():
            yield from self._added(below, (*path, name))

    def _others(self, value: Any) -> Iterable[Any]:
        """Values that a scalar might have instead."""
        if isinstance(value, bool):
            return (not value,)
        if isinstance(value, (int, float)):
            return [other for other in self._literals if isinstance(other, (int, float)) and other != value]
        if not isinstance(value, str):
            return ()
        words = [other for other in self._literals if isinstance(other, str) and other and other != value]
        # A wanted prefix, such as a registry's, goes before the last part of the present value.
        moved = [f"{word}{value.rpartition('/')[2]}" for word in words if word.endswith("/")]
        return [*moved, *words]


def _sent_alone(request: AdmissionRequest, value: Any) -> tuple[str, ...]:
    """The part of the metadata that an update changes alone, as a controller does that takes a finalizer away; else empty.

    Such a client sends nothing else, so that no other field is advice for it.
    """
    old = request.old_object
    if request.operation is not Operation.UPDATE or not isinstance(old, Known) or not isinstance(old.value, dict):
        return ()
    for name in _OF_CONTROLLERS:
        ends = [{**each, "metadata": {**(each.get("metadata") or {}), **_UNSEEN, name: None}} for each in (value, old.value)]
        if ends[0] == ends[1]:
            return ("metadata", name)
    return ()


def _is_below(path: Path, place: tuple[str, ...]) -> bool:
    return path[: len(place)] == place


def _as_user(request: AdmissionRequest, name: str) -> AdmissionRequest:
    return replace(request, user=replace(request.user, username=name))


def is_over_cost(found: Judgement) -> bool:
    """Whether a CEL cost limit of the API server ended the evaluation. Such an evaluation takes about a second."""
    return EXCEEDED in found.text or OUT_OF_BUDGET in found.text


def _is_admitted(found: Judgement | None) -> bool:
    return found is not None and found.outcome == "admit" and not found.is_excused


# What controllers alone write in objects of others, and what the server changes with each write.
_OF_CONTROLLERS = ("finalizers", "ownerReferences")
_UNSEEN = dict.fromkeys(("resourceVersion", "generation", "managedFields"))
# Another name, kind or namespace is another object.
_KEPT = frozenset({("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")})


def _changed(value: Any, path: Path, after: Any) -> Any:
    """A copy with one change, which shares everything else."""
    if not path:
        return after
    head, *rest = path
    if isinstance(value, list):
        assert isinstance(head, int)
        items = [*value]
        if not rest and after is ABSENT:
            del items[head]
        else:
            items[head] = _changed(items[head], tuple(rest), after)
        return items
    copy = dict(value) if isinstance(value, dict) else {}
    if not rest and after is ABSENT:
        del copy[head]
    else:
        copy[head] = _changed(copy.get(head, {}), tuple(rest), after)
    return copy


def _words(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "a").isalnum():
            text += f".{part}"
        else:
            text += f"[{part!r}]"
    return text.removeprefix(".")


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
