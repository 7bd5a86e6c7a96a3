"""The replay of what was bound at the time: how far predictions of this tool can be trusted on this cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from queries import LakeReader

from ..authorization import OtherAuthorizers
from ..history.in_force import CHANGE_DELAY
from .past import load_history
from .plan import ReplayPlan, Window, make_plan
from .policies import recorded_policy_set


def plan_replay_from_log(
    reader: LakeReader,
    window: Window | None = None,
    kubernetes_version: tuple[int, int] = (1, 36),
    change_delay: timedelta = CHANGE_DELAY,
    other_authorizers: OtherAuthorizers | None = None,
) -> ReplayPlan:
    """Plan the replay of the policies that the log and snapshots show in force at the time of each request.

    `change_delay` is how long after its write a policy may not be in force yet; requests in between are tried both ways.
    Requests from before the first snapshot meet only policies whose writes are in the log.
    """
    window = window or Window()
    considered = recorded_policy_set(load_history(reader, (), window))
    plan = make_plan(reader, None, considered, window, kubernetes_version, other_authorizers=other_authorizers)
    return replace(plan, change_delay=change_delay)
