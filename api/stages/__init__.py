"""Commands, tables and pages that one stage has for itself, by stage."""

from __future__ import annotations

from collections.abc import Mapping

# The commands among them, and their modules.
OF_STAGES: Mapping[str, str] = {
    "webhooks": "stages.webhooks.command",
    "schema": "stages.schema.command",
    "least-privilege": "stages.authorization.least_privilege",
    "stack": "stages.authorization.stack",
    "pod-security": "stages.pod_security.command",
    "policy": "stages.validating.command",
}
