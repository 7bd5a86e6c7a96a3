"""A chain made ready to answer: what each member says of one request, before and after the object is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from ...cel import CelError
from ...cel.stack import on_fresh_stack
from ...cel.values import Unknown, Value
from .chain import Builtin, Chain, conditions_in
from .expressions import CEL_TYPES, late_values, result_of, when_environment, write_environment
from .fields import Fields
from .logic.evaluate import OPEN, Outcomes, Result, Truth, in_order, outcomes_of, settled
from .logic.formula import NO, YES, Formula, depth_of, every, some
from .logic.total import read_as_selector
from .logic.translate import Both, CostlyError, NotModelledError, Path, Semantics, Translated, paths_in, translate
from .model import FAILED_CLOSED, Condition, ConditionsMap, Decision, Effect, Plain, Union, failure_of, possible, union_of
from .spending import Costed, RunBudget, Spending, words_of

# The default of a member without `semantics`.
READ_SEMANTICS, WRITE_SEMANTICS = Semantics.SELECTOR, Semantics.CEL
# Formulas are walked by recursion: how deep one condition may nest, and how many members that may deny may follow each other.
_DEPTH_MAX, _DENYING_MAX = 60, 64
_TOO_DEEP = "it is nested too deep for a proof"
_UNMODELLED_LOW, _UNMODELLED_HIGH = Both(NO, NO), Both(YES, YES)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one member says of a request. Without a `decision` it is unknown, and `why` says why."""

    name: str
    decision: Decision | None
    semantics: Semantics
    why: str = ""
    may_deny: bool = False


@dataclass(frozen=True)
class Asked:
    """One request with the answers of all members, before the object is known."""

    request: Mapping[str, Any]
    answers: tuple[Answer, ...]
    chain: CompiledChain = field(repr=False)
    _bounds: dict[Fields, Bounds] = field(default_factory=dict, repr=False, compare=False)

    @property
    def fields(self) -> Fields:
        """The fields of its resource, as far as the request alone tells."""
        return Fields(self.request["apiGroup"], self.request["resource"])

    @property
    def decision(self) -> Decision | None:
        """The decision of the chain; None where a member that matters is unknown."""
        members: list[tuple[str, Decision]] = []
        for answer in self.answers:
            if answer.decision is None:
                return None
            members.append((answer.name, answer.decision))
        return union_of(members)

    @property
    def unknown(self) -> str:
        """Why the answer of a member is unknown; empty if all are known."""
        return next((f"authorizer {each.name}: {each.why}" for each in self.answers if each.decision is None), "")

    def authorized(self, fields: Fields | None = None) -> Bounds:
        """When the chain allows an object, as formulas. `fields` are those of the resource, where more is known than its name."""
        of = self.fields if fields is None else fields
        if of not in self._bounds:
            self._bounds[of] = _Formulas(self.chain, self, of).bounds()
        return self._bounds[of]

    def on(self, activation: Mapping[str, Value]) -> Plain | None:
        """The final decision about an object; None where it is unknown. `activation` has object, oldObject and options."""
        decision = self.decision
        return decision if isinstance(decision, Plain) else settled(self._after(activation))

    def may_allow(self, activation: Mapping[str, Value]) -> bool:
        """Whether the final decision about an object may be Allow."""
        return any(found.effect is Effect.ALLOW for found in self._after(activation))

    def results(self, activation: Mapping[str, Value]) -> Iterator[tuple[Answer, Condition, Result]]:
        """What each condition evaluates to about an object, with the answer that has it."""
        values = late_values(self.request, activation)
        spending = Spending(values, self.chain.run)
        for answer in self.answers:
            for each in conditions_in(answer.decision) if answer.decision else ():
                yield answer, each, self._result(answer.semantics, values, spending, each)

    def open_of(self, activation: Mapping[str, Value]) -> tuple[str, ...]:
        """What is not known of the conditions about an object."""
        return tuple(dict.fromkeys(each.text for _, _, each in self.results(activation) if each.truth is Truth.UNKNOWN))

    def _after(self, activation: Mapping[str, Value]) -> Outcomes:
        """Every way in which the chain may end."""
        values = late_values(self.request, activation)
        spending = Spending(values, self.chain.run)

        def ends() -> Iterator[tuple[str, Outcomes]]:
            for answer in self.answers:
                if answer.decision is None:
                    effects = Effect if answer.may_deny else (Effect.NO_OPINION, Effect.ALLOW)
                    yield answer.name, tuple(map(Plain, effects))
                else:
                    yield answer.name, outcomes_of(answer.decision, partial(self._result, answer.semantics, values, spending))

        return in_order(ends())

    def _result(self, how: Semantics, values: Mapping[str, Value], spending: Spending, condition: Condition) -> Result:
        costed = self.chain.programs.get(condition.expression) if condition.type in CEL_TYPES else None
        if costed is None:
            return OPEN
        if how is Semantics.SELECTOR:
            return read_as_selector(costed.parts(spending), costed.program.ast, values, self.fields)
        return result_of(costed.value(values, spending))


class CompiledChain:
    """A chain with its programs. It keeps formulas that do not depend on the request."""

    def __init__(self, chain: Chain, version: tuple[int, int] = (1, 37), run: RunBudget | None = None) -> None:
        """`run` is the budget of the run, if it has several chains.

        Raises CompileError for an expression that does not compile; see decode.py, which refuses those.
        """
        self.chain = chain
        self.run = run or RunBudget()
        own = [condition for each in chain.authorizers for condition in conditions_in(each.decision)]
        texts = {each.expression for each in own if each.type in CEL_TYPES}
        whens = {each.when for each in chain.authorizers if each.when}
        count = len(texts) + len(whens) or 1
        self._whens = {text: Costed(when_environment(version).compile(text), count) for text in whens}
        self.programs = {text: Costed(write_environment(version).compile(text), count) for text in texts}
        self._formulas: dict[tuple[str, Semantics, Fields], Translated | NotModelledError] = {}

    @cached_property
    def paths(self) -> frozenset[Path]:
        """The paths of fields, other than metadata, that its conditions read."""
        trees = (each.program.ast for each in self.programs.values())
        return frozenset(path for tree in trees for path in paths_in(tree) if path[0] != "metadata")

    def asked(self, request: Mapping[str, Any], is_read: bool, builtin: Mapping[Builtin, Answer]) -> Asked:
        """The members' answers to a request. `builtin` has those of the authorizers whose answers come from elsewhere."""
        default = READ_SEMANTICS if is_read else WRITE_SEMANTICS
        found: list[Answer] = []
        values = {"request": dict(request)}
        spending = Spending(values, self.run)
        for each in self.chain.authorizers:
            answer = self._answer_of(each.decision, each.name, each.semantics or default, builtin)
            if each.when:
                answer = self._when(self._whens[each.when].value(values, spending), answer)
            found.append(answer)
            if isinstance(answer.decision, Plain) and answer.decision.effect is not Effect.NO_OPINION:
                break
        return Asked(values["request"], tuple(found), self)

    def _answer_of(
        self, decision: Decision | Builtin, name: str, semantics: Semantics, builtin: Mapping[Builtin, Answer]
    ) -> Answer:
        if not isinstance(decision, Builtin):
            return Answer(name, decision, semantics)
        known = builtin.get(decision)
        if known is None:
            return Answer(name, None, semantics, "what it decides is not known", may_deny=True)
        return Answer(name, known.decision, semantics, known.why, known.may_deny)

    @staticmethod
    def _when(value: Value, answer: Answer) -> Answer:
        if value is True:
            return answer
        if value is False:
            return Answer(answer.name, Plain(Effect.NO_OPINION), answer.semantics)
        if isinstance(value, CelError) and answer.decision is not None:
            failed = Plain(failure_of(answer.decision), FAILED_CLOSED, f"when: {value.message}")
            return Answer(answer.name, failed, answer.semantics)
        why = words_of(value) if isinstance(value, Unknown) else str(value)
        return Answer(answer.name, None, answer.semantics, f"its when cannot be evaluated: {why}", may_deny=True)

    def translated(self, asked: Asked, condition: Condition, how: Semantics, fields: Fields) -> Translated | NotModelledError:
        """The formulas of one condition, or why it has no formulas."""
        if condition.type not in CEL_TYPES:
            return NotModelledError(f"only its authorizer can evaluate conditions of type {condition.type}")
        key = (condition.expression, how, fields)
        if (kept := self._formulas.get(key)) is not None:
            return kept
        costed = self.programs[condition.expression]
        values = {"request": asked.request}
        part = costed.parts(Spending(values, self.run))
        try:
            made = on_fresh_stack(lambda: translate(lambda node: part(node, values), costed.program.ast, how, fields))
            is_deep = max(on_fresh_stack(lambda: [*map(depth_of, made.both)])) > _DEPTH_MAX
            found: Translated | NotModelledError = NotModelledError(_TOO_DEEP) if is_deep else made
        except NotModelledError as problem:
            found = NotModelledError(f"{problem} says more of an object than labels and fields do")
        except CostlyError as problem:
            found = NotModelledError(str(problem))
        if "request" not in costed.program.reads.variables():
            self._formulas[key] = found
        return found


class _Formulas:
    """Makes the formulas of the answers to one request. `problems` say what they leave open."""

    def __init__(self, chain: CompiledChain, asked: Asked, fields: Fields) -> None:
        self._chain = chain
        self._asked = asked
        self._fields = fields
        self._problems: dict[str, None] = {}
        self._doubtful: set[Path] = set()

    def bounds(self) -> Bounds:
        if sum(Effect.DENY in possible(each.decision) for each in self._asked.answers if each.decision) > _DENYING_MAX:
            return Bounds(NO, YES, (f"the chain has more than {_DENYING_MAX} members that may deny, nested too deep for a proof",))
        low, high = (self._of_chain(is_high) for is_high in (False, True))
        return Bounds(low, high, tuple(self._problems), frozenset(self._doubtful))

    def _of_chain(self, is_high: bool) -> Formula:
        found: Formula = NO
        for answer in reversed(self._asked.answers):
            if answer.decision is None:
                self._problems[f"authorizer {answer.name}: {answer.why}"] = None
                found = YES if is_high else NO if answer.may_deny else found
            else:
                found = self._of(answer.decision, answer.semantics, found, is_high)
        return found

    def _of(self, decision: Decision, how: Semantics, rest: Formula, is_high: bool) -> Formula:
        """When a decision, or else the rest of the chain, allows an object."""
        match decision:
            case Plain(effect):
                return YES if effect is Effect.ALLOW else NO if effect is Effect.DENY else rest
            case Union(members):
                for _, each in reversed(members):
                    rest = self._of(each, how, rest, is_high)
                return rest
            case ConditionsMap():
                parts = {effect: [self._both(each, how, is_high) for each in found] for effect, found in decision.lists()}
                not_denied = every(each.false for each in parts[Effect.DENY])
                has_opinion = every(each.false for each in parts[Effect.NO_OPINION])
                allowed = some(each.true for each in parts[Effect.ALLOW])
                return every([not_denied, some([every([has_opinion, allowed]), rest])])

    def _both(self, condition: Condition, how: Semantics, is_high: bool) -> Both:
        found = self._chain.translated(self._asked, condition, how, self._fields)
        if isinstance(found, Translated):
            self._doubtful |= found.doubtful
            return found.both
        self._problems[f"condition {condition.id}: {found}"] = None
        return _UNMODELLED_HIGH if is_high else _UNMODELLED_LOW


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a chain surely allows an object (`low`), and when it may (`high`). `problems` say why the two differ.

    `doubtful` are the paths that conditions compare with other values than texts, though no evidence tells their types.
    """

    low: Formula
    high: Formula
    problems: tuple[str, ...] = ()
    doubtful: frozenset[Path] = frozenset()

    @property
    def is_exact(self) -> bool:
        """Whether the two are one."""
        return self.low == self.high
