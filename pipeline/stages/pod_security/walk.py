"""The recorded requests that Pod Security is asked about, and what judges them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from queries import LakeReader

from ...history.event import Event
from ...history.outcome import Admission
from ...history.reconstruct import Attempt, NotReplayed
from ...history.world import LogHistory
from ...policies.model import ParamKind
from ...request import AdmissionRequest
from ...requests.classes import ADMISSION, RequestClass, Requests
from ...requests.collecting import Found, collect, keep_records
from ...requests.kept.whole import rows_about
from ...requests.met import Met, met
from ...requests.past import load_history
from ...requests.plan import RecordsPlan
from ...runs.apart import code_name
from ...runs.window import Window
from .attempts import attempt_of
from .given import Given
from .judging import Judge
from .labels import LabelsInForce
from .lane import PodJudge
from .namespaces import NamespaceJudge
from .noted import noted_configuration
from .reading import PodReader
from .ruling import NAME, UNREAD, Ruling
from .subject import NAMESPACES, PODS, concerns, ignored_by

_POD = ParamKind("v1", "Pod")
_ANNOTATED = """
    SELECT cluster FROM events
    WHERE list_contains(map_keys(annotations), 'pod-security.kubernetes.io/enforce-policy')
    GROUP BY cluster
"""


def kept_attempts() -> Sequence[str]:
    """See RecordsPlan.keeps: the attempts as this stage reads them."""
    return f"attempts-{NAME}", code_name()


@dataclass(frozen=True, kw_only=True)
class _Looking(RecordsPlan):
    """A plan that makes no run: this process looks at the verdicts, or requests are only read, to be kept."""

    FORMAT = 1

    judged: tuple[LogHistory, PodJudge] = field(compare=False, repr=False)
    is_looked_at: bool = True

    @property
    def judges(self) -> bool:
        """See RecordsPlan."""
        return self.is_looked_at

    def judge(self, reader: LakeReader) -> tuple[LogHistory, PodJudge]:
        """See RecordsPlan."""
        return self.judged

    @property
    def keeps(self) -> Sequence[str]:
        """See RecordsPlan."""
        return kept_attempts()


class Walk:
    """The requests of one window. It leaves tables in the connection of its reader."""

    def __init__(self, reader: LakeReader, given: Given, window: Window, minor: int, *, meets_ignored: bool = False) -> None:
        """With `meets_ignored` it also meets the requests that the plugin ignores."""
        self._reader = reader
        self._past: LogHistory | None = None
        self.window = window
        self.history = load_history(reader, (), window)
        self._given = given
        self.labels = LabelsInForce(given, self.history)
        self.configuration = given.configuration or noted_configuration(reader, LabelsInForce(Given({}), self.history), window)
        every = Requests.of(reader, ADMISSION, window)
        asked = every.only(concerns)
        self._requests = asked if meets_ignored else asked.only(lambda item: not ignored_by(item))
        self.excluded = every.excluded(asked, "Pod Security is not asked about this resource and operation")
        for item in asked.classes:
            if why := ignored_by(item):
                self.excluded[why] = self.excluded.get(why, 0) + item.requests
        self._annotated = frozenset(row["cluster"] for row in rows_about(reader, "pod-security-clusters", _ANNOTATED))
        self._minor = minor
        self._pods = PodReader(minor, self._annotated)
        self._of_namespaces = NamespaceJudge(self._with_pods, self.configuration, minor)

    @property
    def requests(self) -> int:
        """How many requests Pod Security is asked about."""
        return self._requests.count

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes of these. An update of a Pod or a namespace is compared with the object before."""
        return tuple(
            replace(item, reads_old_object=(item.api_group, item.resource) in (PODS, NAMESPACES)) for item in self._requests.classes
        )

    def rulings(self) -> Iterator[tuple[Met, Sequence[Ruling]]]:
        """The rulings on each request, in the order of arrival. Each is met by itself: for few requests."""
        judge = self.pod_judge(self._given)
        return met(self._requests, self._reader, self.history, lambda each: judge.rulings(each.event, self.attempt(each)), UNREAD)

    def rulings_on(self, event: Event, request: AdmissionRequest) -> Sequence[Ruling]:
        """The rulings on a request that comes to the plugin with another object than the recorded one."""
        return self.pod_judge(self._given).of_object(event, request)

    def attempt(self, each: Met) -> Attempt:
        """What a request that was met by itself was."""
        if each.unfit:
            return Attempt(NotReplayed(each.unfit, Admission.UNKNOWN), None)
        return attempt_of(each.event, each.versions, self.history, self._with_pods)

    def pod_judge(self, given: Given, *, with_owners: bool = False, with_rows: bool = True) -> PodJudge:
        """What judges all requests under some labels and some configuration: see PodJudge."""
        labels = LabelsInForce(given, self.history)
        known = given.configuration or self.configuration
        judge = Judge(labels, self._pods, known, self._minor, self._annotated, is_given=given.configuration is not None)
        return PodJudge(
            judge, self._of_namespaces, self.history, self._with_pods, given.is_about, with_owners=with_owners, with_rows=with_rows
        )

    def collected(self, given: Given | None = None, *, with_owners: bool = False) -> list[Found]:
        """The rulings on all requests, as PodRulings, under some labels or those of the walk. With owners, namespaces lack."""
        judge = self.pod_judge(given or self._given, with_owners=with_owners, with_rows=False)
        classes = tuple(each for each in self.classes if not with_owners or each.resource != NAMESPACES[1])
        return collect(self._looking(judge, classes), self._reader)

    def keep(self) -> None:
        """Keep what later runs need of the requests."""
        keeping = replace(self._looking(self.pod_judge(self._given, with_owners=True), self.classes), is_looked_at=False)
        keep_records(keeping, self._reader)

    def _looking(self, judge: PodJudge, classes: tuple[RequestClass, ...]) -> _Looking:
        return _Looking(
            stage=NAME,
            kubernetes_version=(1, self._minor),
            window=self.window,
            lake_digest="",
            requests=sum(each.requests for each in classes),
            bindings=(),
            classes=classes,
            files=self._reader.files,
            judged=(self.history, judge),
        )

    def _with_pods(self) -> LogHistory:
        if self._past is None:
            with self._reader.session() as past:
                self._past = load_history(past, (_POD,), self.window)
        return self._past
