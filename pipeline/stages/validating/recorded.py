"""Policies from the log itself: those that were bound at the time of each request, or as of one moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ingest.errors import EvidenceError
from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...cel.minors import DEFAULT
from ...history.in_force import CHANGE_DELAY, PolicyTimeline
from ...policies.model import Binding, Policy, PolicySet
from ...requests.past import load_history
from ...runs.window import Window
from .plan import ReplayPlan
from .planning import make_plan
from .policies import RecordedPolicies, recorded_policy_set


def plan_replay_from_log(
    reader: LakeReader,
    window: Window | None = None,
    kubernetes_version: tuple[int, int] = DEFAULT,
    change_delay: timedelta = CHANGE_DELAY,
    other_authorizers: OtherAuthorizers | None = None,
) -> ReplayPlan:
    """Plan the replay of the policies that the log and snapshots show in force at the time of each request.

    `change_delay` is the time after its write in which a policy may not be in force yet; requests in it are tried both ways.
    Requests from before the first snapshot meet only policies whose writes are in the log.
    """
    window = window or Window()
    considered = recorded_policy_set(load_history(reader, (), window))
    plan = make_plan(reader, None, considered, window, kubernetes_version, other_authorizers=other_authorizers)
    return replace(plan, change_delay=change_delay)


def policies_as_of(reader: LakeReader, cluster: str, moment: datetime) -> PolicySet:
    """The settled policies and bindings that a cluster had in force at `moment`, from its log and snapshots.

    Raises EvidenceError if these hold no policies.
    """
    history = load_history(reader, (), Window())
    timeline, recorded = PolicyTimeline(history, cluster), RecordedPolicies(history, DEFAULT)
    policies = [found for each in timeline.policies_at(moment) if isinstance(found := recorded.read(each.object), Policy)]
    bindings = [found for each in timeline.bindings_at(moment) if isinstance(found := recorded.read(each.object), Binding)]
    if not policies and recorded.unreadable:
        names = "; ".join(f"{name}: {why}" for name, why in recorded.unreadable)
        raise EvidenceError(f"no policy of cluster {cluster!r} at {moment.isoformat()} can be read: {names}")
    if not policies:
        raise _none_at(timeline, cluster, moment)
    return PolicySet(tuple(policies), tuple(bindings), unreadable=recorded.unreadable)


def _none_at(timeline: PolicyTimeline, cluster: str, moment: datetime) -> EvidenceError:
    settling = timeline.settling(moment)
    if settling is not None:
        return EvidenceError(
            f"no policy was in force for certain in cluster {cluster!r} at {moment.isoformat()}: a change was in flight, "
            f"which a server may take {CHANGE_DELAY.total_seconds():g} s to enforce",
            f"give {settling.isoformat()} or a later time",
        )
    return EvidenceError(
        f"neither log nor snapshots tell of a policy in cluster {cluster!r} at {moment.isoformat()}",
        "give a later time, or ingest a snapshot of validatingadmissionpolicies and their bindings",
    )
