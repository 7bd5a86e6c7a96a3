"""What policies say about recorded objects without the changes of one webhook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from queries import LakeReader

from ...authorization import RecordedRbac
from ...history.event import Event
from ...history.reconstruct import NotReplayed
from ...history.world import LogHistory
from ...matching import Target
from ...policies.dispatch import compile_set
from ...policies.model import PolicySet
from ...policies.verdict import Decision
from ...request import AdmissionRequest, Unknown
from ...requests.classes import Requests
from ...requests.met import Met, met
from ...requests.past import load_history
from ...requests.worlds import Worlds
from ...runs.window import Window
from ..mutating.in_force import KINDS as MUTATING_KINDS
from ..mutating.in_force import RecordedPolicies as MutatingPolicies
from ..mutating.kinds import DEFINITION, Kinds
from ..mutating.start import before_policies
from ..validating.policies import GivenPolicies, Policies, RecordedPolicies, recorded_policy_set
from .sql import statement
from .trace import trace_of
from .undoing import Undone, undo

_COLUMNS: Sequence[tuple[str, pa.DataType]] = (
    ("cluster", pa.string()), ("audit_id", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("pass", pa.int32()),
    ("says", pa.string()), ("why", pa.string()), ("asked", pa.bool_()), ("denied_before", pa.bool_()),
)  # fmt: skip


class Instead(NamedTuple):
    """What policies say of one object without the changes: deny, admit, or unknown with the reason.

    `asked`: other mutating webhooks looked at the object with the changes. `denied_before`: a policy denies the object with them.
    """

    says: str
    why: str = ""
    asked: bool = False
    denied_before: bool = False


class InsteadJudge:
    """The policies of each moment and given ones, with the recorded past that they look up."""

    def __init__(self, reader: LakeReader, window: Window, version: tuple[int, int], given: PolicySet | None) -> None:
        recorded = recorded_policy_set(load_history(reader, (), window))
        kinds = {DEFINITION, *MUTATING_KINDS, *recorded.param_kinds, *(given.param_kinds if given else ())}
        self.history: LogHistory = load_history(reader, kinds, window)
        self._policies: list[Policies] = [RecordedPolicies(self.history, version)]
        if given is not None:
            self._policies.append(GivenPolicies(compile_set(given, version)))
        self._mutating = MutatingPolicies(self.history, version)
        self._kinds = Kinds(version)
        self._worlds = Worlds(self.history)
        self._rbac = RecordedRbac(self.history)

    def judge(self, event: Event, request: AdmissionRequest, webhook: str, configuration: str | None) -> Instead:
        """What policies say of the object of a request without the changes of a webhook."""
        undone = self.undone(event, request, webhook, configuration)
        if isinstance(undone, Unknown):
            return Instead("unknown", undone.reason)
        says, why = self._says(replace(request, object=undone.object))
        return Instead(says, why, bool(undone.asked), self._says(request)[0] == "deny")

    def undone(self, event: Event, request: AdmissionRequest, webhook: str, configuration: str | None) -> Undone | Unknown:
        """The object of a request without the changes of a webhook."""
        seen = request.object
        if isinstance(seen, Unknown) or seen.value is None or isinstance(request.kind, Unknown):
            return Unknown(f"the object: {seen.reason}" if isinstance(seen, Unknown) else "there is no object")
        if why := self._by_mutating_policies(request):
            return Unknown(why)
        known = self._kinds.of(request, request.kind.value, self._worlds.at(request.cluster, request.ts))
        start = before_policies(request, event, known).object
        trace = trace_of(event.annotations, event.message if event.code >= 400 else "")
        return undo(trace, webhook, configuration, start, seen.value)

    def _by_mutating_policies(self, request: AdmissionRequest) -> str:
        """Why mutating policies may have changed the object between the webhooks; empty if they did not."""
        chains = self._mutating.at(request.cluster, request.ts)
        if isinstance(chains, Unknown):
            return chains.reason
        target = Target.of(request)
        if any(chain.set.candidates(target) for chain in chains):
            return "mutating policies are for it, too, and may depend on the changes"
        return ""

    def _says(self, request: AdmissionRequest) -> tuple[str, str]:
        """Deny, admit or unknown, with the message or the missing evidence. A denial by one policy decides."""
        world = self._worlds.at(request.cluster, request.ts)
        authorize = partial(self._rbac.authorize, request.cluster, request.ts)
        unknown = ""
        for policies in self._policies:
            found = policies.answer_alike(request, world, authorize, {})
            if found is None:
                unknown = unknown or "what the policies of that time say of it: they were being changed, or lack evidence"
                continue
            if denials := [verdict for verdict in found if verdict.rejects]:
                said = next((each for each in denials if each.message), denials[0])
                return "deny", f"policy {said.policy} denies the object" + (f": {said.message}" if said.message else "")
            unknown = unknown or next((each.why for each in found if each.decision is Decision.UNKNOWN), "")
        return ("unknown", unknown) if unknown else ("admit", "")


def keep_instead(
    reader: LakeReader,
    window: Window,
    version: tuple[int, int],
    webhook: str,
    configuration: str | None,
    given: PolicySet | None,
) -> None:
    """Make the table `webhooks_instead`: a row for each pass of `webhooks_without` whose object the webhook changed."""
    requests = Requests.of(reader, statement("without_chosen"), window)
    found: list[tuple[Any, ...]] = []
    if requests.classes:
        judge = InsteadJudge(reader, window, version, given)
        none: list[tuple[Any, ...]] = []
        for _, each in met(requests, reader, judge.history, partial(_of_request, judge, webhook, configuration), none):
            found += each
    columns: list[pa.Array[Any]] = [pa.array([row[at] for row in found], kind) for at, (_, kind) in enumerate(_COLUMNS)]
    reader.put_table("webhooks_instead", pa.Table.from_arrays(columns, names=[name for name, _ in _COLUMNS]))


def _of_request(judge: InsteadJudge, webhook: str, configuration: str | None, recorded: Met) -> list[tuple[Any, ...]]:
    event, found = recorded.event, recorded.requests()
    key = (event.cluster, event.audit_id, event.ts)
    if isinstance(found, NotReplayed):
        return [(*key, 0, *Instead("unknown", found.reason))]
    return [(*key, request.pass_index, *judge.judge(event, request, webhook, configuration)) for request in found]
