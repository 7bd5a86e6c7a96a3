"""The validating policies that a request meets: given ones, laid over those that the log shows in force at its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...matching import Target
from ...policies.dispatch import CompiledSet, compile_set, evaluate_request
from ...policies.messages import code_of, denial_message
from ...policies.model import Action, Binding, Policy, PolicySet
from ...policies.verdict import Decision, PolicyVerdict
from ...request import AdmissionRequest, Grade
from ..mutating.walk import Met
from .answer import VALIDATING, Answer, unknown

# The recorded policies that one request met.
MetBy = Callable[[AdmissionRequest], Sequence[CompiledSet]]


class ValidatingPolicies:
    """Judges requests by both. A given policy or binding takes the place of what has its name."""

    def __init__(self, given: PolicySet, recorded: CompiledSet, met_by: MetBy, version: tuple[int, int]) -> None:
        """`recorded` are all that the log shows. `met_by` gives those of one request."""
        self._given, self._recorded, self._met_by, self._version = given, recorded, met_by, version
        # Policies that the folder changes: by themselves, or by a binding.
        self.changed = {each.name for each in given.policies} | {each.policy_name for each in given.bindings}
        self._sets: dict[tuple[int, ...], CompiledSet] = {}

    def concern(self, target: Target) -> bool:
        """Whether a policy that the folder changes may be for requests with a target."""
        if self._of(()).candidates(target):
            return True
        return any(each.entry.policy.policy.name in self.changed for each in self._recorded.candidates(target))

    def given(self, met: Met, request: AdmissionRequest) -> Answer | None:
        """The refusal of a policy that the folder changes, or what such a one does not know."""
        return _denial(request, self._verdicts(met, request))

    def every(self, met: Met, request: AdmissionRequest) -> Answer | None:
        """The same of all policies. The server defines no order between them; those in force come first here."""
        in_force = [each for each in met.in_force(request) if each.policy not in self.changed]
        return _denial(request, [*in_force, *self._verdicts(met, request)])

    def _verdicts(self, met: Met, request: AdmissionRequest) -> Sequence[PolicyVerdict]:
        if not self.changed:
            return ()
        return evaluate_request(self._of(self._met_by(request)), request, met.world, met.authorize)

    def _of(self, in_force: Sequence[CompiledSet]) -> CompiledSet:
        """The policies that the folder changes, with the policies and bindings in force that they keep."""
        entries = [entry for each in in_force for entry in each.entries if entry.policy.policy.name in self.changed]
        key = tuple(sorted({id(entry) for entry in entries}))
        found = self._sets.get(key)
        if found is None:
            policies = {entry.policy.policy.name: entry.policy.policy for entry in entries}
            bound = [each.subject.binding for entry in entries for each in entry.bound]
            found = self._sets[key] = compile_set(self._laid_over(policies, [each for each in bound if each]), self._version)
        return found

    def _laid_over(self, policies: dict[str, Policy], bindings: Sequence[Binding]) -> PolicySet:
        own = {each.name for each in self._given.bindings}
        kept = {each.name: each for each in bindings if each.name not in own}
        named = {each.name for each in self._given.policies}
        left = tuple(policy for name, policy in policies.items() if name not in named)
        return PolicySet((*self._given.policies, *left), (*self._given.bindings, *kept.values()), self._given.objects)


def _denial(request: AdmissionRequest, verdicts: Sequence[PolicyVerdict]) -> Answer | None:
    """The first refusal of validating policies, or what they do not know. A given policy that nothing binds counts as bound."""
    for each in verdicts:
        refuses = each.rejects or (each.binding is None and each.effect is Decision.DENY)
        if refuses and not each.is_summary:
            return Answer(
                "deny",
                each.code or code_of(each.reason or ""),
                denial_message(request, each),
                f"{VALIDATING}:{each.policy}",
                reason=each.reason,
                grade=each.evidence if each.evidence in set(Grade) else Grade.PARTIAL,
            )
    for each in verdicts:
        may_refuse = Action.DENY in each.actions or each.binding is None
        if each.decision is Decision.UNKNOWN and may_refuse and not each.is_summary:
            return unknown(f"{VALIDATING}:{each.policy}", each.why)
    return None
