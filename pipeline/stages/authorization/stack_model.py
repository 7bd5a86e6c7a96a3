"""Which rights a stack gets, and where a request of a stack went."""

from __future__ import annotations

from enum import StrEnum


class StackModel(StrEnum):
    """Which rights a stack gets."""

    STACK_2019 = "stack-2019"
    STACK_2019_FIGURE = "stack-2019-figure"
    STACK_2020 = "stack-2020"
    CROSSPLANE_1 = "crossplane-1"


class Place(StrEnum):
    """Where a request of a stack went."""

    INSIDE = "inside"
    BREACH = "breach"  # outside of the stack's namespace, and allowed
    ATTEMPT = "attempt"  # outside, and forbidden
    EXEMPT = "exempt"  # discovery, health, and reviews about itself
    CLUSTER_STACK = "cluster-stack"  # a stack of the whole cluster has no outside
    UNKNOWN = "unknown"  # the log shows no question, or no answer to it
