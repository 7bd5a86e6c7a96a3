"""Every stage: one row each."""

from __future__ import annotations

from typing import Any

from .authorization.stage import Authorization
from .chain.stage import ChainStage
from .conditions.stage import Conditions
from .mutating.stage import Mutating
from .pod_security.stage import PodSecurity
from .schema.stage import Schemas
from .stage import Stage
from .validating.stage import Validating
from .webhooks.stage import Webhooks

VALIDATING = Validating()
AUTHORIZATION = Authorization()
MUTATING = Mutating()
WEBHOOKS = Webhooks()
SCHEMA = Schemas()
CONDITIONS = Conditions()
POD_SECURITY = PodSecurity()

DEFAULT = VALIDATING
STAGES: tuple[Stage[Any, Any], ...] = (VALIDATING, AUTHORIZATION, MUTATING, WEBHOOKS, SCHEMA, CONDITIONS, POD_SECURITY)
# As a request meets them: kubernetes/apiserver pkg/endpoints/handlers/create.go, and plugins/names.go for admission.
IN_ORDER = (AUTHORIZATION, CONDITIONS, MUTATING, SCHEMA, POD_SECURITY, VALIDATING, WEBHOOKS)


# It judges by the manifests of other stages, so that no manifest is given to it alone.
CHAIN = ChainStage()


def stage_of(name: str, stages: tuple[Stage[Any, Any], ...] = (*STAGES, CHAIN)) -> Stage[Any, Any]:
    """The stage of this name. Raises KeyError."""
    return {stage.name: stage for stage in stages}[name]
