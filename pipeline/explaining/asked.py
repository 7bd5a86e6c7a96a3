"""A question about one recorded request, as each stage answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ..authorization import OtherAuthorizers
from ..cel.minors import DEFAULT
from ..history.in_force import CHANGE_DELAY
from ..runs.window import Window
from .redaction import Redaction

_ALL_TIME = Window()
_PLAIN = Redaction()
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what to show of it: all judged things, or only those of these `names`.

    `change_delay` is the time after its write in which a rule may not be in force yet. `ts` is when the request was received.
    """

    names: frozenset[str] = frozenset()
    version: tuple[int, int] = DEFAULT
    window: Window = _ALL_TIME
    change_delay: timedelta = CHANGE_DELAY
    other_authorizers: Mapping[str, OtherAuthorizers] | None = None
    redaction: Redaction = _PLAIN
    cluster: str = ""
    audit_id: str = ""
    ts: datetime = _NO_TIME

    def about(self, cluster: str, audit_id: str, ts: datetime) -> Asked:
        """The same question about another request."""
        return replace(self, cluster=cluster, audit_id=audit_id, ts=ts)

    @property
    def moment(self) -> Window:
        """The window of this request alone, but for others of the same microsecond."""
        return Window(self.ts, self.ts + timedelta(microseconds=1))

    def wants(self, *names: str) -> bool:
        """Whether a thing of one of these names is asked about."""
        return not self.names or not self.names.isdisjoint(names)
