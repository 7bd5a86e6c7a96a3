"""Where a refused request ended among mutating admission and webhooks, as far as its answer and the history of its object tell.

The table of `queries/reach_rules.py` asks which policies were reached. Here two more questions matter: whether mutating admission
was reached, and which of two writes that crossed each other came first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from queries.reach import Answer, Reach

from ...history.event import Event
from ...history.reconstruct import CACHE_LAG_MAX, NEWER_VERSION, met_newer_version
from ...history.versions import LogVersions
from ...history.writes import key_of
from .trace import Trace


class Halt(NamedTuple):
    """An answer that names the stage that gave it. `says` names a wording of the message (ingest/server/wordings.py)."""

    verbs: frozenset[str]
    code: int
    says: str
    passed: str
    stopped: str
    why: str
    by_webhook: bool = False  # the last attempt to call a mutating webhook gave rise to it
    is_settled: bool = True  # False: another write of the object at the same time may have led to it


_BODIES = frozenset({"create", "update"})
_WRITES = frozenset({"create", "update", "patch"})
_PATCHED = "the patch of a mutating webhook could not be applied"
HALTS = (
    # kubernetes/apiserver pkg/endpoints/handlers/rest.go, transformDecodeError: before any admission.
    Halt(_BODIES, 400, "undecoded", "authorization", "decoding", "the body could not be decoded"),
    # pkg/endpoints/handlers/rest.go, checkName: an update asks it first, a patch when the object is patched, before admission.
    Halt(frozenset({"update"}), 400, "other name", "authorization", "decoding", "the body names another object than the URL"),
    Halt(frozenset({"patch"}), 400, "no name", "decoding", "target", "the patched object has no name", is_settled=False),
    # pkg/admission/plugin/webhook/mutating/dispatcher.go, callAttrMutatingHook: these errors do not follow failurePolicy.
    Halt(frozenset({"delete", "deletecollection"}), 500, "modified deletion", "target", "mutating",
         "a mutating webhook tried to change a deletion", by_webhook=True),
    Halt(_WRITES, 500, "unfit operation", "target", "mutating", _PATCHED, by_webhook=True),
    Halt(_WRITES, 500, "unfit object", "target", "mutating", _PATCHED, by_webhook=True),
)  # fmt: skip
_ABSENT = "the object did not exist"
# The store lets events expire without a request, so that the log does not show when one ceased to exist.
_EXPIRING = frozenset({"events"})
_ON_ONE = frozenset({"update", "patch", "delete"})


def halted(reach: Reach, verb: str, code: int, wordings: Collection[str], trace: Trace) -> tuple[Reach, bool]:
    """The reach as the answer shows it, and whether the history of the object must confirm it."""
    if code < 400 or reach.outcome not in ("unsupported", "error"):
        return reach, True
    for halt in HALTS:
        if code == halt.code and verb in halt.verbs and (not halt.by_webhook or _failed_last(trace)) and halt.says in wordings:
            return _ended(reach, halt.passed, halt.stopped, halt.why), halt.is_settled
    return reach, True


def halted_in_history(
    reach: Reach, event: Event, trace: Trace, versions: LogVersions, deletions: Collection[tuple[str, str, str]]
) -> Reach:
    """The reach as the answer and the other writes of the object show it.

    `deletions` are the (cluster, group, resource) whose deletions the log records. An object that was missing when a write came is
    found missing before admission. If it was deleted meanwhile, admission may have run. The log shows such a deletion.
    """
    found, is_settled = halted(reach, event.verb, event.code, event.wordings, trace)
    if event.code == 409 and event.verb == "update" and reach.outcome == "conflict" and met_newer_version(event, versions):
        return _ended(reach, "mutating", "strategy", NEWER_VERSION)
    if not is_settled:
        return found if _was_alone(event, versions, deletions) else reach
    if _says_absent(event) and reach.at("mutating") is Answer.UNKNOWN and _was_alone(event, versions, deletions):
        return _ended(reach, "decoding", "target", _ABSENT)
    return found


def _says_absent(event: Event) -> bool:
    """Whether the answer says that the object itself was not found."""
    resource = f"{event.resource.resource}.{event.resource.group}".rstrip(".")
    return event.code == 404 and event.verb in _ON_ONE and event.message == f'{resource} "{event.name}" not found'


def _was_alone(event: Event, versions: LogVersions, deletions: Collection[tuple[str, str, str]]) -> bool:
    """Whether no recorded write of the object crossed this one, where the log would show a deletion."""
    key = key_of(event, event.response_head)
    if key[:3] not in deletions or key.resource in _EXPIRING:
        return False
    after = event.ts - CACHE_LAG_MAX
    if versions.changed_between(key, after, event.stage_ts, but=event.write_id):
        return False
    # A deletecollection whose answer names no object may have deleted this one.
    swept = (each.version for each in versions.disturbances() if each[:4] == key[:4])
    return not any(version.began < event.stage_ts and version.since > after for version in swept)


def _ended(reach: Reach, passed: str, stopped: str, why: str) -> Reach:
    return replace(reach, passed=passed, stopped=stopped, why=why)


def _failed_last(trace: Trace) -> bool:
    return bool(trace.attempts) and not trace.attempts[-1].mutated
