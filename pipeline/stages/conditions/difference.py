"""What a change of a chain adds to what each subject may list and watch, and what it takes away.

The proofs are about all objects, the examples about those that exist at the end of the window. A watch that is open across a change
still has objects that the subject may no longer see; so has a client that watches again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from queries import LakeReader

from ...authorization.authorizer import SUPERUSERS
from ...runs.window import Window
from ..stage import Asked as AskedOfPlan
from .chain import Chain
from .compiled import Bounds, CompiledChain
from .judging import Judging, Question, is_about, question_of
from .known import NEVER, KnownObjects, State, model_of
from .logic.formula import NO, Formula, Model, every, is_true, negated
from .logic.primes import alternatives
from .logic.proof import Prover, untyped
from .logic.solver import Counterexample
from .logic.suggest import selections_of
from .rbac import RbacAnswers
from .selection import Selection
from .sql import statement

_EXAMPLES_MAX = 5
_READS = ("list", "watch")


class Option(StrEnum):
    """What happens to an object in a client's cache, of the three ways of the draft for conditional reads."""

    FAILS = "the client still works on it, and its updates are refused"
    CLEANED = "the client may remove it, told by 403 and not by 404"
    DROPPED = "the client never asks for it again"


class Side(NamedTuple):
    """What one side of a change has. `is_nothing`: proved to have no object at all; `is_unknown`: neither proved nor refuted.

    `selectors` are what can be listed of it, `known` the objects of it that exist, and `examples` some of these with their writers.
    """

    is_nothing: bool
    selectors: tuple[str, ...] = ()
    known: int = 0
    examples: tuple[str, ...] = ()
    is_unknown: bool = False


class Resumed(NamedTuple):
    """An object that was written between two watches of one client, and that the second no longer shows."""

    name: str
    option: Option


class Change(NamedTuple):
    """What a change means for one subject, verb and resource. `why` names the unknown part; empty if all is known.

    `open_watches`: recorded watches that were open at the end of the window. `resumed`: objects that a client which watched
    again would have lost, if the change had come between its two watches.
    """

    cluster: str
    user: str
    verb: str
    resource: str
    place: str
    requests: int
    newly: Side
    lost: Side
    open_watches: int
    resumed: tuple[Resumed, ...]
    why: str = ""


def changes(reader: LakeReader, old: Chain, new: Chain, asked: AskedOfPlan) -> tuple[Change, ...]:
    """The subjects of a window whose lists or watches change, the ones that lose known objects first."""
    return _Comparison(reader, old, new, asked).changes()


class _Group(NamedTuple):
    question: Question
    selection: Selection
    numbers: list[int]
    requests: int


class _Comparison:
    def __init__(self, reader: LakeReader, old: Chain, new: Chain, asked: AskedOfPlan) -> None:
        self._reader = reader
        self._window: Window = asked.window
        reader.connection.execute(statement("asked"), self._window.parameters)
        reader.connection.execute(statement("questions"))
        both = [CompiledChain(each, asked.kubernetes_version) for each in (old, new)]
        self._known = KnownObjects(reader, self._window, both[0].paths | both[1].paths)
        self._prover = Prover()
        self._rbac = RbacAnswers(reader, self._window)
        self._old, self._new = (Judging(each, self._known, self._prover) for each in both)
        self._watches = [row for batch in reader.sql(statement("watches")).to_arrow_reader(4096) for row in batch.to_pylist()]

    def changes(self) -> tuple[Change, ...]:
        """Every changed subject."""
        found = [change for group in self._groups() if (change := self._change(group)) is not None]
        return tuple(sorted(found, key=lambda each: (-each.lost.known, -each.newly.known, -each.requests, each[:5])))

    def _groups(self) -> Iterable[_Group]:
        """The lists and watches by subject and place, whatever they select."""
        groups: dict[tuple[Any, ...], _Group] = {}
        for row in self._reader.arrow("FROM conditions_questions ORDER BY number").to_pylist():
            question = question_of(row)
            info = question.info
            if info is None or question.verb not in _READS or not info.is_resource_request or SUPERUSERS in question.user.groups:
                continue
            if not (is_about(self._old.chain, question) and is_about(self._new.chain, question)):
                continue
            place = self._new.selection(question)
            selection = Selection(namespace=place.namespace, name=place.name, types=place.types)
            key = (
                question.cluster,
                question.user.username,
                question.user.groups,
                question.verb,
                info.group,
                info.resource,
                selection,
            )
            group = groups.setdefault(key, _Group(question, selection, [], 0))
            group.numbers.append(row["number"])
            groups[key] = group._replace(requests=group.requests + row["requests"])
        return groups.values()

    def _change(self, group: _Group) -> Change | None:
        question, info = group.question, group.question.info
        assert info is not None
        rbac = self._rbac.answer(question)
        old, new = (each.asked(question, rbac).authorized(group.selection.types) for each in (self._old, self._new))
        if old == new:
            return None
        doubtful = sorted(old.doubtful | new.doubtful)
        unsure = Side(False, is_unknown=True)
        newly, lost = (unsure, unsure) if doubtful else (self._side(group, new, old), self._side(group, old, new))
        if newly.is_nothing and lost.is_nothing:
            return None
        gone = NO if doubtful else every([old.low, negated(new.high)])
        watches = [row for row in self._watches if row["number"] in group.numbers]
        return Change(
            question.cluster,
            question.user.username,
            question.verb,
            f"{info.resource}.{info.group}".rstrip("."),
            str(group.selection),
            group.requests,
            newly,
            lost,
            sum(row["ended"] is None for row in watches),
            tuple(self._resumed(group, watches, gone)),
            "; ".join(dict.fromkeys((*([untyped(doubtful)] if doubtful else []), *old.problems, *new.problems))),
        )

    def _side(self, group: _Group, more: Bounds, less: Bounds) -> Side:
        """What `more` allows and `less` does not."""
        info = group.question.info
        assert info is not None
        is_namespaced, ranges = self._new.is_namespaced(group.question), group.selection.ranges()
        possible = every([more.high, negated(less.low)])
        if self._prover.solver(negated(possible), is_namespaced).refute(ranges) is None:
            return Side(True)
        sure = every([more.low, negated(less.high)])
        if sure == NO or not isinstance(self._prover.solver(negated(sure), is_namespaced).refute(ranges), Counterexample):
            return Side(False, is_unknown=True)
        boxes = alternatives(self._prover, sure, ranges, is_namespaced).boxes
        selectors = [str(each) for box in boxes for each in selections_of(box, group.selection)]
        states = [state for state in self._states(group) if state.until == NEVER and self._holds(sure, state)]
        examples = tuple(_named(state) for state in states[:_EXAMPLES_MAX])
        return Side(False, tuple(dict.fromkeys(selectors)), len(states), examples)

    def _states(self, group: _Group) -> Iterable[State]:
        info = group.question.info
        assert info is not None
        states = self._known.of(group.question.cluster, info.group, info.resource)
        return (state for state in states if group.selection.selects(state.object))

    def _holds(self, formula: Formula, state: State) -> bool:
        model: Model = model_of(state.object, *self._prover.reads(formula))
        return is_true(formula, model)

    def _resumed(self, group: _Group, watches: Sequence[Mapping[str, Any]], gone: Formula) -> Iterable[Resumed]:
        """The objects that were written between two watches of one client and that the change takes away."""
        info = group.question.info
        assert info is not None
        gaps = [(row["ended"], row["next_ts"]) for row in watches if row["ended"] is not None and row["next_ts"] is not None]
        if not gaps:
            return
        place = {"cluster": group.question.cluster, "api_group": info.group, "resource": info.resource}
        touched = {
            (row["namespace"], row["name"]): row
            for row in self._reader.connection.sql(statement("touched"), params=place).to_arrow_table().to_pylist()
            if row["user_name"] == group.question.user.username
        }
        seen: set[tuple[str, str]] = set()
        for state in self._states(group):
            key = (state.namespace, state.name)
            again = next((after for before, after in gaps if before < state.since <= after), None)
            if again is None or key in seen or not self._holds(gone, state):
                continue
            seen.add(key)
            yield Resumed(f"{state.namespace}/{state.name}".lstrip("/"), _option(state, touched.get(key), again))


def _option(state: State, touched: Mapping[str, Any] | None, again: datetime) -> Option:
    """Which of the three ways the log shows for an object after its client watched again."""
    if touched is not None and touched["refused"] is not None and touched["refused"] >= again:
        return Option.FAILS
    if touched is None or touched["asked"] < again:
        return Option.DROPPED
    return Option.CLEANED if state.until > again else Option.DROPPED


def _named(state: State) -> str:
    name = f"{state.namespace}/{state.name}".lstrip("/")
    return f"{name} (last written by {state.writer})" if state.writer else name
