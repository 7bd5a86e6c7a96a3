"""The part of the record that a page shows: filters that all pages share, under the names of the command line and of the API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from fastapi import Query

from ingest.errors import InputError

from ..asked_values import parse_time

# The spans that the forms offer at one click, in the form of `since`.
SPANS = (("1d", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))

Text = Annotated[str, Query(max_length=1_000)]


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters as the address has them; an empty filter does not restrict."""

    since: str = ""
    until: str = ""
    namespace: str = ""
    cluster: str = ""
    policy: str = ""

    def given(self, *names: str) -> dict[str, str]:
        """The non-empty filters among these names, or among all."""
        return {name: getattr(self, name) for name in names or self.__slots__ if getattr(self, name)}

    def filters(self, *names: str) -> dict[str, Any]:
        """The same filters in the form of questions.py: times as texts, everything else as lists."""
        return {name: value if name in ("since", "until") else [value] for name, value in self.given(*names).items()}

    def window(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """[since, until) in UTC. Raises InputError for an invalid time, and where the first is not before the second."""
        since, until = parse_time("since", self.since or None, now), parse_time("until", self.until or None, now)
        if since is not None and until is not None and since >= until:
            raise InputError(f"since: {self.since} is not before {self.until}", "give an earlier one")
        return since, until

    def overlaps(self, first: datetime | None, last: datetime | None, now: datetime) -> bool:
        """Whether the span from `first` to `last` overlaps the window. A span without times always does."""
        since, until = self.window(now)
        return not ((since and last and last < since) or (until and first and first >= until))

    def words(self) -> str:
        """The filters in words: `in namespace shop, since 7d`."""
        found = [f"in namespace {self.namespace}"] if self.namespace else []
        found += [f"of cluster {self.cluster}"] if self.cluster else []
        found += [f"since {self.since}"] if self.since else []
        found += [f"until {self.until}"] if self.until else []
        return ", ".join(found)


def selection_of(since: Text = "", until: Text = "", namespace: Text = "", cluster: Text = "", policy: Text = "") -> Selection:
    """The filters of an address. Raises InputError for an invalid window."""
    found = Selection(*(text.strip() for text in (since, until, namespace, cluster, policy)))
    found.window(datetime.now(UTC))
    return found


def of_day(day: date) -> dict[str, str]:
    """`since` and `until` of one UTC day."""
    return {"since": day.isoformat(), "until": (day + timedelta(days=1)).isoformat()}
