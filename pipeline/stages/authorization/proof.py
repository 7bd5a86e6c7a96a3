"""The proof of generated roles: the replay of `replay --only` over one user's requests, judged by the stage itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from queries import LakeReader

from ...cel.library.authorizer import Attributes
from ...cel.minors import DEFAULT
from ...request import Object
from ...runs.window import Window
from ..stage import Asked
from .asked import gather_asked
from .defaults import NAMES, is_everybodys
from .judging import Judged
from .overlay import Proposal
from .sql import statement
from .stage import Authorization
from .used_rights import LeftOut, of_cluster, was_granted

OF_EVERYBODY = f"the file leaves them to {', '.join(NAMES)}, the default roles of a cluster (--no-defaults)"
OF_NO_RULE = "no rule of the file allows them"
OF_ANOTHER = "they need rights of another user, and these roles are for one subject"
_BATCH_ROWS = 4096


class Check(NamedTuple):
    """The replay of a user's allowed requests under some roles."""

    allowed: int = 0
    refused: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """All replayed requests."""
        return self.allowed + self.refused + self.unknown


class Reason(NamedTuple):
    """Why some requests are refused or unknown under the roles, and one of the questions, if one decided."""

    why: str
    requests: int
    example: str = ""
    is_unknown: bool = False


@dataclass(frozen=True)
class Proof:
    """What `replay --only` says about the requests of a user that lacked no permission then, where only its roles exist.

    `reasons` says why requests are refused or unknown, with the most frequent first.
    """

    check: Check
    reasons: tuple[Reason, ...]


class Outcome(NamedTuple):
    """The outcome of some requests with one question."""

    judged: Judged
    requests: int


def proof_of(found: Sequence[Outcome], subject: str, left_out: Iterable[LeftOut] = ()) -> Proof:
    """The proof of roles for a user, by the outcomes of its requests and of those that another made as it.

    `left_out` says why the roles do not give some rights.
    """
    why, reasons = _Why(left_out), dict[str, Reason]()
    for judged, requests in found:
        if not judged.allowed:
            reason = why.of(judged, subject)
            example = str(judged.ask.asked) if judged.ask is not None else ""
            before = reasons.get(reason, Reason(reason, 0, example, judged.allowed is None))
            reasons[reason] = before._replace(requests=before.requests + requests)
    return Proof(_check(found), tuple(sorted(reasons.values(), key=lambda reason: (-reason.requests, reason.why))))


def outcomes(
    reader: LakeReader,
    objects: Iterable[Object],
    subject: str,
    cluster: str,
    window: Window,
    kubernetes_version: tuple[int, int] = DEFAULT,
) -> list[Outcome]:
    """The outcomes of a user's requests that lacked no permission then, where nothing but these roles and bindings exists."""
    stage = Authorization()
    rules = Proposal.from_objects((each, "generated") for each in objects)
    plan = stage.plan(reader, rules, Asked(window, kubernetes_version, replaces_all=True))
    gather_asked(reader, window.since, window.until, user=subject)
    judging = stage.judging(reader, plan)
    reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE passes AS {judging.of_asked()}")
    found = []
    for question, requests in _questions(reader):
        event, judged = judging.judged(question)
        if event.cluster == cluster and was_granted(event):
            found.append(Outcome(judged, requests))
    return found


def _questions(reader: LakeReader) -> Iterator[tuple[Mapping[str, Any], int]]:
    for batch in reader.sql(statement("questions")).to_arrow_reader(_BATCH_ROWS):
        for row in batch.to_pylist():
            yield row["question"], row["requests"]


def _check(outcomes: Iterable[Outcome]) -> Check:
    counts = Counter[bool | None]()
    for each in outcomes:
        counts[each.judged.allowed] += each.requests
    return Check(counts[True], counts[False], counts[None])


def right_of(asked: Attributes) -> Attributes:
    """A question without its selectors, which RBAC does not see, and with a Namespace as an object of the cluster."""
    return of_cluster(asked)._replace(field_selector="", label_selector="")


class _Why:
    """Why rights are not in the roles."""

    def __init__(self, left_out: Iterable[LeftOut]) -> None:
        found = tuple(left_out)
        self._by_right = {_right(each.asked): each.reason for each in found if each.asked is not None}
        self._by_kind = {(each.kind, each.namespace): each.reason for each in found if each.asked is None}

    def of(self, judged: Judged, subject: str) -> str:
        """Why a request is refused under the roles, or why that is unknown."""
        if judged.allowed is None or judged.ask is None:
            return judged.reason
        user, asked = judged.ask
        if user.username != subject:
            return OF_ANOTHER
        if is_everybodys(user, asked):
            return OF_EVERYBODY
        known = self._by_right.get(_right(asked)) or self._by_kind.get((judged.need, asked.namespace))
        return known or self._by_kind.get((judged.need, "")) or OF_NO_RULE


def _right(asked: Attributes) -> Attributes:
    """What rules see of a question, but for the name."""
    return right_of(asked)._replace(name="")
