"""One policy and binding, evaluated on requests that were not sent: assumed ones, and recorded ones with a change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property, partial

from queries import LakeReader

from ...authorization import RecordedRbac
from ...history.world import LogHistory
from ...matching import Target
from ...policies.compile import CompiledPolicy
from ...policies.dispatch import CompiledSet, compile_set, evaluate_request
from ...policies.model import PolicySet
from ...policies.verdict import Decision
from ...request import AdmissionRequest, GroupVersionResource
from ...requests.past import load_history
from ...requests.worlds import Worlds
from ..judging import Judgement
from .nearest import Differences
from .plan import ReplayPlan, mutating_among


class Judges:
    """The policies of a plan, with the recorded past of the cluster. Loading the past takes about a second."""

    def __init__(self, reader: LakeReader, plan: ReplayPlan) -> None:
        """Raises ValueError for a plan without policies of its own: there the policies in force differ from request to request."""
        if plan.policies is None:
            raise ValueError("a replay of recorded policies has no one policy to ask")
        self._policies: PolicySet = plan.policies
        self._version = plan.kubernetes_version
        self._history = load_history(reader, plan.policies.param_kinds, plan.window)
        self._worlds = Worlds(self._history)
        self._rbac = RecordedRbac(self._history, dict(plan.other_authorizers))
        self._is_changed = _changed_first(plan.policies, plan.kubernetes_version)

    @property
    def history(self) -> LogHistory:
        """See judging.Judges."""
        return self._history

    @property
    def rbac(self) -> RecordedRbac:
        """The roles and bindings of the clusters at any moment."""
        return self._rbac

    def judge_of(self, policy: str, binding: str | None) -> Judge | None:
        """The judge of a policy and binding; None if the plan does not have this pair."""
        found = next((entry for entry in self._policies.policies if entry.name == policy), None)
        bound = [entry for entry in self._policies.bindings if entry.policy_name == policy and entry.name == binding]
        if found is None or (binding is not None and not bound):
            return None
        alone = PolicySet((found,), tuple(bound[:1]), self._policies.objects)
        return Judge(compile_set(alone, self._version), self._worlds, self._rbac, self._is_changed)


def _changed_first(policies: PolicySet, version: tuple[int, int]) -> Callable[[Target], bool]:
    """Whether a mutating policy that was given with some policies may be for a target."""
    documents = mutating_among(policies)
    if not documents:
        return lambda target: False
    # Imported late: mutation is heavy, and most folders have none.
    from ..first import concerned_by

    return concerned_by(documents, version)


class Judge:
    """See judging.Judge: one policy with one binding, or with none."""

    def __init__(
        self, compiled: CompiledSet, worlds: Worlds, rbac: RecordedRbac, is_changed: Callable[[Target], bool] = lambda target: False
    ) -> None:
        """`is_changed`: whether mutating policies given with the policy may change a request first."""
        self._is_changed = is_changed
        self._compiled = compiled
        self._worlds = worlds
        self._rbac = rbac

    @property
    def policy(self) -> CompiledPolicy:
        """The policy, compiled."""
        return self._compiled.policies[0]

    @property
    def reads_user(self) -> bool:
        """Whether the judgement can depend on the user."""
        request = self.policy.reads.of("request")
        return self.policy.reads_authorizer or request.whole or "userInfo" in request.fields

    def concerns(self, operation: str, resource: GroupVersionResource, is_namespaced: bool) -> bool:
        """Whether the policy's rules match such requests."""
        return bool(self._compiled.candidates(Target(operation, resource, "", is_namespaced)))

    @cached_property
    def _differences(self) -> Differences:
        return Differences(self)

    def smallest_change(self, request: AdmissionRequest) -> str:
        """See judging.Judge."""
        return self._differences.smallest(request)

    def judge(self, request: AdmissionRequest, moment: datetime | None = None) -> Judgement | None:
        """Judge a request in the world of `moment` (default: the request's own time); None if the policy does not match it."""
        world = self._worlds.at(request.cluster, moment or request.ts)
        authorize = partial(self._rbac.authorize, request.cluster, moment or request.ts)
        rows = [row for row in evaluate_request(self._compiled, request, world, authorize) if row.decision is not Decision.NOMATCH]
        if not rows:
            return None
        if self._is_changed(Target.of(request)):
            return Judgement("unknown", "mutating policies of the same folder may change the object first", "insufficient")
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
