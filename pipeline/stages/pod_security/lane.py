"""What Pod Security reads of plain requests, so that those with equal Pods are judged once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...authorization import AuthorizeUser
from ...cel.readset import Reads, ReadSet
from ...history.event import Event
from ...history.fit import is_fit
from ...history.fitness import UNFIT
from ...request import AdmissionRequest, GroupVersionResource, Known, Object
from ...requests.lanes import Lane, LaneName
from ...runs.verdict import Row
from ...world import World
from .checks.app_armor import ANNOTATION as APP_ARMOR
from .checks.host import HOOKS
from .checks.pod import Pod
from .checks.volumes import ALLOWED
from .judging import Judge
from .reading import Read, read_plain
from .ruling import Ruling, row_of
from .subject import NAMESPACES, PODS, RESOURCES, Subject, Told, own_notes, template_of, template_path

_encode = msgspec.json.Encoder().encode
_OF_POD = ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "securityContext", "os", "runtimeClassName")
_OF_CONTAINER = ("name", "securityContext", "ports")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ANNOTATIONS = (APP_ARMOR, "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/")
# Distinct Pods that are kept; above it they are checked again.
_PODS_MAX = 50_000
_OF_OWNER = ("kind", "name", "controller")


class PodRulings(list[Row]):
    """The rows of all requests that are alike, with the rulings behind them and what these were made from."""

    def __init__(
        self, rows: Sequence[Row], rulings: Sequence[Ruling], subject: Subject, read: Read, resource: GroupVersionResource
    ) -> None:
        super().__init__(rows)
        self.rulings, self.subject, self.read, self.resource = rulings, subject, read, resource


class PodJudge:
    """See RecordJudge: it judges the creation of Pods, and writes of controllers."""

    def __init__(self, judge: Judge, is_about: Callable[[str], bool], *, with_owners: bool = False) -> None:
        """`is_about`: whether a user asks about a namespace.

        `with_owners`: the owner of an object decides, too, or its name where it has none; and no rows are made.
        """
        self._judge = judge
        self._is_about = is_about
        self._pods: dict[bytes, Pod] = {}
        self._with_owners = with_owners

    def lane(self, name: LaneName) -> Lane | None:
        """See RecordJudge. An update of a Pod counts by what it changes, so that it needs the Pod before."""
        place = (name.api_group, name.resource)
        if name.subresource or place not in RESOURCES - {NAMESPACES} or (place == PODS and name.verb != "create"):
            return None
        if name.verb not in ("create", "update", "patch"):
            return None
        return _PodLane(name, ReadSet(self._reads(*place)), is_pod=place == PODS)

    def _reads(self, group: str, resource: str) -> Reads:
        root = Reads()
        if self._judge.reads_user:
            root.at("request").at("userInfo").at("username")
        seen = root.at("object")
        if self._with_owners:
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

    def apart(self) -> Sequence[PodJudge]:
        """See RecordJudge."""
        return (self,)

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> PodRulings | None:
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
        is_asked = self._is_about(request.namespace)
        rows = [] if self._with_owners else [row_of(each, told, is_asked=is_asked) for each in rulings]
        return PodRulings(rows, rulings, subject, read, request.resource)

    def _same(self, pod: Pod) -> Pod:
        """An equal Pod that was met before: objects of many names and owners have it, and it is checked once."""
        if len(self._pods) > _PODS_MAX:
            self._pods.clear()
        return self._pods.setdefault(_encode([pod.annotations, pod.spec]), pod)

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[Row]:
        """See RecordJudge: single requests are met with their history."""
        raise NotImplementedError

    def has_failed(self, verdicts: Sequence[Row]) -> bool:
        """See RecordJudge."""
        return False

    def is_open(self, verdicts: Sequence[Row]) -> bool:
        """See RecordJudge."""
        return any(each.decision == "unknown" for each in verdicts)


class _PodLane(Lane):
    """A lane that leaves out what no check objects to, and what differs from Pod to Pod: volumes of allowed types, say."""

    def __init__(self, name: LaneName, reads: ReadSet, *, is_pod: bool) -> None:
        super().__init__(name, reads, False, ("annotations",))
        self._is_pod = is_pod

    def value(self, response: str) -> Object | None:
        """See Lane."""
        found = super().value(response)
        try:
            if found is not None and (template := template_of(self._resource, found)) is not None:
                _cut(template)
            # Nobody is owned by a Pod, so that its name says no more than its owner does.
            if found is not None and self._is_pod and any(map(_is_controller, found["metadata"].get("ownerReferences") or ())):
                found["metadata"].pop("name", None)
                found["metadata"].pop("generateName", None)
        except UNFIT:
            return None
        return found


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
