"""What breaks while the servers of webhooks are down: refused requests, unchecked requests, and requests that wait.

With failurePolicy Fail a request is refused with code 500, with Ignore it passes unchecked. A server that refuses connections
fails at once. One that hangs makes each call wait for its timeoutSeconds: mutating webhooks one after the other, validating ones at
the same time (kubernetes/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from queries import LakeReader

from ...policies.model import FailurePolicy
from ..over_time import slot_width
from .load import seconds_between
from .model import Configuration, Phase, Place, Webhook
from .sql import statement

# The deadline of create, update, patch and delete (kubernetes/apiserver pkg/endpoints/handlers/rest.go).
DEADLINE_SECONDS = 34
_CONTROLLERS = frozenset({"system:kube-controller-manager", "system:kube-scheduler", "system:cloud-controller-manager"})
HookKey = tuple[str, str, str]  # phase, configuration, webhook


class Down(NamedTuple):
    """One webhook whose server is down. Requests count under each webhook that they call.

    `refused` would be refused because of it, `unchecked` would pass without it. `already` were refused in the record, and `unknown`
    may have called it. `waited_seconds` is what its calls alone would add if the server hangs.
    """

    configuration: str
    webhook: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    refused: int
    unchecked: int
    already: int
    unknown: int
    waited_seconds: int


class Hit(NamedTuple):
    """Requests of one cause that would be refused, or pass unchecked. `system` names the part of the cluster, if it is one."""

    resource: str
    user: str
    namespace: str
    system: str
    refused: int
    unchecked: int
    example: str


class Waiting(NamedTuple):
    """Requests whose answer a hanging server delays by so many seconds, and how they end: `refused`, `passes` or `timeout`."""

    seconds: int
    ends: str
    requests: int


class Span(NamedTuple):
    """The requests in one span of an outage. `waiting` would wait for a server that hangs, however they end."""

    start: datetime
    refused: int
    unchecked: int
    waiting: int


class Outage(NamedTuple):
    """An outage over recorded requests. `refused` and `unchecked` count each request once.

    `spans` hold the counts over time, each over `span_seconds`; spans without a request are left out.
    """

    webhooks: tuple[Down, ...]
    hits: tuple[Hit, ...]
    waiting: tuple[Waiting, ...]
    refused: int
    unchecked: int
    already: int
    spans: tuple[Span, ...]
    span_seconds: int


class _Hook(NamedTuple):
    place: Place
    phase: Phase
    webhook: Webhook


def outage(
    reader: LakeReader, verdicts: Path, rules: Sequence[Configuration], since: datetime, until: datetime, only: Collection[str] = ()
) -> Outage:
    """The effect of an outage of the webhooks in `rules` from `since` until `until`; `only` names those that are down.

    The table `webhooks_calls` must be in the connection; load.loads makes it.
    """
    hooks = {
        (str(each.phase), each.name, hook.name): _Hook(Place(each.name, position), each.phase, hook)
        for each in rules
        for position, hook in enumerate(each.webhooks)
        if not only or hook.name in only
    }
    parameters = {"down_from": since, "down_to": until}
    width = slot_width(seconds_between(since, until))
    effects = _Effects(hooks, width)
    found = reader.connection.execute(statement("outage"), {**parameters, "width": width}).fetchall()
    for called, _cluster, slot, *cause, requests, example in found:
        effects.add(called, slot, cause, requests, example)
    told = {"verdicts": str(verdicts), **parameters}
    for configuration, name, requests in reader.connection.execute(statement("outage_unknown"), told).fetchall():
        effects.unknown[configuration, name] = requests
    return effects.outage()


def whole_outage(reader: LakeReader, verdicts: Path, rules: Sequence[Configuration]) -> Outage | None:
    """The effect of an outage of all webhooks in `rules` from the first call to the last one; None without a call.

    The table `webhooks_calls` must be in the connection; load.loads makes it.
    """
    ((first, last),) = reader.connection.execute("SELECT min(ts), max(ts) FROM webhooks_calls").fetchall()
    return outage(reader, verdicts, rules, first, last + timedelta(microseconds=1)) if first is not None and rules else None


class _Effects:
    """Counts the effects of an outage."""

    def __init__(self, hooks: Mapping[HookKey, _Hook], span_seconds: int) -> None:
        self._hooks = hooks
        self._span_seconds = span_seconds
        self._spans: defaultdict[datetime, Counter[str]] = defaultdict(Counter)
        self._counts: dict[HookKey, Counter[str]] = {key: Counter() for key in hooks}
        self._hits: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self._examples: dict[tuple[str, str, str], str] = {}
        self._waiting: Counter[tuple[int, str]] = Counter()
        self._totals: Counter[str] = Counter()
        self.unknown: dict[tuple[str, str], int] = {}

    def add(self, called: Iterable[Mapping[str, Any]], slot: datetime, cause: Sequence[Any], requests: int, example: str) -> None:
        """Count requests of a slot with the same calls and cause (resource, user, namespace, whether refused in the record)."""
        calls = {(each["phase"], each["configuration"], each["webhook"]): each["calls"] for each in called}
        keys = sorted(calls.keys() & self._hooks.keys(), key=lambda key: (self._hooks[key].phase, self._hooks[key].place))
        if not keys:
            return
        resource, user, namespace, is_refused = cause
        stopped_by = self._stopped_by(keys)
        for key in keys:
            hook, counts = self._hooks[key], self._counts[key]
            counts["waited"] += hook.webhook.timeout_seconds * calls[key] * requests
            fails = hook.webhook.failure_policy is FailurePolicy.FAIL
            counts["already" if is_refused else "refused" if fails else "unchecked"] += requests
        outcome = "already" if is_refused else "refused" if stopped_by else "unchecked"
        self._totals[outcome] += requests
        self._spans[slot].update({outcome: requests, "waiting": requests})
        seconds = self._seconds(keys, calls)
        ends = "timeout" if seconds >= DEADLINE_SECONDS else "refused" if stopped_by or is_refused else "passes"
        self._waiting[seconds, ends] += requests
        if not is_refused:
            place = (resource, user, namespace)
            self._hits[place][outcome] += requests
            self._examples.setdefault(place, example)

    def _stopped_by(self, keys: Iterable[HookKey]) -> HookKey | None:
        return next((key for key in keys if self._hooks[key].webhook.failure_policy is FailurePolicy.FAIL), None)

    def _seconds(self, keys: Sequence[HookKey], calls: Mapping[HookKey, int]) -> int:
        """How long a request waits for hanging servers: until the first webhook with Fail gives up, or for all calls."""
        seconds = 0
        for key in keys:
            webhook = self._hooks[key].webhook
            if self._hooks[key].phase is Phase.MUTATING:
                if webhook.failure_policy is FailurePolicy.FAIL:
                    return seconds + webhook.timeout_seconds
                seconds += webhook.timeout_seconds * calls[key]
        validating = [key for key in keys if self._hooks[key].phase is Phase.VALIDATING]
        # They are called at the same time, and the server waits for the slowest. A refusal ends a deletecollection at once.
        once = self._stopped_by(validating) is not None
        waits = (self._hooks[key].webhook.timeout_seconds * (1 if once else calls[key]) for key in validating)
        return seconds + max(waits, default=0)

    def outage(self) -> Outage:
        """All that was counted."""
        found = []
        for key, hook in self._hooks.items():
            counts, webhook = self._counts[key], hook.webhook
            figures = (counts["refused"], counts["unchecked"], counts["already"], self.unknown.get(key[1:], 0), counts["waited"])
            found.append(Down(*key[1:], key[0], str(webhook.failure_policy), webhook.timeout_seconds, *figures))
        hits = [
            Hit(*place, _system(*place), counts["refused"], counts["unchecked"], self._examples[place])
            for place, counts in self._hits.items()
        ]
        hits.sort(key=lambda hit: (not hit.refused, not hit.system, -hit.refused, -hit.unchecked, hit))
        waiting = tuple(Waiting(*key, count) for key, count in sorted(self._waiting.items(), reverse=True))
        spans = (Span(start, each["refused"], each["unchecked"], each["waiting"]) for start, each in sorted(self._spans.items()))
        refused, unchecked, already = (self._totals[outcome] for outcome in ("refused", "unchecked", "already"))
        return Outage(tuple(found), tuple(hits), waiting, refused, unchecked, already, tuple(spans), self._span_seconds)


def _system(resource: str, user: str, namespace: str) -> str:
    """Which part of the cluster itself a request belongs to; empty for other requests."""
    if user.startswith("system:node:"):
        return "nodes"
    if resource == "leases.coordination.k8s.io":
        return "leases"
    if user in _CONTROLLERS or user.startswith("system:serviceaccount:kube-system:"):
        return "controllers"
    return "kube-system" if namespace == "kube-system" else ""
