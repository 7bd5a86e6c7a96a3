"""One policy and binding, asked about requests that nobody sent: assumed ones, and recorded ones with something changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from queries import LakeReader

from ..admission.policies import CompiledPolicy, CompiledSet, Decision, PolicySet, compile_set, evaluate_request
from ..authorization import RecordedRbac
from ..history.world import LogHistory
from ..matching import Target
from ..replay import ReplayPlan
from ..replay.past import load_history, param_kinds_of
from ..replay.worlds import Worlds
from ..request import AdmissionRequest, GroupVersionResource


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one (policy, binding) makes of a request: deny, unknown or admit; `text` is the message or the missing evidence.

    `is_enforced`: the denial would reach the client: the actions hold Deny, or it bypasses them, or there is no binding.
    `is_excused`: it is admitted only because an expression fails and failurePolicy is Ignore.
    """

    outcome: str
    text: str = ""
    evidence: str = "exact"
    is_enforced: bool = False
    is_excused: bool = False


class Judges:
    """The policies of a plan, and the cluster's past as they look it up. Loading the past takes a second or so."""

    def __init__(self, reader: LakeReader, plan: ReplayPlan) -> None:
        """Raises ValueError for a plan without policies of its own: what was in force differs from request to request."""
        if plan.policies is None:
            raise ValueError("a replay of recorded policies has no one policy to ask")
        self._policies: PolicySet = plan.policies
        self._version = plan.kubernetes_version
        self.history: LogHistory = load_history(reader, param_kinds_of(plan.policies), plan.window)
        self._worlds = Worlds(self.history)
        self._rbac = RecordedRbac(self.history, dict(plan.other_authorizers))

    @property
    def rbac(self) -> RecordedRbac:
        """The roles and bindings of the clusters at any moment."""
        return self._rbac

    def judge_of(self, policy: str, binding: str | None) -> Judge | None:
        """The one for a policy and binding; None where the plan has no such pair."""
        found = next((entry for entry in self._policies.policies if entry.name == policy), None)
        bound = [entry for entry in self._policies.bindings if entry.policy_name == policy and entry.name == binding]
        if found is None or (binding is not None and not bound):
            return None
        alone = PolicySet((found,), tuple(bound[:1]), self._policies.objects)
        return Judge(compile_set(alone, self._version), self._worlds, self._rbac)


class Judge:
    """One policy with one binding, or with none."""

    def __init__(self, compiled: CompiledSet, worlds: Worlds, rbac: RecordedRbac) -> None:
        self._compiled = compiled
        self._worlds = worlds
        self._rbac = rbac

    @property
    def policy(self) -> CompiledPolicy:
        """The policy, compiled."""
        return self._compiled.policies[0]

    @property
    def reads_user(self) -> bool:
        """Whether the answer can depend on who asks."""
        request = self.policy.reads.of("request")
        return self.policy.reads_authorizer or request.whole or "userInfo" in request.fields

    def concerns(self, operation: str, resource: GroupVersionResource, is_namespaced: bool) -> bool:
        """Whether the policy's rules are for such requests."""
        return bool(self._compiled.candidates(Target(operation, resource, "", is_namespaced)))

    def judge(self, request: AdmissionRequest, moment: datetime | None = None) -> Judgement | None:
        """What it makes of a request in the world of that moment (default: the request's own); None where it does not match."""
        world = self._worlds.at(request.cluster, moment or request.ts)
        authorize = partial(self._rbac.authorize, request.cluster, moment or request.ts)
        rows = [row for row in evaluate_request(self._compiled, request, world, authorize) if row.decision is not Decision.NOMATCH]
        if not rows:
            return None
        denied = [row for row in rows if row.effect is Decision.DENY]
        if denied:
            said = next((row for row in denied if row.message), denied[0])
            is_enforced = any(row.rejects or row.binding is None for row in denied)
            return Judgement("deny", said.message or "", str(said.evidence), is_enforced)
        unknown = [row for row in rows if row.decision is Decision.UNKNOWN]
        if unknown:
            said = next((row for row in unknown if row.why), unknown[0])
            return Judgement("unknown", said.why, str(said.evidence))
        is_excused = any(row.decision is Decision.ERROR for row in rows)
        return Judgement("admit", evidence=str(rows[0].evidence), is_excused=is_excused)
