"""Walks the recorded requests that Pod Security is asked about, in the order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from queries import LakeReader

from ...admission.policies.model import ParamKind
from ...authorization import RecordedRbac
from ...history.world import LogHistory
from ...replay.met import Met, choose, met
from ...replay.past import load_history
from ...replay.plain import Place, plain
from ...replay.worlds import Worlds
from ...requests.classes import ADMISSION, Requests
from ...runs.window import Window
from .given import Given
from .judging import Judge
from .labels import LabelsInForce
from .lane import PodJudge, PodRulings
from .modes import Modes
from .namespaces import NamespaceJudge
from .noted import noted_configuration
from .reading import PodReader
from .ruling import Ruling
from .subject import NAMESPACES, concerns, ignored_by

T = TypeVar("T")
_POD = ParamKind("v1", "Pod")
_UNREAD: Sequence[Ruling] = Modes(None, "", True).all("unknown", "the request could not be read")
_ANNOTATED = """
    SELECT cluster FROM events
    WHERE list_contains(map_keys(annotations), 'pod-security.kubernetes.io/enforce-policy')
    GROUP BY cluster
"""


class Walk:
    """The requests of one window. It leaves tables in the connection of its reader."""

    def __init__(self, reader: LakeReader, given: Given, window: Window, minor: int, *, meets_ignored: bool = False) -> None:
        """With `meets_ignored` it also meets the requests that the plugin ignores."""
        self._reader = reader
        self._past: LogHistory | None = None
        self.window = window
        self.history = load_history(reader, (), window)
        self._given, self._worlds, self._rbac = given, Worlds(self.history), RecordedRbac(self.history, {})
        self.labels = LabelsInForce(given, self.history)
        self.configuration = given.configuration or noted_configuration(reader, LabelsInForce(Given({}), self.history), window)
        every = Requests.of(reader, ADMISSION, window)
        asked = every.only(concerns)
        self._requests = asked if meets_ignored else asked.only(lambda item: not ignored_by(item))
        self.excluded = every.excluded(asked, "Pod Security is not asked about this resource and operation")
        for item in asked.classes:
            if why := ignored_by(item):
                self.excluded[why] = self.excluded.get(why, 0) + item.requests
        self._annotated = frozenset(cluster for (cluster,) in reader.sql(_ANNOTATED).fetchall())
        self._minor = minor
        self.pods = PodReader(self._with_pods, minor, self._annotated)
        self._judge = self.judge(given)
        self._of_namespaces = NamespaceJudge(self.history, self._with_pods, self.configuration, minor)

    @property
    def requests(self) -> int:
        """How many requests Pod Security is asked about."""
        return self._requests.count

    def rulings(self, share: Window | None = None) -> Iterator[tuple[Met, Sequence[Ruling]]]:
        """The rulings on each request of a share."""
        return self.met(self._rulings, _UNREAD, share)

    def met(self, judge: Callable[[Met], T], unread: T, share: Window | None = None) -> Iterator[tuple[Met, T]]:
        """What a judge says of each request of a share; `unread` of one that is nested too deep."""
        return met(self._requests, self._reader, self.history, judge, unread, share=share)

    def plain(
        self, judge: Judge | None = None, share: Window | None = None, *, with_owners: bool = False
    ) -> Iterator[tuple[Place, PodRulings]]:
        """The requests of a share that their own record decides, with the rulings; those with equal Pods have the same.

        `others` has the rest, once this came to its end.
        """
        of_pods = PodJudge(judge or self._judge, self._given.is_about, with_owners=with_owners)
        choose(self._requests, self._reader, share)
        for place, found in plain(self._requests, self._reader, of_pods, self._worlds, self._rbac, share):
            assert isinstance(found, PodRulings)
            yield place, found

    def others(self, judge: Callable[[Met], T], unread: T, share: Window | None = None) -> Iterator[tuple[Met, T]]:
        """As `met`, of the requests that `plain` left."""
        return met(self._requests, self._reader, self.history, judge, unread, share=share, is_chosen=True)

    def other_rulings(self, share: Window | None = None) -> Iterator[tuple[Met, Sequence[Ruling]]]:
        """The rulings on each request that `plain` left."""
        return self.others(self._rulings, _UNREAD, share)

    def judge(self, given: Given) -> Judge:
        """The judge of Pods and controllers under other labels or another configuration."""
        labels = LabelsInForce(given, self.history)
        is_given = given.configuration is not None
        known = given.configuration or self.configuration
        return Judge(labels, self.pods, known, self._minor, self._annotated, is_given=is_given)

    def _with_pods(self) -> LogHistory:
        if self._past is None:
            with self._reader.session() as past:
                self._past = load_history(past, (_POD,), self.window)
        return self._past

    def _rulings(self, found: Met) -> Sequence[Ruling]:
        is_namespace = found.event.resource.resource == NAMESPACES[1]
        return self._of_namespaces.rulings(found) if is_namespace else self._judge.rulings(found)
