"""Roles that were learned from the earlier half of a user's time, tried on the later half."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ...cel.library.authorizer import Attributes
from .defaults import is_everybodys
from .needs import Grant
from .proof import Outcome, right_of


class LaterRights(NamedTuple):
    """How the roles of the earlier half did on the requests of the later half that lacked no permission then.

    `rights` are the distinct rights that the later half asked for, and `new_rights` those that the earlier half did not use.
    `refused_rights` and `unknown_rights` are those that the roles refuse, or may refuse. Requests that need only a cluster's
    default roles, or rights of another user, are left out.
    """

    middle: datetime
    allowed: int = 0
    refused: int = 0
    unknown: int = 0
    rights: int = 0
    new_rights: int = 0
    refused_rights: int = 0
    unknown_rights: int = 0
    examples: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """All tried requests."""
        return self.allowed + self.refused + self.unknown


def try_later(
    outcomes: Iterable[Outcome], learned: Iterable[Attributes | Grant], subject: str, middle: datetime, shown: int = 3
) -> LaterRights:
    """Count the outcomes of the later half. `shown` is the number of examples of refused rights."""
    before = {right_of(each) for each in learned if isinstance(each, Attributes)}
    requests: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    rights: dict[bool | None, set[Attributes]] = {True: set(), False: set(), None: set()}
    for judged, count in outcomes:
        if judged.ask is not None and (judged.ask.user.username != subject or is_everybodys(*judged.ask)):
            continue
        requests[judged.allowed] += count
        if judged.ask is not None:
            rights[judged.allowed].add(right_of(judged.ask.asked))
    every = rights[True] | rights[False] | rights[None]
    return LaterRights(
        middle,
        requests[True],
        requests[False],
        requests[None],
        len(every),
        len(every - before),
        len(rights[False]),
        len(rights[None] - rights[False]),
        tuple(sorted(map(str, rights[False]))[:shown]),
    )
