"""From the rules of a grammar to the automaton (ATN) with which ANTLR's runtime predicts, expects and recovers.

The states are joined as ANTLR documents them (antlr4 runtime, atn/ATNState; "Adaptive LL(*) Parsing", 2014). A rule runs from a
start to a stop state, and a choice from a block start to a block end. A loop decides at its entry or its way back whether to go on.
A left-recursive rule becomes a loop whose alternatives ask for a precedence.
"""

from __future__ import annotations

from collections.abc import Sequence as Alternatives
from typing import Any

from antlr4.atn.ATN import ATN
from antlr4.atn.ATNState import (
    BasicBlockStartState,
    BasicState,
    BlockEndState,
    DecisionState,
    LoopEndState,
    PlusBlockStartState,
    PlusLoopbackState,
    RuleStartState,
    RuleStopState,
    StarBlockStartState,
    StarLoopbackState,
    StarLoopEntryState,
)
from antlr4.atn.ATNType import ATNType
from antlr4.atn.Transition import (
    AtomTransition,
    EpsilonTransition,
    PrecedencePredicateTransition,
    RuleTransition,
    SetTransition,
)
from antlr4.IntervalSet import IntervalSet

from .error_grammar import Maybe, OneOf, Part, Plus, Rules, Sequence, Star


def build_automaton(rules: Rules, token_types: dict[str, int]) -> ATN:
    """The automaton of `rules`; `token_types` numbers every token that they name."""
    return _Builder(rules, token_types).atn


def adaptive_decisions(atn: ATN) -> frozenset[int]:
    """The decisions that need more than one token: two alternatives begin alike, or a precedence decides."""
    found = set()
    for state in atn.decisionToState:
        firsts = [_first_tokens(transition.target) for transition in state.transitions]
        seen: set[int] = set()
        for tokens in firsts:
            if tokens is None or seen & tokens:
                found.add(state.decision)
                break
            seen |= tokens
    return frozenset(found)


def _first_tokens(start: Any) -> set[int] | None:
    """The tokens that can come next at a state, for all uses of its rule; None where they depend on a precedence.

    No rule matches the empty text, so every rule consumes a token.
    """
    tokens: set[int] = set()
    waiting, seen = [start], {start}
    while waiting:
        for transition in waiting.pop().transitions:
            if isinstance(transition, PrecedencePredicateTransition):
                return None
            if transition.label is not None:
                tokens.update(transition.label)
            elif transition.target not in seen:
                seen.add(transition.target)
                waiting.append(transition.target)
    return tokens


class _Builder:
    """Joins states from the end of each rule to its beginning, so that the state after a part always exists."""

    def __init__(self, rules: Rules, token_types: dict[str, int]) -> None:
        self._token_types = token_types
        self._numbers = {name: number for number, name in enumerate(rules)}
        self.atn = ATN(ATNType.PARSER, max(token_types.values()))
        self.atn.ruleToStopState = []
        self._rule = 0
        for self._rule, (name, alternatives) in enumerate(rules.items()):
            start, stop = self._state(RuleStartState), self._state(RuleStopState)
            start.stopState = stop
            start.isPrecedenceRule = any(parts[0] == name for parts in alternatives)
            self.atn.ruleToStartState.append(start)
            self.atn.ruleToStopState.append(stop)
        for self._rule, alternatives in enumerate(rules.values()):
            start = self.atn.ruleToStartState[self._rule]
            body = self._left_recursion if start.isPrecedenceRule else self._choice
            _join(start, body(alternatives, self._before(start.stopState)))
        self._return_from_rules()

    def _return_from_rules(self) -> None:
        """Joins the end of a rule to all states that can follow its calls."""
        calls = [t for state in self.atn.states for t in state.transitions if isinstance(t, RuleTransition)]
        for call in calls:
            is_outermost = call.target.isPrecedenceRule and call.precedence == 0
            back = EpsilonTransition(call.followState, call.ruleIndex if is_outermost else -1)
            self.atn.ruleToStopState[call.ruleIndex].addTransition(back)

    def _state(self, kind: type) -> Any:
        state = kind()
        state.ruleIndex = self._rule
        self.atn.addState(state)
        return state

    def _before(self, after: Any) -> Any:
        return _join(self._state(BasicState), after)

    def _choice(self, alternatives: Alternatives[Sequence], after: Any) -> Any:
        if len(alternatives) == 1:
            return self._sequence(alternatives[0], after)
        return self._block(BasicBlockStartState, alternatives, after)

    def _left_recursion(self, alternatives: Alternatives[Sequence], after: Any) -> Any:
        """The alternatives that do not begin with the rule itself, then a loop over the others (ANTLR's elimination)."""
        name = next(name for name, number in self._numbers.items() if number == self._rule)
        bases = [parts for parts in alternatives if parts[0] != name]
        entry, back = self._star_loop(after)
        entry.isPrecedenceDecision = True
        end = self._block_end(back)
        starts = []
        for at, parts in enumerate(alternatives):
            if parts[0] == name:
                precedence = len(alternatives) - at
                following = self._sequence(parts[1:], end, precedence + 1)
                asks = self._state(BasicState)
                asks.addTransition(PrecedencePredicateTransition(following, precedence))
                starts.append(asks)
        _join(entry, self._block_start(StarBlockStartState, starts, end), first=True)
        return self._choice(bases, self._before(entry))

    def _sequence(self, parts: Sequence, after: Any, precedence: int = 0) -> Any:
        """`precedence` is that of the rule itself as the last part."""
        for at in reversed(range(len(parts))):
            is_last = at == len(parts) - 1
            after = self._part(parts[at], after, precedence if is_last else 0)
        return after

    def _part(self, part: Part, after: Any, precedence: int) -> Any:
        match part:
            case Maybe(parts):
                start = self._block(BasicBlockStartState, [parts], after)
                _join(start, start.endState)
                self._decision(start)
                return start
            case Star(parts):
                entry, back = self._star_loop(after)
                _join(entry, self._block(StarBlockStartState, [parts], back), first=True)
                return entry
            case Plus(parts):
                return self._plus_loop(parts, after)
            case OneOf(tokens):
                numbers = IntervalSet()
                for token in tokens:
                    numbers.addOne(self._token_types[token])
                transition = SetTransition(after, numbers)
            case str() if part in self._numbers:
                number = self._numbers[part]
                itself = precedence if number == self._rule else 0
                transition = RuleTransition(self.atn.ruleToStartState[number], number, itself, after)
            case str():
                transition = AtomTransition(after, self._token_types[part])
        state = self._state(BasicState)
        state.addTransition(transition)
        return state

    def _star_loop(self, after: Any) -> tuple[Any, Any]:
        """The entry of a loop, with only its exit joined, and the way back to the entry."""
        entry, back, out = self._state(StarLoopEntryState), self._state(StarLoopbackState), self._state(LoopEndState)
        entry.loopBackState = out.loopBackState = back
        _join(back, entry)
        _join(entry, _join(out, after))
        self._decision(entry)
        return entry, back

    def _plus_loop(self, parts: Sequence, after: Any) -> Any:
        back, out = self._state(PlusLoopbackState), self._state(LoopEndState)
        out.loopBackState = back
        start = self._block(PlusBlockStartState, [parts], back)
        start.loopBackState = back
        _join(back, start)
        _join(back, _join(out, after))
        self._decision(back)
        return start

    def _block(self, kind: type, alternatives: Alternatives[Sequence], after: Any) -> Any:
        end = self._block_end(after)
        return self._block_start(kind, [self._sequence(parts, end) for parts in alternatives], end)

    def _block_end(self, after: Any) -> Any:
        return _join(self._state(BlockEndState), after)

    def _block_start(self, kind: type, alternatives: list[Any], end: Any) -> Any:
        start = self._state(kind)
        start.endState, end.startState = end, start
        for alternative in alternatives:
            _join(start, alternative)
        if len(alternatives) > 1:
            self._decision(start)
        return start

    def _decision(self, state: DecisionState) -> None:
        self.atn.defineDecisionState(state)


def _join(state: Any, target: Any, first: bool = False) -> Any:
    """`state`, with a new transition to `target` that needs no token; `first` makes it the first alternative."""
    state.addTransition(EpsilonTransition(target), 0 if first else -1)
    return state
