"""What judges requests for Pod Security, and what it reads of plain ones, so that those with equal Pods are judged once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...authorization import AuthorizeUser
from ...cel.readset import Reads, ReadSet
from ...history.event import Event
from ...history.fit import is_fit
from ...history.fitness import UNFIT
from ...history.reconstruct import Attempt
from ...history.versions import Versions
from ...history.world import LogHistory
from ...history.writes import asks_for_dry_run
from ...request import AdmissionRequest, GroupVersionResource, Known, Object
from ...requests.lanes import Lane, LaneName
from ...row import Row
from ...world import World
from .attempts import attempt_of
from .checks.app_armor import ANNOTATION as APP_ARMOR
from .checks.host import HOOKS
from .checks.pod import Pod
from .checks.volumes import ALLOWED
from .judging import Judge
from .namespaces import NamespaceJudge
from .reading import read_plain
from .ruling import UNREAD, Ruling, row_of
from .subject import NAMESPACES, PODS, RESOURCES, Subject, Told, own_notes, template_of, template_path

_encode = msgspec.json.Encoder().encode
_OF_POD = ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "securityContext", "os", "runtimeClassName")
_OF_CONTAINER = ("name", "securityContext", "ports")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ANNOTATIONS = (APP_ARMOR, "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/")
# Distinct Pods that are kept; above it they are checked again.
_PODS_MAX = 50_000
_OF_OWNER = ("kind", "name", "controller")


class Record(NamedTuple):
    """What reports read of a recorded request, apart from the rulings.

    `metadata` is that of its object; `message` that of the answer, and `told` what else this says. `written` is the name of a
    namespace that the request wrote.
    """

    subject: Subject
    resource: GroupVersionResource
    told: Told
    metadata: Mapping[str, Any]
    message: str = ""
    is_dry_run: bool = False
    written: str | None = None


class PodRulings(list[Ruling]):
    """The rulings on a request, or on all that are alike, with its record or that of one of them."""

    def __init__(self, rulings: Sequence[Ruling], record: Record) -> None:
        super().__init__(rulings)
        self.record = record


class PodJudge:
    """See AttemptJudge: it judges writes of Pods, controllers and namespaces."""

    def __init__(
        self,
        judge: Judge,
        of_namespaces: NamespaceJudge,
        history: LogHistory,
        with_pods: Callable[[], LogHistory],
        is_about: Callable[[str], bool],
        *,
        with_owners: bool = False,
        with_rows: bool = True,
    ) -> None:
        """`with_pods` gives a history that also has all Pods. `is_about`: whether a user asks about a namespace.

        `with_owners`: the owner of an object decides, too, or its name where it has none. Without rows, verdicts are PodRulings.
        """
        self._judge, self._of_namespaces = judge, of_namespaces
        self._history, self._with_pods = history, with_pods
        self._is_about = is_about
        self._pods: dict[bytes, Pod] = {}
        self._sets: dict[str, Sequence[Row]] = {}
        self._with_owners, self._with_rows = with_owners, with_rows

    def lane(self, name: LaneName) -> Lane | None:
        """See RecordJudge."""
        known = self._judge
        return pod_lane(name, reads_user=known.reads_user, with_owners=self._with_owners, reads_world=known.reads_labels)

    def apart(self) -> Sequence[PodJudge]:
        """See RecordJudge."""
        return (self,)

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[Any] | None:
        """See RecordJudge. It leaves a body of an odd type to the walk over single requests, which names the fault."""
        value = request.object.value if isinstance(request.object, Known) else None
        if value is None or not is_fit(value):
            return None
        place = (request.resource.group, request.resource.resource)
        notes = own_notes(dict(row["annotations"]))
        subject = Subject(request.cluster, request.namespace, request.ts, request.user.username, notes, place == PODS)
        try:
            read = read_plain(request.resource, value, self._judge.minor)
            read = read._replace(pod=self._same(read.pod))
            rulings = self._judge.of_plain(subject, read)
        except UNFIT:
            return None
        told = Told(row["code"], notes, False)
        record = Record(subject, request.resource, told, read.metadata, is_dry_run=request.dry_run is True)
        return self._verdicts(rulings, record)

    def attempt(self, event: Event, versions: Versions) -> Attempt:
        """See AttemptJudge."""
        return attempt_of(event, versions, self._history, self._with_pods)

    def rulings(self, event: Event, attempt: Attempt) -> Sequence[Ruling]:
        """The rulings on one request, whether or not it came to the plugin."""
        judge = self._of_namespaces if event.resource.resource == NAMESPACES[1] else self._judge
        return judge.rulings(event, attempt)

    def of_object(self, event: Event, request: AdmissionRequest) -> Sequence[Ruling]:
        """See Judge."""
        return self._judge.of_object(event, request)

    def answer_attempt(self, attempt: Attempt, event: Event) -> Sequence[Any]:
        """See AttemptJudge."""
        rulings = self.rulings(event, attempt)
        return self._verdicts(rulings, self._record(event, attempt))

    def unread(self, event: Event) -> Sequence[Any]:
        """See AttemptJudge."""
        return self._verdicts(UNREAD, self._record(event, None))

    def _record(self, event: Event, attempt: Attempt | None) -> Record:
        metadata: Mapping[str, Any] = {}
        if self._with_owners and attempt is not None:
            found = self._judge.metadata(event, attempt)
            metadata = found if found.get("name") else {**found, "name": event.name}
        tried = attempt.requests if attempt is not None else None
        is_dry_run = tried[-1].dry_run if isinstance(tried, list) else asks_for_dry_run(event)
        written = event.name if (event.resource.group, event.resource.resource) == NAMESPACES else None
        return Record(Subject.of(event), event.resource, Told.of(event), metadata, event.message, is_dry_run is True, written)

    def _verdicts(self, rulings: Sequence[Ruling], record: Record) -> Sequence[Any]:
        if not self._with_rows:
            return PodRulings(rulings, record)
        is_asked = self._is_about(record.subject.namespace)
        rows = [row_of(each, record.told, is_asked=is_asked) for each in rulings]
        # Requests that are not alike may have equal rows.
        return self._sets.setdefault(repr(rows), rows)

    def _same(self, pod: Pod) -> Pod:
        """An equal Pod that was met before: objects of many names and owners have it, and it is checked once."""
        if len(self._pods) > _PODS_MAX:
            self._pods.clear()
        return self._pods.setdefault(_encode([pod.annotations, pod.spec]), pod)

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[Row]:
        """See AttemptJudge: `answer_attempt` answers single requests."""
        raise NotImplementedError

    def has_failed(self, verdicts: Sequence[Any]) -> bool:
        """See RecordJudge."""
        return False

    def is_open(self, verdicts: Sequence[Any]) -> bool:
        """See RecordJudge."""
        return any(each.decision == "unknown" for each in verdicts)


def pod_lane(name: LaneName, *, reads_user: bool, with_owners: bool, reads_world: bool) -> Lane | None:
    """What Pod Security reads of a class of plain requests; None if it needs more than their own record.

    An update of a Pod counts by what it changes, so that it needs the Pod before.
    """
    place = (name.api_group, name.resource)
    if name.subresource or place not in RESOURCES - {NAMESPACES} or (place == PODS and name.verb != "create"):
        return None
    if name.verb not in ("create", "update", "patch"):
        return None
    reads = _reads(*place, reads_user=reads_user, with_owners=with_owners)
    return _PodLane(name, ReadSet(reads), is_pod=place == PODS, reads_world=reads_world)


def _reads(group: str, resource: str, *, reads_user: bool, with_owners: bool) -> Reads:
    root = Reads()
    root.at("request").at("dryRun")
    if reads_user:
        root.at("request").at("userInfo").at("username")
    seen = root.at("object")
    if with_owners:
        for name in ("name", "generateName"):
            seen.at("metadata").at(name)
        for name in _OF_OWNER:
            seen.at("metadata").at("ownerReferences").each().at(name)
    for name in template_path(group, resource):
        seen = seen.at(name)
    seen.at("metadata").at("annotations").whole = True
    spec = seen.at("spec")
    for name in _OF_POD:
        spec.at(name).whole = True
    spec.at("volumes").each().keys = True
    for kind in _CONTAINERS:
        _read_container(spec.at(kind).each())
    return root


class _PodLane(Lane):
    """A lane that leaves out what no check objects to, and what differs from Pod to Pod: volumes of allowed types, say."""

    narrows = True

    def __init__(self, name: LaneName, reads: ReadSet, *, is_pod: bool, reads_world: bool) -> None:
        super().__init__(name, reads, False, ("annotations",))
        self._is_pod = is_pod
        self.reads_world = reads_world

    def narrowed(self, value: Object) -> Object:
        """See Lane."""
        if (template := template_of(self._resource, value)) is not None:
            _cut(template)
        if not self.names(value):
            value["metadata"].pop("name", None)
            value["metadata"].pop("generateName", None)
        return value

    def names(self, value: Object) -> bool:
        """See Lane. A Pod that has an owner owns nothing, so that its name says no more than its owner does."""
        return not self._is_pod or not any(map(_is_controller, value["metadata"].get("ownerReferences") or ()))


def _is_controller(owner: Object) -> bool:
    return bool(owner.get("controller"))


def _cut(template: Object) -> None:
    metadata, spec = template.get("metadata"), template.get("spec")
    if metadata and metadata.get("annotations"):
        kept = {name: text for name, text in metadata["annotations"].items() if name.startswith(_ANNOTATIONS)}
        metadata["annotations"] = kept
    if spec and spec.get("volumes"):
        spec["volumes"] = [each for each in spec["volumes"] if not each.keys() <= _ALLOWED]


_ALLOWED = {"name", *ALLOWED}


def _read_container(container: Reads) -> None:
    for name in _OF_CONTAINER:
        container.at(name).whole = True
    for hook in HOOKS:
        found = container
        for name in hook:
            found = found.at(name)
        for action in ("httpGet", "tcpSocket"):
            found.at(action).at("host")
