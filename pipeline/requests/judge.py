"""What judges recorded requests, as the walk over them sees it: the policies of a replay, or the rules of another stage.

A judge says which fields it reads of the requests of a class. Requests that are equal in these are alike to it, and it answers once
for all of them. The walk over the records, and all that is kept for later runs, knows no more of a stage than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ..authorization import AuthorizeUser
from ..history.event import Event
from ..history.reconstruct import Attempt
from ..history.versions import Versions
from ..request import AdmissionRequest
from ..runs.verdict import Verdict
from ..world import World
from .lanes import Lane, LaneName

V = TypeVar("V", bound=Verdict)


class RecordJudge(Protocol[V]):
    """Judges recorded requests."""

    def lane(self, name: LaneName) -> Lane | None:
        """What it reads of a class of plain requests; None if their own record is not enough, or none of its rules is for them."""
        ...

    def apart(self) -> Sequence[RecordJudge[V]]:
        """Judges that together say what it says, in this order; only itself where it cannot be taken apart.

        Each reads less than all, so that more requests are alike to it.
        """
        ...

    def answer_alike(
        self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, row: Mapping[str, Any]
    ) -> Sequence[V] | None:
        """The verdicts on every request like this one; None if each request needs its own evidence.

        They hold for other requests at the same state of the cluster if the fields of its lane are equal. `row` has the columns of
        the record that the lane names.
        """
        ...

    def answer(self, request: AdmissionRequest, world: World, authorize: AuthorizeUser, event: Event) -> Sequence[V]:
        """The verdicts on one request. `authorize` answers their checks of the authorizer.

        `event` is the record of the request: the server's answer may settle a verdict whose inputs are unknown.
        """
        ...

    def has_failed(self, verdicts: Sequence[V]) -> bool:
        """Whether a rule failed, or Hindcast did: then a body of an odd type may be the reason."""
        ...

    def is_open(self, verdicts: Sequence[V]) -> bool:
        """Whether some verdict is unknown."""
        ...


class AttemptJudge(RecordJudge[V], Protocol[V]):
    """Judges recorded requests for a stage that comes before validating admission: those, too, that never came so far.

    Of requests outside its lanes it is asked for `answer_attempt`, and not for `answer`.
    """

    def attempt(self, event: Event, versions: Versions) -> Attempt:
        """What a request was. May raise one of UNFIT for a body that is not an object of Kubernetes."""
        ...

    def answer_attempt(self, attempt: Attempt, event: Event) -> Sequence[V]:
        """The verdicts on one request. `event` is its record, which may lack the bodies."""
        ...

    def unread(self, event: Event) -> Sequence[V]:
        """The verdicts on a request whose body nests too deep."""
        ...
