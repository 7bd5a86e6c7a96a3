"""Pod Security and the recorded validating policies, over an object that mutating policies changed.

Both saw the recorded object, and say something of the mutation only where they object to the changed one and not to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from ...policies.messages import denial_tail
from ...policies.model import Action
from ...policies.verdict import Decision, PolicyVerdict
from ...request import AdmissionRequest, Known, Object, Operation, Unknown
from ...world import World
from ..pod_security.checks.pod import Pod
from ..pod_security.checks.table import Level, failed_checks
from ..pod_security.created import as_met
from ..pod_security.policy import DEFAULT, Mode, own_labels, resolve
from ..pod_security.reading import pod_of
from ..pod_security.significance import is_significant
from .taken import Doubt

# The verdicts of the validating policies that were in force, on one request.
InForce: TypeAlias = Callable[[AdmissionRequest], Sequence[PolicyVerdict]]


def of_pod_security(request: AdmissionRequest, before: Object, after: Object, world: World, minor: int) -> Iterator[Doubt]:
    """What the level of its namespace makes of a changed Pod, with the defaults of a server without a configuration."""
    if (request.resource.group, request.resource.resource, request.subresource) != ("", "pods", ""):
        return
    was_judged = True
    if request.operation is Operation.UPDATE and isinstance(request.old_object, Known) and request.old_object.value is not None:
        old = request.old_object.value
        if not is_significant(after, old):
            return
        was_judged = is_significant(before, old)
    is_create = request.operation is Operation.CREATE
    pods = [_read_text(each, minor, is_create) for each in (before, after)]

    def added(level: Level, rules: int) -> Sequence[str]:
        """What the changed Pod fails at a level that the other one passes."""
        was, now = (_failures(pod, level, rules) for pod in pods)
        return () if was and was_judged else now

    if not any(added(level, minor) for level in (Level.BASELINE, Level.RESTRICTED)):
        return
    found = world.namespace(request.namespace)
    if isinstance(found, Unknown) or found.value is None:
        yield Doubt("spec", f"Pod Security may refuse it: the level of namespace {request.namespace} is not known")
        return
    policy = resolve(own_labels((found.value.get("metadata") or {}).get("labels")), DEFAULT).policy[Mode.ENFORCE]
    if policy.level is not Level.PRIVILEGED and (failed := added(policy.level, policy.minor(minor))):
        yield Doubt("spec", f'violates PodSecurity "{policy}": {", ".join(failed)}')


def _read_text(value: Object, minor: int, is_create: bool) -> bytes:
    """What the checks read of a Pod, as JSON: many Pods have the same."""
    pod = pod_of(as_met(value, minor, is_create))
    return msgspec.json.encode([pod.annotations, pod.spec])


@lru_cache(maxsize=4096)
def _failures(pod: bytes, level: Level, rules: int) -> tuple[str, ...]:
    annotations, spec = msgspec.json.decode(pod)
    return tuple(str(found.failure) for found in failed_checks(Pod(annotations, spec), level, rules))


def of_policies(evaluate: InForce, before: AdmissionRequest, after: AdmissionRequest) -> Iterator[Doubt]:
    """The refusals of policies, and what they cannot say, of a changed object alone. They may concern any field."""
    was, now = (_answers(evaluate(each)) for each in (before, after))
    for policy, verdicts in now.items():
        known = was.get(policy, [])
        if any(_refuses(each) for each in known):
            continue
        refusing = next((each for each in verdicts if _refuses(each)), None)
        if refusing is not None:
            yield Doubt("", denial_tail(refusing))
        elif (unknown := _unknown(verdicts)) is not None and _unknown(known) is None:
            yield Doubt("", f"policy {policy} was in force, and may refuse it: {unknown.why}")


def _answers(verdicts: Sequence[PolicyVerdict]) -> dict[str, list[PolicyVerdict]]:
    found: dict[str, list[PolicyVerdict]] = {}
    for each in verdicts:
        if not each.is_summary:
            found.setdefault(each.policy, []).append(each)
    return found


def _refuses(verdict: PolicyVerdict) -> bool:
    return verdict.rejects and not verdict.is_summary


def _unknown(verdicts: Sequence[PolicyVerdict]) -> PolicyVerdict | None:
    return next((each for each in verdicts if each.decision is Decision.UNKNOWN and Action.DENY in each.actions), None)
