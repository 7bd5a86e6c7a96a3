"""Mutating policies over one request: in rounds, each on the object as the one before left it.

Follows Dispatch of kubernetes/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go and dispatchInvocations of
pkg/admission/plugin/policy/mutating/dispatcher.go. All matches are found before the first mutation of a round; conditions are
evaluated later, on the object as mutated so far. The order of policies is not defined: it is an argument here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...authorization import AuthorizeUser
from ...given import GivenObjects
from ...matching import Matcher
from ...policies.decide import Subject
from ...policies.dispatch import CompiledSet
from ...policies.due import Bound, Entry
from ...policies.model import Binding
from ...request import AdmissionRequest, Evidence, Known, Object, Unknown
from ...world import World
from .applying import Refusal
from .compiled import compile_mutating
from .invocation import Invocation, Key, Noticed, Outcome
from .kinds import Kinds
from .model import MutatingRules
from .turn import Turn


class Chain:
    """Policies with their bindings, compiled."""

    def __init__(self, rules: MutatingRules, version: tuple[int, int], *, unbound: bool = True) -> None:
        """`unbound`: a policy without bindings is evaluated as if one bound it everywhere."""
        self.version = version
        self.policies = tuple(compile_mutating(each, version) for each in rules.policies)
        entries = []
        for policy in self.policies:
            bindings: Sequence[Binding | None] = rules.bindings_of(policy.mutating) or ((None,) if unbound else ())
            constraints = policy.policy.match_constraints
            bound = tuple(Bound(Subject(policy, each), _matcher_of(each)) for each in bindings)
            entries.append(Entry(policy, Matcher(constraints) if constraints else None, bound, None))
        self.set = CompiledSet(entries, GivenObjects(rules.objects))
        self.kinds = Kinds(version)
        self.reads_authorizer = any(policy.reads_authorizer for policy in self.policies)


def _matcher_of(binding: Binding | None) -> Matcher | None:
    if binding is None or binding.match_resources is None:
        return None
    matcher = Matcher(binding.match_resources)
    return None if matcher.is_trivial else matcher


# What happens to an object after the policies of a round: the recorded patches of webhooks. It gets the number of the round.
Between: TypeAlias = Callable[[int, Object], Object | Unknown]


@dataclass
class Run:
    """One walk of one request through the rounds of a chain. `notice` gets each step, for an explanation.

    `settles`: each policy is also tried on its own result. `only`: run these and no other policies.
    """

    chain: Chain
    request: AdmissionRequest
    world: World
    authorize: AuthorizeUser | None = None
    order: Sequence[Key] = ()
    between: Between | None = None
    notice: Callable[[Noticed], None] | None = None
    settles: bool = True
    only: Collection[Key] | None = None
    invocations: list[Invocation] = field(default_factory=list)
    object: Evidence[Object | None] = field(init=False)
    previous: set[Key] = field(default_factory=set)  # IfNeeded policies that ran, and that a later change calls again
    due_again: set[Key] = field(default_factory=set)
    refusal: Refusal | None = None
    is_dirty: bool = False
    has_nil: bool = False  # nil slices may be in the object

    def __post_init__(self) -> None:
        self.object = self.request.object
        self.seen: World = self.chain.set.given.over(self.world)

    def outcome(self) -> Outcome:
        """Run both rounds."""
        ends: list[Object] = []
        for number in (0, 1):
            self._round(number)
            if self.refusal is not None:
                return Outcome(Unknown("the request is refused"), self.refusal, tuple(self.invocations), tuple(ends))
            before = self.object
            if isinstance(before, Known) and before.value is not None:
                ends.append(before.value)
                if self.between is not None:
                    self._webhooks(number, before.value)
            if not self.is_dirty or isinstance(self.object, Unknown):
                break
        return Outcome(self.object, None, tuple(self.invocations), tuple(ends))

    def _webhooks(self, number: int, before: Object) -> None:
        assert self.between is not None
        after = self.between(number, before)
        if isinstance(after, Unknown):
            self.object = after
        elif after != before:
            self.object = replace(self.object, value=after) if isinstance(self.object, Known) else self.object
            self.is_dirty = True
            self.call_again()

    def _round(self, number: int) -> None:
        request = replace(self.request, object=self.object)
        turn = Turn(self, request, number)
        for prepared in self.chain.set.prepared(request, self.world):
            turn.meet(prepared)
        turn.run()

    def note(self, step: Noticed) -> None:
        """Tell a step to whoever wants to explain it."""
        if self.notice is not None:
            self.notice(step)

    def call_again(self) -> None:
        """Let the next round run the policies with IfNeeded that ran so far: the object changed after them."""
        self.due_again |= self.previous
        self.previous = set()
