"""The rules of a run, whatever gave them: as kept next to it, or else from its plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ingest.errors import EvidenceError
from pipeline.policies.model import PolicySet
from pipeline.stages.stage import Stage
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.plan import AS_RECORDED

from ..beside_runs import kept_manifests, kept_rules
from ..pages.manifest import binding_manifest, policy_manifest
from ..stored_runs import run_plan


def policies_of_run(lake: Path, run_id: str) -> PolicySet | None:
    """The policies of a run with its bindings and objects; None if it used the policies in force. Raises NotFoundError."""
    kept = kept_manifests(lake, run_id)
    if kept is not None:
        return parse_policy_set([("policies", kept)])
    given = run_plan(lake, run_id).get("policies", "")
    if isinstance(given, str):
        return None
    items = [*map(policy_manifest, given["policies"]), *map(binding_manifest, given["bindings"]), *given["objects"]]
    return parse_policy_set([(f"run {run_id}", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))])


def rules_of_run(lake: Path, run_id: str, stage: Stage[Any, Any]) -> Any:
    """The rules of a run of a stage; None if it used those in force.

    Raises NotFoundError, and EvidenceError where they are not kept.
    """
    kept = kept_rules(lake, run_id, stage)
    if kept is not None:
        return kept
    plan = run_plan(lake, run_id)
    if "policies" in plan:
        return policies_of_run(lake, run_id)
    if plan.get("manifests") == AS_RECORDED:
        return None
    raise EvidenceError(f"the {stage.readiness.words.things} of run {run_id} are not kept", "send them with POST")
