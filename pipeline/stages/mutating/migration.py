"""A mutating webhook compared with the mutating policy that shall replace it, request by request.

The API server records each patch that it applied. Webhook and policy get the same object: as the client sent it, with the patches
of the webhooks before. The objects after defaulting are compared, not the patches: one change can be written in several ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from queries import LakeReader

from ...history.patching import PatchError, apply_operations
from ...request import Known, Object, Unknown
from ...runs.window import Window
from ..in_force import GivenChain
from ..webhooks.trace import Trace, trace_of
from .chain import Chain
from .changes import changes
from .decoding import defaulted, written
from .orders import outcomes_of
from .sql import statement
from .walk import Met, Walk

SAME, NEITHER = "same change", "neither changes"
DIFFERENT, NOTHING, MORE = "another change", "policy changes nothing", "only the policy changes"
POLICY_REFUSES, HOOK_REFUSED = "policy refuses", "webhook refused"
UNKNOWN, UNMATCHED, UNCALLED = "unknown", "only the webhook matches", "only the policy matches"
# The cells of the matrix, as a reader needs them: disagreement first.
CELLS = (DIFFERENT, NOTHING, MORE, POLICY_REFUSES, SAME, NEITHER, UNCALLED, UNMATCHED, HOOK_REFUSED, UNKNOWN)
_DISAGREE = (DIFFERENT, NOTHING, MORE, POLICY_REFUSES)


class Cell(NamedTuple):
    """Why a request belongs to a cell: the first differing path, the policy's answer, or the missing evidence."""

    cell: str
    operation: str
    resource: str
    why: str


@dataclass
class Migration:
    """The matrix of one webhook and the given policies. `examples` has the auditID of the latest request of each cell."""

    requests: Counter[Cell] = field(default_factory=Counter)
    examples: dict[Cell, str] = field(default_factory=dict)
    called: int = 0

    def count(self, *cells: str) -> int:
        """The requests of some cells."""
        return sum(number for each, number in self.requests.items() if each.cell in cells)

    @property
    def decided(self) -> int:
        """The requests that both were asked for, with two known results."""
        return self.count(SAME, NEITHER, *_DISAGREE)

    @property
    def disagreeing(self) -> int:
        """The decided requests on which the two differ."""
        return self.count(*_DISAGREE)


def compare(reader: LakeReader, window: Window, chain: Chain, webhook: str, configuration: str | None = None) -> Migration:
    """Compare a recorded webhook with given policies over the requests of a window."""
    found = Migration()
    seen: set[str] = set()

    def note(cell: Cell, audit_id: str) -> None:
        found.requests[cell] += 1
        found.examples[cell] = audit_id

    for each in Walk(reader, window, GivenChain(chain), chain.version).judged(lambda met: _judged(met, webhook, configuration)):
        seen.add(each.event.audit_id)
        if each.verdict is not None:
            note(each.verdict, each.event.audit_id)
    for audit_id, operation, resource in _called(reader, window, webhook, configuration):
        found.called += 1
        if audit_id not in seen:
            note(Cell(UNMATCHED, operation, resource, "no rule of the policy is for it"), audit_id)
    return found


def _judged(met: Met, webhook: str, configuration: str | None) -> Cell | None:
    """The cell of one request; None where neither webhook nor policy has to do with it."""
    event = met.event
    trace = trace_of(event.annotations, event.message if event.code >= 400 else "")
    attempt = next((each for each in trace.attempts if each.round == 0 and _is(each, webhook, configuration)), None)
    resource = event.resource
    name = f"{resource.resource}.{resource.group}".rstrip(".") + (f"/{event.subresource}" if event.subresource else "")
    operation = str(met.request.operation) if not isinstance(met.request, Unknown) else event.verb

    def cell(kind: str, why: str = "") -> Cell:
        return Cell(kind, operation, name, why)

    if isinstance(met.request, Unknown):
        return None if attempt is None else cell(UNKNOWN, met.request.reason)
    before = _before(met, trace, None if attempt is None else attempt.place)
    if isinstance(before, Unknown):
        return None if attempt is None else cell(UNKNOWN, before.reason)
    of_policy = _of_policy(met, before)
    if attempt is None:
        changed = isinstance(of_policy, dict) and next(changes(_plain(met, before), of_policy), None) is not None
        return cell(UNCALLED, "the webhook was not called") if changed else None
    if webhook in (trace.denied_by, trace.failed):
        return cell(HOOK_REFUSED, event.message)
    of_webhook = _of_webhook(met, trace, attempt, before)
    for result in (of_webhook, of_policy):
        if isinstance(result, Unknown):
            return cell(UNKNOWN, result.reason)
    if isinstance(of_policy, str):
        return cell(POLICY_REFUSES, of_policy)
    return cell(*_compared(_plain(met, before), of_webhook, of_policy))


def _is(each: Any, webhook: str, configuration: str | None) -> bool:
    return each.webhook == webhook and configuration in (None, each.configuration)


def _before(met: Met, trace: Trace, place: int | None) -> Object | Unknown:
    """The object as the webhook met it in the first round; without a place, that after all webhooks of the round."""
    assert not isinstance(met.request, Unknown)
    entered = met.request.object
    if isinstance(entered, Unknown):
        return entered
    if entered.value is None:
        return Unknown("the request has no object")
    shown = {each[:2] for each in trace.patches}
    if any(each.mutated and each[:2] not in shown and each.round == 0 for each in trace.attempts):
        return Unknown("patches of webhooks were not recorded")
    value: Object = entered.value
    for patch in trace.patches:
        if patch.round == 0 and (place is None or patch.place < place):
            applied = _applied(value, patch.operations)
            if isinstance(applied, Unknown):
                return applied
            value = applied
    return value


def _applied(value: Object, operations: list[Any]) -> Object | Unknown:
    try:
        return apply_operations(value, operations)
    except PatchError as problem:
        return Unknown(f"a recorded patch does not fit: {problem}")


def _of_webhook(met: Met, trace: Trace, attempt: Any, before: Object) -> Object | Unknown:
    value: Object | Unknown = before
    for patch in trace.patches:
        if patch[:2] == attempt[:2] and not isinstance(value, Unknown):
            value = _applied(value, patch.operations)
    return value if isinstance(value, Unknown) else _plain(met, value)


def _of_policy(met: Met, before: Object) -> Object | Unknown | str:
    """What the policies leave of an object, or the message with which they refuse it."""
    assert not isinstance(met.request, Unknown)
    if isinstance(met.chains, Unknown):
        return met.chains
    entered = met.request.object
    assert isinstance(entered, Known)
    request = replace(met.request, object=replace(entered, value=before))
    outcomes = outcomes_of(met.chains[0], request, met.world, met.authorize)
    if len(outcomes.distinct) > 1:
        return Unknown("the order of the policies decides it")
    found = outcomes.first
    if found.refusal is not None:
        return found.refusal.message or "no answer"
    if isinstance(found.object, Unknown):
        return found.object
    return _plain(met, found.object.value or {})


def _plain(met: Met, value: Object) -> Object:
    """An object as the API server would write it after a mutation: with defaults, without empty fields."""
    if isinstance(met.kind, Unknown) or isinstance(met.request, Unknown):
        return value
    found = deepcopy(value)
    if met.kind.custom is None and not met.kind.has_metadata_alone:
        found = written(found, met.kind.shape)
    return defaulted(found, met.request.resource, met.kind.custom)


def _compared(before: Object, of_webhook: Any, of_policy: Any) -> tuple[str, str]:
    difference = next(changes(of_webhook, of_policy), None)
    hook_changes, policy_changes = (next(changes(before, each), None) is not None for each in (of_webhook, of_policy))
    if difference is None:
        return (SAME, "") if hook_changes else (NEITHER, "")
    if not policy_changes:
        return NOTHING, difference.path
    return (DIFFERENT if hook_changes else MORE), difference.path


def _called(reader: LakeReader, window: Window, webhook: str, configuration: str | None) -> Iterator[tuple[str, str, str]]:
    """The requests for which the log shows an attempt to call a webhook: auditID, verb and resource."""
    rows = reader.sql(statement("called"), {**window.parameters, "webhook": webhook, "configuration": configuration})
    yield from rows.fetchall()
