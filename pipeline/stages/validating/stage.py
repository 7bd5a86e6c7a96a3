"""Validating admission as a stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from queries import LakeReader

from ...given import is_namespace
from ...manifests.documents import Document
from ...policies.model import PolicySet, look_at_namespaces
from ...policies.verdict import STAGE
from ...runs import RunKind, RunSummary
from ...runs.executors import Executor
from ...runs.running import Progress
from ..stage import Asked, Kind
from .decode import BINDING, GROUP, POLICY
from .execute import run_replay
from .load import policy_set_of
from .plan import ReplayPlan
from .planning import plan_replay
from .readiness import PolicyReadiness


class Validating:
    """See stage.Stage. Other manifests are params of a policy that takes their kind, and Namespaces stand in for recorded ones."""

    name = STAGE
    kinds = frozenset({Kind(GROUP, POLICY), Kind(GROUP, BINDING)})
    readiness = PolicyReadiness()

    def read(self, documents: Sequence[Document]) -> PolicySet:
        """See stage.Stage."""
        return policy_set_of(documents)

    def uses(self, rules: PolicySet, document: Document) -> bool:
        """See stage.Stage."""
        if is_namespace(document) and look_at_namespaces(rules.policies, rules.bindings):
            return True
        own = (document.value.get("apiVersion"), document.value.get("kind"))
        return any(own == (each.param_kind.api_version, each.param_kind.kind) for each in rules.policies if each.param_kind)

    def plan(self, reader: LakeReader, rules: PolicySet, asked: Asked) -> ReplayPlan:
        """See stage.Stage."""
        return plan_replay(reader, rules, asked.window, asked.kubernetes_version, other_authorizers=asked.other_authorizers)

    def run(
        self,
        plan: ReplayPlan,
        lake: Path,
        workers: int = 1,
        progress: Progress | None = None,
        kind: RunKind = RunKind.REPLAY,
        executor: Executor | None = None,
    ) -> RunSummary:
        """See stage.Stage."""
        return run_replay(plan, lake, workers, progress, kind, executor)
