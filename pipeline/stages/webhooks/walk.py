"""Walks the recorded requests, and decides which webhooks each would have been called for.

Most requests need no body: rules and namespaces decide. SQL groups these, and each distinct question is answered once. Where labels
or match conditions decide, the request is read with its bodies and the history of its object, in batches of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from ingest.server.wordings import wordings_of
from queries import LakeReader
from queries.reach import Answer, Answered, Reach, reach_of
from queries.reach_rules import DECISION, FAILURE

from ...authorization import AuthorizeUser, OtherAuthorizers, RecordedRbac
from ...cel.minors import DEFAULT
from ...history.delete_passes import passes_of_delete, second_pass
from ...history.event import Event
from ...history.in_force import CHANGE_DELAY
from ...history.options import NO_URI
from ...history.outcome import Admission, reach_of_event
from ...history.reconstruct import NotReplayed, possible_deletions
from ...history.versions import LogVersions
from ...history.world import LogHistory
from ...matching import Target
from ...matching.equivalence import BUILT_IN_GROUPS
from ...policies.model import ParamKind
from ...request import AdmissionRequest, GroupVersionResource, Known, Operation, Unknown, UserInfo
from ...requests.classes import ADMISSION, RequestClass, Requests
from ...requests.met import Met, met
from ...requests.past import BATCH_ROWS, load_history, rows_of
from ...requests.worlds import Worlds
from ...row import INSUFFICIENT
from ...runs.window import Window
from ...world import World
from ..in_force import Chains
from .calling import Call, Called, Remembered, Subject, calls_of
from .collections import Collections
from .halted import halted, halted_in_history
from .model import Chain, CompiledWebhook
from .recorded import CONFIGURATION_DELAY, KINDS, RecordedChains
from .repeated import named, with_passes
from .sql import statement
from .trace import Trace, trace_of

Passes: TypeAlias = list[tuple[int, AdmissionRequest | Unknown, Trace, Sequence[Call]]]
_UNREAD: Passes = []
_API_SERVICE = ParamKind("apiregistration.k8s.io/v1", "APIService")
_NOT_READ: Unknown = Unknown("no webhook reads it")
_IN_FLIGHT = "a webhook configuration was changed just before, and either version may have been in force"
# What built-in plugins or mutating policies may change in the second round, after a webhook changed it.
_CHANGED_BY_PLUGINS = frozenset(
    [("", "pods"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("networking.k8s.io", "ingresses")]
)


class Plain(NamedTuple):
    """A question that several requests share, with the calls that each of them meets."""

    number: int
    subject: Subject
    calls: Sequence[Call]


class Pass(NamedTuple):
    """One pass of one request with the calls that it meets. `request` is that of validating admission, or why it is not known."""

    cluster: str
    audit_id: str
    ts: datetime
    stage_ts: datetime
    number: int
    event: Event
    trace: Trace
    calls: Sequence[Call]
    request: AdmissionRequest | Unknown


class Walk:
    """The requests of one window, and the webhooks that they meet. It leaves tables in the connection of its reader."""

    def __init__(
        self,
        reader: LakeReader,
        window: Window,
        chains: Chains[Chain] | None = None,
        version: tuple[int, int] = DEFAULT,
        others: Mapping[str, OtherAuthorizers] | None = None,
        *,
        reads_all: bool = False,
        is_plan: bool = False,
    ) -> None:
        """Without `chains` requests meet the webhooks that the log shows in force.

        `reads_all`: read each request of the window with its record, also one that no webhook is for. `is_plan`: only find the
        classes of requests, and judge none.
        """
        self._reader = reader
        self._reads_all = reads_all
        self.window = window
        self._history: LogHistory = load_history(reader, (*KINDS, _API_SERVICE), window)
        self._in_force = RecordedChains(self._history, version)
        self.chains: Chains[Chain] = chains or self._in_force
        self._collections = Collections(reader, window)
        self._worlds = Worlds(self._history, (CHANGE_DELAY, CONFIGURATION_DELAY))
        self._rbac = RecordedRbac(self._history, others)
        if not is_plan:
            reader.connection.execute(statement("asked"), window.parameters)
        self._remembered: dict[int, Remembered] = {}
        self._reaches: dict[tuple[object, ...], Reach] = {}
        every = Requests.of(reader, ADMISSION if is_plan else "SELECT *, 0 AS number FROM webhooks_asked", window)
        self._requests = every if reads_all else every.only(lambda item: any(self._hooks(item)))
        self._recorded = self._requests.only(self._needs_record)
        self.excluded = every.excluded(self._requests, "no webhook is for this resource and operation")
        self._deletions = frozenset(reader.connection.execute(statement("deletions"), {"until": window.until}).fetchall())
        self._has_mutating_policies = bool(
            reader.connection.execute(statement("mutating_policies"), {"until": window.until}).fetchall()[0][0]
        )

    def _hooks(self, item: RequestClass) -> Iterator[tuple[Target, CompiledWebhook]]:
        """The webhooks that are for a class of requests."""
        for target in item.targets():
            yield from ((target, hook) for chain in self.chains.every for hook in chain.candidates(target))

    def _needs_record(self, item: RequestClass) -> bool:
        """Whether the calls for a class of requests depend on the record of each."""
        return (
            self._reads_all
            or any(hook.reads_record(target) for _, hook in self._hooks(item) for target in item.targets())
            or item.verb == "deletecollection"
            or (item.verb == "delete" and (item.api_group, item.resource) == ("", "pods"))
            or (item.refused and item.operation in ("UPDATE", "DELETE"))
            or item.api_group not in BUILT_IN_GROUPS
            or len(self.chains.every) > 1
        )

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes of requests that some webhook is for."""
        return self._requests.classes

    @property
    def records(self) -> int:
        """How many requests are read with their records."""
        return self._recorded.count

    @property
    def requests(self) -> int:
        """How many requests some webhook is for."""
        return self._requests.count

    def world(self, cluster: str, ts: datetime) -> World:
        """The objects that webhooks look up, as of a moment."""
        return self._worlds.at(cluster, ts)

    def authorizer(self, cluster: str, ts: datetime) -> AuthorizeUser:
        """The answers of the authorizers, as of a moment."""
        return partial(self._rbac.authorize, cluster, ts)

    def plain(self) -> Iterator[Plain]:
        """The questions of the table `webhooks_questions`, with the calls that each of their requests meets.

        The table `webhooks_plain` has their requests.
        """
        given = self._reader.arrow("SELECT cluster, audit_id, ts FROM webhooks_asked")
        epochs = [
            epoch for batch in given.to_batches() for epoch in self._worlds.epochs(batch.column("cluster"), batch.column("ts"))
        ]
        self._reader.put_table("webhooks_epochs", given.append_column("epoch", pa.array(epochs, pa.int64())))
        asked = self._requests.only(lambda item: not self._needs_record(item)).relation(self._reader, "webhooks_classes")
        self._reader.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE webhooks_plain AS WITH asked AS ({asked}) {statement('plain')}", self.window.parameters
        )
        self._reader.connection.execute(statement("questions"))
        for batch in self._reader.sql("FROM webhooks_questions").to_arrow_reader(BATCH_ROWS):
            for row in rows_of(batch):
                subject = self._plain_subject(row["question"], row["first_ts"])
                yield Plain(row["number"], subject, self._of_chains(subject))

    def by_record(self, share: Window | None = None) -> Iterator[Pass]:
        """The passes of the requests of a share whose own record decides, in the order of arrival."""
        for found, passes in met(self._recorded, self._reader, self._history, self._passes, _UNREAD, share=share):
            event = found.event
            for number, request, trace, calls in passes:
                if calls or self._reads_all:
                    yield Pass(event.cluster, event.audit_id, event.ts, event.stage_ts, number, event, trace, calls, request)

    def _passes(self, recorded: Met) -> Passes:
        event, found = recorded.event, recorded.requests()
        if isinstance(found, NotReplayed) and recorded.unfit:
            return [(0, Unknown(recorded.unfit), Trace(), self._unknown(event, found, reach_of_event(event)))]
        trace = trace_of(event.annotations, event.message if event.code >= 400 else "")
        reach = self._reach(event, trace, recorded.versions)
        if isinstance(found, NotReplayed):
            calls = self._unknown(event, found, reach)
            if event.verb == "deletecollection" and calls:
                calls = self._without_unmatched(calls, event, trace, reach, recorded.versions)
            return [(0, Unknown(found.reason), trace, calls)]
        return [(each.pass_index, each, trace, self._calls(each, event, trace, reach)) for each in found]

    def _reach(self, event: Event, trace: Trace, versions: LogVersions) -> Reach:
        if event.code >= 400:
            return halted_in_history(reach_of_event(event), event, trace, versions, self._deletions)
        if event.verb == "deletecollection":
            return reach_of_event(event)
        # The rules for other successful requests read these fields alone.
        told = (FAILURE in event.annotations, event.annotations.get(DECISION))
        key = (event.verb, event.resource, event.subresource, event.code, event.reason, event.message, told)
        found = self._reaches.get(key)
        if found is None:
            found = self._reaches[key] = reach_of_event(event)
        return found

    def _calls(self, request: AdmissionRequest, event: Event, trace: Trace, reach: Reach) -> Sequence[Call]:
        subject = Subject(
            request, trace, reach, event, self._changes_again(request.resource), self._chain_at(event.cluster, event.ts)
        )
        calls = self._of_chains(subject)
        if request.operation is Operation.DELETE and calls:
            passes = passes_of_delete(event, request)
            calls = with_passes(calls, passes, lambda later: self._of_chains(subject._replace(request=later)), second_pass(request))
        why = self._why_elsewhere(event)
        return [Call(call.hook, Called.UNKNOWN, why, INSUFFICIENT) for call in calls] if why else calls

    def _why_elsewhere(self, event: Event) -> str:
        """Why another API server may have served a request; empty if this one did.

        The API server records the bodies of what it serves itself, and passes on others unread (kube-aggregator
        pkg/apiserver/handler_proxy.go). The other server may ask the same webhooks, and its log is its own.
        """
        resource = event.resource
        if resource.group in BUILT_IN_GROUPS or event.request_raw is not None or event.response_raw is not None:
            return ""
        name = f"{resource.resource}.{resource.group}"
        world = self._worlds.at(event.cluster, event.ts)
        found = world.param("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
        if isinstance(found, Known) and found.value:
            return ""
        service = world.param(_API_SERVICE.api_version, _API_SERVICE.kind, "", f"{resource.version}.{resource.group}")
        if isinstance(service, Known) and service.value and service.value.get("spec", {}).get("service"):
            return f"another API server serves {name}, and its log shows whether it asks webhooks"
        return f"no definition of {name} is recorded: another API server may serve it"

    def _of_chains(self, subject: Subject) -> Sequence[Call]:
        request = subject.request
        chains = self.chains.at(request.cluster, request.ts)
        if isinstance(chains, Unknown):
            return ()
        world = self._worlds.at(request.cluster, request.ts)
        authorize = self.authorizer(request.cluster, request.ts)
        remembered = self._remembered.setdefault(id(world), {})  # the worlds stay
        found = [calls_of(chain, subject, world, authorize, remembered) for chain in chains]
        return found[0] if len(found) == 1 else _agreed(found)

    def _plain_subject(self, question: Mapping[str, Any], ts: datetime) -> Subject:
        """A request that no webhook looks into."""
        marks, notes = msgspec.json.decode(question["marks"]), msgspec.json.decode(question["noted"])
        resource = GroupVersionResource(question["api_group"], question["api_version"], question["resource"])
        request = AdmissionRequest(
            cluster=question["cluster"],
            audit_id="",
            pass_index=0,
            ts=ts,
            operation=Operation(question["operation"]),
            kind=_NOT_READ,
            resource=resource,
            subresource=question["subresource"],
            namespace=question["namespace"],
            name=_NOT_READ,
            user=UserInfo(),
            dry_run=NO_URI if question["dry_run"] is None else question["dry_run"],
            options=_NOT_READ,
            object=_NOT_READ,
            old_object=_NOT_READ,
        )
        answered = Answered(
            question["verb"],
            resource.group,
            resource.resource,
            question["subresource"],
            question["code"],
            question["reason"],
            question["message"],
            marks,
            notes,
        )
        trace = trace_of(marks, question["message"])
        told, is_settled = halted(reach_of(answered), answered.verb, answered.code, wordings_of(answered.message, notes), trace)
        reach = told if is_settled else reach_of(answered)
        in_force = self._chain_at(request.cluster, ts)
        return Subject(request, trace, reach, None, self._changes_again(resource), in_force)

    def _unknown(self, event: Event, why: NotReplayed, reach: Reach) -> Sequence[Call]:
        """Unknown calls of a request that could not be reconstructed; no calls if it came to no admission."""
        if why.admission is Admission.NOT_REACHED or reach.at("mutating") is Answer.NOT_REACHED:
            return ()
        chains = self.chains.at(event.cluster, event.ts)
        operation = "DELETE" if event.verb.startswith("delete") else "CREATE" if event.verb == "create" else "UPDATE"
        target = Target(operation, event.resource, event.subresource, bool(event.namespace))
        hooks = [] if isinstance(chains, Unknown) else chains[0].candidates(target)
        return [Call(hook, Called.UNKNOWN, why.reason, INSUFFICIENT) for hook in hooks]

    def _without_unmatched(
        self, calls: Sequence[Call], event: Event, trace: Trace, reach: Reach, versions: LogVersions
    ) -> Sequence[Call]:
        """The calls of a deletecollection whose objects are not recorded: a webhook that matches none of those that it may have
        listed was not called."""
        possible = possible_deletions(event, versions, self._collections.listed(event))
        found = [{named(call): call for call in self._calls(each, event, trace, reach)} for each in possible]
        told = [[own[named(call)] for own in found if named(call) in own] for call in calls]
        return [
            own[0] if len(own) == len(found) > 0 and all(each.decision is Called.NOMATCH for each in own) else call
            for call, own in zip(calls, told, strict=True)
        ]

    def _chain_at(self, cluster: str, ts: datetime) -> Chain | None:
        """The webhooks that the log shows at a moment, where it is sure of them."""
        found = self._in_force.at(cluster, ts)
        return found[0] if not isinstance(found, Unknown) and len(found) == 1 else None

    def _changes_again(self, resource: GroupVersionResource) -> bool:
        return self._has_mutating_policies or (resource.group, resource.resource) in _CHANGED_BY_PLUGINS


def _agreed(found: Sequence[Sequence[Call]]) -> list[Call]:
    """The calls of several chains, and one of them was in force: unknown where they differ."""
    by_name: dict[tuple[str, str, str], list[Call]] = {}
    for calls in found:
        for call in calls:
            by_name.setdefault(named(call), []).append(call)
    agreed = []
    for calls in by_name.values():
        decisions = {(call.decision, call.second is True) for call in calls}
        same = len(calls) == len(found) and len(decisions) == 1
        if same or {decision for decision, _ in decisions} == {Called.NOMATCH}:
            agreed.append(calls[0])
        else:
            agreed.append(Call(calls[0].hook, Called.UNKNOWN, _IN_FLIGHT, INSUFFICIENT))
    return agreed
