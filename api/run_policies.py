"""The policies of a run of any source: as kept next to it, or else from its plan."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.admission.policies import PolicySet, parse_policy_set

from .beside_runs import kept_policies
from .pages.manifest import binding_manifest, policy_manifest
from .stored_runs import run_plan


def policies_of_run(lake: Path, run_id: str) -> PolicySet | None:
    """The policies of a run with its bindings and objects; None if it used the policies in force. Raises NotFoundError."""
    kept = kept_policies(lake, run_id)
    if kept is not None:
        return kept
    given = run_plan(lake, run_id).get("policies", "")
    if isinstance(given, str):
        return None
    items = [*map(policy_manifest, given["policies"]), *map(binding_manifest, given["bindings"]), *given["objects"]]
    return parse_policy_set([(f"run {run_id}", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))])
