"""A chain made ready to answer: what each member says of one request, before and after the object is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...cel import CelError, Program
from ...cel.values import Value
from .chain import Builtin, Chain
from .expressions import CEL_TYPES, result_of, when_environment, write_environment
from .logic.evaluate import OPEN, Result, decide
from .logic.formula import NO, YES, Formula, every, some
from .logic.total import read_as_selector
from .logic.translate import Both, NotModelledError, Semantics, translate
from .model import FAILED_CLOSED, Condition, ConditionsMap, Decision, Effect, Plain, Union, failure_of, possible, union_of

# The default of a member without `semantics`.
READ_SEMANTICS, WRITE_SEMANTICS = Semantics.SELECTOR, Semantics.CEL
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
    programs: Mapping[str, Program] = field(repr=False)

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

    def on(self, activation: Mapping[str, Value]) -> Plain | None:
        """The final decision about an object; None where it is unknown. `activation` has object, oldObject and options."""
        decision = self.decision
        return decision if isinstance(decision, Plain) else self._after(activation)

    def may_allow(self, activation: Mapping[str, Value]) -> bool:
        """Whether the final decision about an object may be Allow."""
        found = self._after(activation)
        return True if found is None else found.effect is Effect.ALLOW

    def _after(self, activation: Mapping[str, Value]) -> Plain | None:
        reached: list[tuple[str, Decision]] = []
        for answer in self.answers:
            if answer.decision is None:
                return None
            found = decide(answer.decision, partial(self._result, answer.semantics, activation))
            if found is None:
                return None if Effect.ALLOW in self._still(answer) else _REFUSED
            reached.append((answer.name, found))
            if found.effect is not Effect.NO_OPINION:
                return found
        return decide(Union(tuple(reached)), lambda _: OPEN)

    def _still(self, answer: Answer) -> frozenset[Effect]:
        """The effects that a chain may still have from one member on."""
        later = self.answers[self.answers.index(answer) :]
        found: set[Effect] = set()
        for each in later:
            found |= possible(each.decision) if each.decision is not None else set(Effect)
        return frozenset(found)

    def _result(self, semantics: Semantics, activation: Mapping[str, Value], condition: Condition) -> Result:
        program = self.programs.get(condition.expression) if condition.type in CEL_TYPES else None
        if program is None:
            return OPEN
        if semantics is Semantics.SELECTOR and isinstance(obj := activation.get("object"), dict):
            return read_as_selector(program, dict(self.request), obj)
        return result_of(program, {"request": dict(self.request), **activation})


_REFUSED = Plain(Effect.NO_OPINION, "no authorizer can allow it")


class CompiledChain:
    """A chain with its programs. It keeps formulas that do not depend on the request."""

    def __init__(self, chain: Chain, version: tuple[int, int] = (1, 37)) -> None:
        """Raises CompileError for an expression that does not compile; see decode.py, which refuses those."""
        self.chain = chain
        self._whens = {each.when: when_environment(version).compile(each.when) for each in chain.authorizers if each.when}
        self._environment = write_environment(version)
        self.programs: dict[str, Program] = {}
        for each in chain.authorizers:
            self._compile(each.decision)
        self._formulas: dict[tuple[str, Semantics], Both | NotModelledError] = {}

    def _compile(self, decision: Decision | Builtin) -> None:
        if isinstance(decision, Union):
            for _, inner in decision.members:
                self._compile(inner)
        elif isinstance(decision, ConditionsMap):
            for _, found in decision.lists():
                for each in found:
                    if each.type in CEL_TYPES:
                        self.programs[each.expression] = self._environment.compile(each.expression)

    def asked(self, request: Mapping[str, Any], is_read: bool, builtin: Mapping[Builtin, Answer]) -> Asked:
        """The members' answers to a request. `builtin` has those of the authorizers whose answers come from elsewhere."""
        default = READ_SEMANTICS if is_read else WRITE_SEMANTICS
        found: list[Answer] = []
        for each in self.chain.authorizers:
            answer = self._answer_of(each.decision, each.name, each.semantics or default, builtin)
            if each.when:
                answer = self._when(each.when, request, answer)
            found.append(answer)
            if isinstance(answer.decision, Plain) and answer.decision.effect is not Effect.NO_OPINION:
                break
        return Asked(request, tuple(found), self.programs)

    def _answer_of(
        self, decision: Decision | Builtin, name: str, semantics: Semantics, builtin: Mapping[Builtin, Answer]
    ) -> Answer:
        if not isinstance(decision, Builtin):
            return Answer(name, decision, semantics)
        known = builtin.get(decision)
        if known is None:
            return Answer(name, None, semantics, "what it decides is not known", may_deny=True)
        return Answer(name, known.decision, semantics, known.why, known.may_deny)

    def _when(self, when: str, request: Mapping[str, Any], answer: Answer) -> Answer:
        value = self._whens[when].evaluate({"request": dict(request)})
        if value is True:
            return answer
        if value is False:
            return Answer(answer.name, Plain(Effect.NO_OPINION), answer.semantics)
        if isinstance(value, CelError) and answer.decision is not None:
            failed = Plain(failure_of(answer.decision), FAILED_CLOSED, f"when: {value.message}")
            return Answer(answer.name, failed, answer.semantics)
        return Answer(answer.name, None, answer.semantics, f"its when cannot be evaluated: {value}", may_deny=True)

    def authorized(self, asked: Asked) -> Bounds:
        """When the chain allows an object, as formulas."""
        problems: dict[str, None] = {}
        low, high = (self._chain_formula(asked, asked.answers, is_high, problems) for is_high in (False, True))
        return Bounds(low, high, tuple(problems))

    def _chain_formula(self, asked: Asked, answers: Sequence[Answer], is_high: bool, problems: dict[str, None]) -> Formula:
        found: Formula = NO
        for answer in reversed(answers):
            if answer.decision is None:
                problems[f"authorizer {answer.name}: {answer.why}"] = None
                found = YES if is_high else NO if answer.may_deny else found
            else:
                found = self._formula(asked, answer.decision, answer.semantics, found, is_high, problems)
        return found

    def _formula(
        self, asked: Asked, decision: Decision, how: Semantics, rest: Formula, is_high: bool, problems: dict[str, None]
    ) -> Formula:
        """When a decision, or else the rest of the chain, allows an object."""
        match decision:
            case Plain(effect):
                return YES if effect is Effect.ALLOW else NO if effect is Effect.DENY else rest
            case Union(members):
                for _, each in reversed(members):
                    rest = self._formula(asked, each, how, rest, is_high, problems)
                return rest
            case ConditionsMap():
                parts = {
                    effect: [self._both(asked, each, how, is_high, problems) for each in found]
                    for effect, found in decision.lists()
                }
                not_denied = every(each.false for each in parts[Effect.DENY])
                has_opinion = every(each.false for each in parts[Effect.NO_OPINION])
                allowed = some(each.true for each in parts[Effect.ALLOW])
                return every([not_denied, some([every([has_opinion, allowed]), rest])])

    def _both(self, asked: Asked, condition: Condition, how: Semantics, is_high: bool, problems: dict[str, None]) -> Both:
        found = self._translated(asked, condition, how)
        if isinstance(found, Both):
            return found
        problems[f"condition {condition.id}: {found}"] = None
        return _UNMODELLED_HIGH if is_high else _UNMODELLED_LOW

    def _translated(self, asked: Asked, condition: Condition, how: Semantics) -> Both | NotModelledError:
        if condition.type not in CEL_TYPES:
            return NotModelledError(f"only its authorizer can evaluate conditions of type {condition.type}")
        key = (condition.expression, how)
        if (kept := self._formulas.get(key)) is not None:
            return kept
        program = self.programs[condition.expression]
        try:
            found: Both | NotModelledError = translate(program, dict(asked.request), how)
        except NotModelledError as problem:
            found = NotModelledError(f"{problem} says more of an object than labels and fields do")
        if "request" not in program.reads.variables():
            self._formulas[key] = found
        return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a chain surely allows an object (`low`), and when it may (`high`). `problems` say why the two differ."""

    low: Formula
    high: Formula
    problems: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the two are one."""
        return self.low == self.high
