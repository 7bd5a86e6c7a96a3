"""Least privilege from a lake: what a user did, the roles for it, and a replay of its requests under these roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from queries import LakeReader

from ...authorization import OtherAuthorizers, RecordedRbac
from ...authorization.authorizer import SUPERUSERS
from ...cel.library.authorizer import Attributes
from ...cel.minors import DEFAULT
from ...history.version import Form, object_key
from ...history.world import LogHistory
from ...request import Known, Object
from ...requests.authorizers import other_authorizers
from ...runs.window import Window
from .asked import Question, asked_questions
from .beyond import Beyond, beyond
from .judging import possible_readings, recorded_of
from .later import LaterRights, try_later
from .least import LeastOptions, LeastRules, least_rules
from .made_names import Used, made_names
from .needs import Grant, Need, NeedKind
from .proof import Outcome, Proof, outcomes, proof_of
from .questions import needs_of
from .role_objects import default_name, manifests
from .used_rights import Item, LeftOut, lacked, needed, was_granted, without_namespaces

_READS = ("get", "list", "watch")


class Right(NamedTuple):
    """One right that requests asked for. `resource` is a path for requests without one."""

    namespace: str
    verb: str
    resource: str
    name: str
    requests: int
    first_ts: datetime
    last_ts: datetime

    @property
    def target(self) -> str:
        """Such as `pods in shop`."""
        return f"{self.resource} in {self.namespace}" if self.namespace else self.resource


class Missing(NamedTuple):
    """Why the roles leave out something that the user did: the reason, the requests, and one of the rights as an example."""

    reason: str
    requests: int
    example: str


@dataclass(frozen=True)
class Privileges:
    """The least privilege of one user.

    `requests` counts its requests that lacked no permission: `by_default` of these need no role, and another authorizer allowed
    `by_others`. `granted` counts the roles that the user wrote and whose rules it has to hold. `refused` are the rights whose every
    use was refused. `missing` says what the roles leave out, and why, with the namespaces `deleted` among these. `made` has the
    rights that are for every name, because their recorded names were made. `beyond` are the rights that allow more than was
    recorded. `later` tells how the roles of the earlier half of the time did in the later half.
    """

    cluster: str
    subject: str
    requests: int
    by_default: int
    by_others: int
    granted: int
    reads: int
    rights: tuple[Right, ...]
    refused: tuple[Right, ...]
    manifests: tuple[Object, ...]
    proof: Proof
    missing: tuple[Missing, ...] = ()
    deleted: tuple[str, ...] = ()
    made: Mapping[Attributes, str] = field(default_factory=dict)
    beyond: tuple[Beyond, ...] = ()
    later: LaterRights | None = None
    first_ts: datetime | None = None
    last_ts: datetime | None = None


class _Did(NamedTuple):
    """Requests of the user with what it needed for them; `used` is empty for requests that needed no role."""

    question: Question
    used: tuple[Item, ...]


class _Asking:
    """The requests of one user, with the permissions that it needed for them."""

    def __init__(
        self,
        reader: LakeReader,
        history: LogHistory,
        cluster: str,
        subject: str,
        window: Window,
        kubernetes_version: tuple[int, int],
    ) -> None:
        self._reader, self._history, self._cluster, self.subject = reader, history, cluster, subject
        self.window, self._version = window, kubernetes_version
        self._others = dict(other_authorizers(reader, window, None)).get(cluster, OtherAuthorizers.ANY)
        self._rbac = RecordedRbac(history)

    def within(self, since: datetime | None, until: datetime | None) -> _Asking:
        """The same for a part of the window."""
        window = Window(since, until)
        return _Asking(self._reader, self._history, self._cluster, self.subject, window, self._version)

    def outcomes(self, objects: Iterable[Object]) -> Sequence[Outcome]:
        """See proof.outcomes."""
        return outcomes(self._reader, objects, self.subject, self._cluster, self.window, self._version)

    def made(self, done: Iterable[_Did]) -> Mapping[Attributes, str]:
        """The rights whose names were made, as far as the log shows it up to the end of the window."""
        used = ((did.question, each) for did in done for each in did.used if isinstance(each, Attributes))
        uses = (Used(asked, question.first_ts, question.last_ts) for question, asked in used)
        return made_names(self._reader, uses, self._cluster, self.window.until)

    def own(self) -> Iterator[tuple[Question, tuple[Need, ...]]]:
        """The questions for which the subject needed a permission."""
        for question in asked_questions(self._reader, self.window.since, self.window.until, user=self.subject):
            if question.event.cluster != self._cluster:
                continue
            needs = tuple(map(self._possible(question), self._needs(question)))
            if needs:
                yield question, needs

    def _needs(self, question: Question) -> Iterator[Need]:
        """The subject's own permissions: not those of another who acted as the subject, or as whom it acted."""
        for need in needs_of(question.event, question.identity, self._history.versions, self._version):
            if need.kind is NeedKind.IMPERSONATION:
                if need.user is not None and need.user.username == self.subject:
                    yield need
            elif question.identity.user.username == self.subject:
                yield need

    def _possible(self, question: Question) -> Callable[[Need], Need]:
        """What the headers may have said, as far as the roles of the time allowed it."""
        ground = self._rbac.at(self._cluster, question.first_ts)
        return lambda need: possible_readings(need, ground, self._others) if len(need.readings) > 1 else need

    def deleted(self, names: Iterable[str]) -> Iterator[str]:
        """The namespaces that are not there at the end of the window, or are on their way out."""
        last = "SELECT max(ts) FROM events WHERE cluster = $cluster"
        ((moment,),) = self._reader.connection.execute(last, {"cluster": self._cluster}).fetchall()
        moment = self.window.until or moment
        for name in names:
            key = object_key(self._cluster, "", "namespaces", "", name)
            version, found = self._history.versions.current(key, moment), self._history.object_at(key, moment)
            is_marked = version is not None and version.form in (Form.MARKED, Form.GONE)
            if isinstance(found, Known):
                is_marked = found.value is None or "deletionTimestamp" in found.value.get("metadata", {})
            if is_marked:
                yield name


def least_privilege(
    reader: LakeReader,
    history: LogHistory,
    cluster: str,
    subject: str,
    window: Window | None = None,
    kubernetes_version: tuple[int, int] = DEFAULT,
    options: LeastOptions | None = None,
    name: str | None = None,
) -> Privileges:
    """The roles under which a user can do what it did in a window, and their proof.

    `history` has the stored roles and bindings that the user wrote. Raises InputError for a name that no role can have.
    """
    options, window, name = options or LeastOptions(), window or Window(), default_name(subject) if name is None else name
    asking = _Asking(reader, history, cluster, subject, window, kubernetes_version)
    learned = _learn(asking, options, name)
    left_out = learned.left_out
    proof = proof_of(asking.outcomes(learned.objects), subject, (each for _, each in left_out))
    rights = tuple(_rights((did.question, each) for did in learned.done for each in did.used if isinstance(each, Attributes)))
    requests = [did.question for did in learned.done]
    return Privileges(
        cluster=cluster,
        subject=subject,
        requests=sum(each.requests for each in requests),
        by_default=sum(did.question.requests for did in learned.done if not did.used),
        by_others=sum(each.requests for each in requests if _is_by_others(each)),
        granted=sum(isinstance(each, Grant) for each in learned.items),
        reads=sum(question.requests for question, _ in learned.own if question.event.verb in _READS),
        rights=rights,
        refused=tuple(_refused(learned.own, rights)),
        manifests=tuple(learned.objects),
        proof=proof,
        missing=tuple(_missing(left_out)),
        deleted=tuple(sorted(learned.deleted)),
        made=learned.made,
        beyond=tuple(beyond(learned.rules, learned.items)),
        later=_tried_later(asking, options, name, requests),
        first_ts=min((each.first_ts for each in requests), default=None),
        last_ts=max((each.last_ts for each in requests), default=None),
    )


class _Learned(NamedTuple):
    """What the requests of one window say: the questions, what each needed, and the roles for it."""

    own: Sequence[tuple[Question, tuple[Need, ...]]]
    done: Sequence[_Did]
    items: Sequence[Attributes | Grant]
    deleted: frozenset[str]
    made: Mapping[Attributes, str]
    rules: LeastRules
    objects: Sequence[Object]

    @property
    def left_out(self) -> list[tuple[Question, LeftOut]]:
        """What the roles leave out, with the questions that needed it."""
        return [(did.question, each) for did in self.done for each in did.used if isinstance(each, LeftOut)]


def _learn(asking: _Asking, options: LeastOptions, name: str) -> _Learned:
    own = list(asking.own())
    done = [
        _Did(question, tuple(needed(question, needs, asking.subject, options)))
        for question, needs in own
        if was_granted(question.event)
    ]
    deleted = frozenset(asking.deleted({each.namespace for did in done for each in did.used if each.namespace}))
    if not options.collapses_namespaces:
        done = [did._replace(used=tuple(without_namespaces(did.used, deleted))) for did in done]
    items = [each for did in done for each in did.used if not isinstance(each, LeftOut)]
    made = asking.made(done) if options.widens_made_names else {}
    widened = (each._replace(name="") if isinstance(each, Attributes) and each in made else each for each in items)
    rules = {namespace: own for namespace, own in least_rules(widened, options).items() if namespace not in deleted}
    return _Learned(own, done, items, deleted, made, rules, manifests(rules, asking.subject, name))


def _tried_later(asking: _Asking, options: LeastOptions, name: str, requests: Sequence[Question]) -> LaterRights | None:
    """The roles of the earlier half of the user's time, tried on the later half; None without a later half."""
    if not requests:
        return None
    first, last = min(each.first_ts for each in requests), max(each.last_ts for each in requests)
    middle = first + (last - first) / 2
    if first == last:
        return None
    earlier = _learn(asking.within(asking.window.since, middle), options, name)
    later = asking.within(middle, asking.window.until)
    return try_later(later.outcomes(earlier.objects), earlier.items, asking.subject, middle)


def _missing(left_out: Iterable[tuple[Question, LeftOut]]) -> Iterator[Missing]:
    """The left-out rights by reason."""
    found: dict[str, tuple[int, str]] = {}
    for question, each in left_out:
        requests, example = found.get(each.reason, (0, ""))
        found[each.reason] = requests + question.requests, example or str(each.asked or "")
    for reason, (requests, example) in found.items():
        yield Missing(reason, requests, example)


def _is_by_others(question: Question) -> bool:
    is_master = SUPERUSERS in question.identity.user.groups
    recorded = recorded_of(question.event)
    return is_master or (recorded.allowed is True and not recorded.reason.startswith("RBAC: allowed by "))


def _rights(used: Iterable[tuple[Question, Attributes]]) -> Iterator[Right]:
    """The distinct rights, with how often and when they were used."""
    found: dict[tuple[str, str, str, str], tuple[int, datetime, datetime]] = {}
    for question, asked in used:
        resource = f"{asked.resource}.{asked.group}".rstrip(".") + (f"/{asked.subresource}" if asked.subresource else "")
        key = (asked.namespace, asked.verb, asked.path or resource, asked.name)
        requests, first, last = found.get(key, (0, question.first_ts, question.last_ts))
        found[key] = requests + question.requests, min(first, question.first_ts), max(last, question.last_ts)
    for key, figures in sorted(found.items()):
        yield Right(*key, *figures)


def _refused(own: Iterable[tuple[Question, tuple[Need, ...]]], rights: Sequence[Right]) -> Iterator[Right]:
    """The rights of refused requests, but for those that other requests used."""
    used = {right[:4] for right in rights}
    asked = ((question, each) for question, needs in own if not was_granted(question.event) for each in lacked(question, needs))
    return (right for right in _rights(asked) if right[:4] not in used)
