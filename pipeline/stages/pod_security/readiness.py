"""What readiness needs to know of Pod Security."""

from __future__ import annotations

from ..grouped import GroupedPlan
from ..readiness import StageReadiness, StageWords
from .given import Given


class PodSecurityReadiness(StageReadiness[Given, GroupedPlan[Given]]):
    """See StageReadiness."""

    words = StageWords("labels", "Pod Security readiness", "Namespace, PodSecurityConfiguration")
