"""What RBAC says of recorded requests, as a member of a chain.

The record of the request itself is the best evidence: it says that RBAC allowed the request, or that no authorizer did. Where
another authorizer allowed it, the roles and bindings of that time answer, if the log tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from queries import LakeReader

from ...authorization.rbac import authorize
from ...authorization.recorded import RecordedRbac
from ...cel.library.authorizer import Attributes
from ...request import UserInfo
from ...requests.past import load_history
from ...runs.window import Window
from .compiled import Answer
from .judging import Question
from .logic.translate import Semantics
from .model import Effect, Plain
from .sql import statement


class RbacAnswers:
    """RBAC's answers, each found once. Roles are read only if some request needs them."""

    def __init__(self, reader: LakeReader, window: Window) -> None:
        self._reader = reader
        self._window = window
        self._rbac: RecordedRbac | None = None
        self._moments: dict[str, Sequence[datetime]] = {}
        self._kept: dict[tuple[str, str, tuple[str, ...], Attributes], bool | None] = {}

    def answer(self, question: Question) -> Answer:
        """What RBAC says of the requests with a question."""
        if question.recorded == "RBAC":
            return Answer("", Plain(Effect.ALLOW, "RBAC allowed it"), Semantics.CEL)
        if question.recorded == "forbid":
            return Answer("", Plain(Effect.NO_OPINION), Semantics.CEL)
        return self._of_roles(question)

    def _of_roles(self, question: Question) -> Answer:
        """The answer of the roles, if it was the same at all times of the log."""
        assert question.info is not None
        if self._rbac is None:
            self._rbac = RecordedRbac(load_history(self._reader, (), self._window), {})
        found = self._over_time(self._rbac, question.cluster, question.user, question.info.attributes)
        if found is None:
            return Answer("", None, Semantics.CEL, "the log has no opinion of RBAC, and the roles of that time leave it open")
        return Answer("", Plain(Effect.ALLOW, "RBAC allows it") if found else Plain(Effect.NO_OPINION), Semantics.CEL)

    def _over_time(self, rbac: RecordedRbac, cluster: str, user: UserInfo, attributes: Attributes) -> bool | None:
        """The one answer of the roles of all times; None if it is unknown or changed."""
        key = (cluster, user.username, user.groups, attributes)
        if key not in self._kept:
            moments = self._moments_of(rbac, cluster)
            first: bool | None = None
            for place, moment in enumerate(moments):
                found = authorize(rbac.at(cluster, moment), user, attributes).allowed
                first = found if not place else first
                if found is None or found is not first:
                    first = None
                    break
            self._kept[key] = first
        return self._kept[key]

    def _moments_of(self, rbac: RecordedRbac, cluster: str) -> Sequence[datetime]:
        """The first request of a cluster, and every later moment at which some role may change for its requests."""
        found = self._moments.get(cluster)
        if found is None:
            ((first, last),) = self._reader.connection.execute(statement("span"), {"cluster": cluster}).fetchall()
            found = self._moments[cluster] = [first, *(moment for moment in rbac.moments(cluster) if first < moment <= last)]
        return found
