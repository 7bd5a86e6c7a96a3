"""Walks the recorded requests that mutating policies are for, and gives each to a judge, in the order of arrival."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from queries import LakeReader
from queries.reach import Answer

from ...authorization import AuthorizeUser, OtherAuthorizers, RecordedRbac
from ...cel.minors import DEFAULT
from ...history.event import Event, decode_json
from ...history.intended import may_apply
from ...history.kinds import kind_of
from ...history.outcome import reach_of_event
from ...history.reconstruct import NotReplayed, attempted_requests
from ...history.world import LogHistory
from ...matching import Target
from ...policies.dispatch import CompiledSet
from ...policies.model import ParamKind
from ...request import AdmissionRequest, Evidence, Unknown
from ...requests.classes import ADMISSION, RequestClass, Requests
from ...requests.met import Met as Recorded
from ...requests.met import met as met_with
from ...requests.past import load_history
from ...requests.worlds import Worlds
from ...runs.window import Window
from ...world import World
from ..in_force import Chains
from ..validating.policies import RecordedPolicies as PoliciesInForce
from ..validating.policies import recorded_policy_set
from .chain import Chain
from .in_force import KINDS, RecordedPolicies
from .kinds import DEFINITION, KnownKind
from .model import MutatingRules
from .plugins_after import InForce
from .start import before_policies

T = TypeVar("T")


# The answers of mutating policies: denials, and patches whose result cannot be decoded.
_REFUSED = re.compile(
    r"^policy ('[^']*' with binding '[^']*'|\"[^\"]*\") denied request: "
    r"|^Internal error occurred: (strict decoding error: unknown field |json: cannot unmarshal |illegal base64 data at input byte )"
)


# Refusals of a value that the client did not send: the object was refused as policies or webhooks left it.
_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_PRIORITY = re.compile(r": the integer value of priority \(-?\d+\) must not be provided in pod spec; ").search


def is_after_mutation(event: Event) -> bool:
    """Whether an answer refuses a value that the body of the request lacks, so that mutating admission brought it about.

    The server compares the namespace before and after admission, and the Priority plugin runs in each round.
    """
    field = ("metadata", "namespace") if event.message == _NAMESPACE else ("spec", "priority") if _PRIORITY(event.message) else None
    if field is None or event.request_raw is None or (field[0] == "spec" and event.verb != "create"):
        return False
    body = decode_json(event.request_raw)
    if isinstance(body, list):
        places = ("", f"/{field[0]}", f"/{field[0]}/{field[1]}")
        return not any(each.get("path") in places for each in body if isinstance(each, dict))
    part = (body.get(field[0]) or {}) if isinstance(body, dict) else None
    return isinstance(part, dict) and part.get(field[1]) in (None, "", event.namespace)


def is_refusal(event: Event) -> bool:
    """Whether a mutating policy refused a request."""
    return event.code >= 400 and _REFUSED.match(event.message) is not None


def _targets_of(event: Event) -> Sequence[Target]:
    """What the rules of policies read of a request whose object is not known. A refused update may have been a create."""
    operation = _OPERATIONS.get(event.verb, "CONNECT" if event.subresource else "UPDATE")
    operations = ("UPDATE", "CREATE") if operation == "UPDATE" and event.code >= 400 else (operation,)
    return [Target(each, event.resource, event.subresource, bool(event.namespace)) for each in operations]


_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE"}


class Met(NamedTuple):
    """One request as it came to mutating policies, with what they may look up.

    `name` is that of the object as validating admission saw it. `unreached` says why the request may not have come to the policies.
    `attempt` is the request as validating admission saw it, or would have.
    """

    event: Event
    request: AdmissionRequest | Unknown
    name: Evidence[str]
    kind: KnownKind | Unknown
    world: World
    chains: Sequence[Chain] | Unknown
    authorize: AuthorizeUser
    unreached: str
    in_force: InForce
    targets: Sequence[Target]
    attempt: AdmissionRequest | Unknown


class Judged(NamedTuple, Generic[T]):
    """What a judge says of one request."""

    event: Event
    pass_index: int
    verdict: T


class Walk:
    """The requests of one window. It leaves tables in the connection of its reader."""

    def __init__(
        self,
        reader: LakeReader,
        window: Window,
        chains: Chains[Chain] | None = None,
        version: tuple[int, int] = DEFAULT,
        others: Mapping[str, OtherAuthorizers] | None = None,
        *,
        reads_all: bool = False,
        reads_unreached: bool = False,
        over: MutatingRules | None = None,
        further: Collection[ParamKind] = (),
        only: Collection[str] = (),
        may_change: Callable[[Sequence[Chain], Target], bool] = lambda chains, target: True,
    ) -> None:
        """Without `chains` requests meet the policies that the log shows in force, with those of `over` laid over them.

        `reads_all`: judge also requests that no policy is for, and `reads_unreached` those that ended before. `further` are kinds
        that the judge looks up. `only` are the audit IDs of the requests; empty: all. `may_change`:
        whether the judge asks what came to mutating policies of a target; for others it gets the request of validating admission.
        """
        self._may_change = may_change
        self._reader = reader
        self._reads_all, self._reads_unreached = reads_all, reads_unreached
        self.window = window
        given = () if chains is None else [policy.policy.param_kind for chain in chains.every for policy in chain.policies]
        looked_up = {kind for kind in given if kind is not None}
        looked_up |= {*further, *(each.rules.param_kind for each in (over.policies if over else ()) if each.rules.param_kind)}
        if chains is None:
            looked_up |= {*KINDS}

        def history_of(kinds: Iterable[ParamKind]) -> LogHistory:
            looked_up.update(kinds)
            return load_history(reader, {DEFINITION, *looked_up}, window)

        history = history_of(())
        if chains is None:
            recorded = RecordedPolicies(history, version)
            kinds = {policy.policy.param_kind for chain in recorded.every for policy in chain.policies}
            history = history_of(kind for kind in kinds if kind is not None)
            chains = self.recorded = RecordedPolicies(history, version)
            chains = RecordedPolicies(history, version, over=over) if over else chains
        kinds_in_force = recorded_policy_set(history).param_kinds
        if kinds_in_force:
            history = history_of(kinds_in_force)
        self._in_force = PoliciesInForce(history, version)
        self._history = history
        self._histories: dict[ParamKind, LogHistory] = {}
        self.chains: Chains[Chain] = chains
        self._worlds = Worlds(history)
        self._rbac = RecordedRbac(history, others)
        found = f"FROM ({ADMISSION}) WHERE operation <> 'DELETE'"
        if only:
            reader.put_table("only_these", pa.table({"audit_id": pa.array(sorted(only), pa.string())}))
            found += " AND audit_id IN (SELECT audit_id FROM only_these)"
        every = Requests.of(reader, found, window)
        self._requests = every if reads_all else every.only(self._is_met)
        self.excluded = every.excluded(self._requests, "no mutating policy is for this resource and operation")

    def _is_met(self, item: RequestClass) -> bool:
        return any(chain.set.candidates(target) for chain in self.chains.every for target in item.targets())

    def narrow(self, wanted: Callable[[RequestClass], bool]) -> Requests:
        """Judge the requests of some classes alone; returns the others."""
        every = self._requests
        self._requests = every.only(wanted)
        return every.only(lambda item: not wanted(item))

    @property
    def history(self) -> LogHistory:
        """The history of the cluster, with all that policies look up."""
        return self._history

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes of requests that some policy is for."""
        return self._requests.classes

    @property
    def validating(self) -> CompiledSet:
        """Every validating policy that the log shows: they look at the objects afterwards."""
        return self._in_force.considered

    def met_by(self, request: AdmissionRequest) -> Sequence[CompiledSet]:
        """The validating policies that the log shows in force for a request."""
        return self._in_force.met_by(request)

    @property
    def is_steady(self) -> bool:
        """Whether two moments with the same objects have the same policies in force, as far as the log says."""
        return not self._history.unconfigured

    @property
    def requests(self) -> int:
        """How many requests some policy is for."""
        return self._requests.count

    def judged(self, judge: Callable[[Met], T], share: Window | None = None) -> Iterator[Judged[T]]:
        """What a judge says of each request of a share that may have come to mutating admission."""
        none: list[Judged[T]] = []
        of_request = partial(self._of_request, judge=judge)
        for _, found in met_with(self._requests, self._reader, self._history, of_request, none, share=share):
            yield from found

    def _of_request(self, recorded: Recorded, judge: Callable[[Met], T]) -> list[Judged[T]]:
        event = recorded.event
        reach = reach_of_event(event)
        answer = reach.at("mutating")
        if answer is Answer.NOT_REACHED and not self._reads_unreached:
            return []
        chains = self.chains.at(event.cluster, event.ts)
        world = self._worlds.at(event.cluster, event.ts)
        authorize = partial(self._rbac.authorize, event.cluster, event.ts)
        is_told = answer is not Answer.UNKNOWN or is_refusal(event) or is_after_mutation(event)
        unreached = reach.why if not is_told or answer is Answer.NOT_REACHED else ""
        targets = _targets_of(event)

        def met(found: AdmissionRequest | Unknown) -> Met:
            known = self._kind(found, world, chains)
            request = found
            if isinstance(found, AdmissionRequest) and (isinstance(chains, Unknown) or self._may_change(chains, Target.of(found))):
                request = before_policies(found, event, known)
            name: Evidence[str] = found if isinstance(found, Unknown) else found.name
            in_force = partial(self._in_force.answer, world=world, authorize=authorize, event=event)
            return Met(event, request, name, known, world, chains, authorize, unreached, in_force, targets, found)

        found = recorded.requests()
        if isinstance(found, NotReplayed) and self._reads_unreached and may_apply(event):
            # Only a list of all objects of its kind tells whether a refused apply was to create its object.
            found = attempted_requests(event, recorded.versions, self._history_with(event))
        if isinstance(found, NotReplayed):
            return [Judged(event, 0, judge(met(Unknown(found.reason))))]
        return [Judged(event, each.pass_index, judge(met(each))) for each in found]

    def _history_with(self, event: Event) -> LogHistory:
        """A history that also has all objects of the kind of a request."""
        named = kind_of(event.resource, "")
        if named is None:
            return self._history
        kind = ParamKind(f"{named.group}/{named.version}".removeprefix("/"), named.kind)
        if kind not in self._histories:
            with self._reader.session() as past:
                self._histories[kind] = load_history(past, (kind,), self.window)
        return self._histories[kind]

    def _kind(self, request: AdmissionRequest | Unknown, world: World, chains: Sequence[Chain] | Unknown) -> KnownKind | Unknown:
        """The kind of a request's object."""
        if isinstance(request, Unknown) or isinstance(request.kind, Unknown):
            return Unknown("the kind is not known")
        if isinstance(chains, Unknown) or not chains:
            return Unknown("no policies are known")
        return chains[0].kinds.of(request, request.kind.value, chains[0].set.given.over(world))
