"""Makes plans: it counts requests by class, and matches policies with classes, before any body is read."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...cel.minors import DEFAULT
from ...policies.dispatch import CompiledSet, compile_set
from ...policies.due import Entry
from ...policies.model import PolicySet
from ...requests.authorizers import other_authorizers as recorded_authorizers
from ...requests.classes import RequestClass
from ...requests.kept.facts import facts_of
from ...requests.kept.whole import classes_of
from ...requests.lanes import LaneName, lane_name, reads_version
from ...runs.executors import PART_EVENTS
from ...runs.plan import PlannedRule
from ...runs.window import Window, lake_digest
from .plan import ReplayPlan

# The lane name of requests that no policy can judge.
_NO_LANE = LaneName("", "", "", "", "", "")


def plan_replay(
    reader: LakeReader,
    policy_set: PolicySet,
    window: Window | None = None,
    kubernetes_version: tuple[int, int] = DEFAULT,
    *,
    part_events: int = PART_EVENTS,
    other_authorizers: OtherAuthorizers | None = None,
) -> ReplayPlan:
    """Plan the replay of given policies over the lake's present content.

    Requests are chosen by resource, operation and time before any body is read. A policy without a binding is tried without one.
    `part_events` is how many events a worker reads at a time. `other_authorizers` are the clusters'
    authorizers other than RBAC, for policies that ask an authorizer; without it they follow from the log.
    """
    policy_set = policy_set.without_secrets()
    return make_plan(reader, policy_set, policy_set, window or Window(), kubernetes_version, part_events, other_authorizers)


def make_plan(
    reader: LakeReader,
    policies: PolicySet | None,
    considered: PolicySet,
    window: Window,
    kubernetes_version: tuple[int, int],
    part_events: int = PART_EVENTS,
    other_authorizers: OtherAuthorizers | None = None,
) -> ReplayPlan:
    """A plan for `policies`, with the requests that concern any of `considered`."""
    compiled = compile_set(considered, kubernetes_version)
    recorded = _classes(reader, window)
    concerned, others = _split(recorded, compiled)
    reads_authorizer = any(policy.reads_authorizer for policy in compiled.policies)
    return ReplayPlan(
        kubernetes_version=kubernetes_version,
        window=window,
        policies=policies,
        lake_digest=lake_digest(reader, window),
        classes=concerned,
        excluded=others,
        bindings=tuple(_bindings(compiled, considered, concerned)),
        requests=_requests(recorded, concerned),
        other_authorizers=recorded_authorizers(reader, window, other_authorizers) if reads_authorizer else (),
        part_events=part_events,
        files=reader.files,
        unreadable=considered.unreadable,
    )


class _Recorded(NamedTuple):
    """A class of recorded requests, whether policies ran for them and why, and whether their final stage was recorded."""

    item: RequestClass
    ran: str
    why: str
    is_final: bool


def _classes(reader: LakeReader, window: Window) -> list[_Recorded]:
    """Every class of recorded requests."""
    if window == Window():
        counted = facts_of(reader).classes
        rows = classes_of(reader) if counted is None else counted
    else:
        rows = reader.rows("FROM admission_classes($since, $until)", window.parameters)
    names = [field.name for field in dataclasses.fields(RequestClass) if field.name != "reads_old_object"]
    found: list[_Recorded] = []
    for row in rows:
        parts: dict[str, Any] = {name: "" if row[name] is None else row[name] for name in names}
        found.append(_Recorded(RequestClass(**parts), row["ran"], row["ran_reason"], row["is_final"]))
    return found


def _split(classes: Iterable[_Recorded], compiled: CompiledSet) -> tuple[tuple[RequestClass, ...], tuple[tuple[str, int], ...]]:
    """The classes that some policy concerns, and the reasons for leaving out the others.

    Requests are chosen by resource and verb: if some policy concerns a resource and verb, the run reads all their requests and
    gives the outcome of each.
    """
    concerned: Counter[RequestClass] = Counter()
    others: list[tuple[LaneName, int, str]] = []
    for item, ran, why, is_final in classes:
        if not is_final:
            others.append((_NO_LANE, item.requests, f"whether policies ran is not recorded: {why}"))
            continue
        if not item.api_version:
            # A server writes objectRef; without it no rule can be matched.
            others.append((_NO_LANE, item.requests, "whether policies ran is not recorded: objectRef does not say which version"))
            continue
        entries = [entry for target in item.targets() for entry, _ in compiled.candidates(target)] if ran != "no" else []
        if entries:
            reads = any(_reads_old_object(entry) for entry in entries)
            concerned[dataclasses.replace(item, requests=0, reads_old_object=reads)] += item.requests
        else:
            why = f"policies did not run: {why}" if ran == "no" else "no policy is for this resource and operation"
            others.append((lane_name(item), item.requests, why))
    planned = tuple(sorted(dataclasses.replace(item, requests=count) for item, count in concerned.items()))
    lanes = set(map(lane_name, planned))
    excluded: Counter[str] = Counter()
    for lane, requests, why in others:
        if lane not in lanes:
            excluded[why] += requests
    return planned, tuple(sorted(excluded.items(), key=lambda entry: (-entry[1], entry[0])))


def _reads_old_object(entry: Entry) -> bool:
    """Whether a policy or one of its bindings reads oldObject, in an expression or with an objectSelector.

    The resourceVersion of an updated object is that of the old one.
    """
    matchers = [entry.matcher, *(bound.matcher for bound in entry.bound)]
    selectors = [matcher.criteria.object_selector for matcher in matchers if matcher]
    reads = entry.policy.reads
    is_read = "oldObject" in reads.roots or reads_version(reads.of("object"))
    return is_read or any(selector and selector.requirements for selector in selectors)


def _bindings(compiled: CompiledSet, policies: PolicySet, classes: Iterable[RequestClass]) -> Iterator[PlannedRule]:
    requests: Counter[str] = Counter()
    for item in classes:
        names = {entry.policy.policy.name for target in item.targets() for entry, _ in compiled.candidates(target)}
        requests.update(dict.fromkeys(names, item.requests))
    actions: dict[tuple[str, str | None], tuple[str, ...]] = {}
    for policy in policies.policies:
        for binding in policies.bindings_of(policy):
            actions[policy.name, binding.name] = tuple(map(str, binding.validation_actions))
        if not policies.bindings_of(policy):
            actions[policy.name, None] = ()
    for (name, bound), chosen in actions.items():
        yield PlannedRule(name, bound, chosen, requests[name])


def _requests(recorded: Iterable[_Recorded], concerned: Iterable[RequestClass]) -> int:
    """How many requests a run reads: all finished ones of a resource and verb that some policy concerns."""
    lanes = set(map(lane_name, concerned))
    return sum(each.item.requests for each in recorded if each.is_final and lane_name(each.item) in lanes)
