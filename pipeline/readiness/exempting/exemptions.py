"""Exemptions: the fewest and narrowest exclusions with which a policy has no would-be denial, and the requests they hide.

The search is exact for small problems. It weighs the requests that an exclusion hides: one more exclusion costs as much as one
passing workload that would no longer be judged. An unknown request stays unknown under any exemption, and never counts as clean.

Exemptions that fit the past may not fit later requests. So they are found in the earlier half of the time and tried on the later
half (see ReadinessRules).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from queries import LakeReader

from ..counting.bounds import upper_bound
from ..counting.units import find_units_unless_found
from ..sql import statement
from .barred import Barred
from .cover import cheapest_cover
from .exclusions import Exclusion, Exposed, Kind, cost, hiding, separates, worth_proposing
from .measures import LaterTrial

# Above this many candidates, exclusions of single objects are left out: a list so long is not kept up to date.
_CANDIDATES_MAX = 1_500
NOTHING = Barred()


@dataclass(frozen=True, slots=True)
class Width:
    """The requests that exclusions take out: would-be denials, passing ones, and unknown ones."""

    denied_requests: int = 0
    denied_units: int = 0
    passing_requests: int = 0
    passing_units: int = 0  # workloads without a would-be denial
    unknown_requests: int = 0
    units: int = 0

    @classmethod
    def of(cls, rows: Iterable[Exposed]) -> Width:
        """The width of exclusions that take out these rows; each row must be given once."""
        requests: dict[str, int] = defaultdict(int)
        units: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for row in rows:
            requests[row.outcome] += row.requests
            units[row.outcome].add(row.workload)
        every = set().union(*units.values())
        passing = units["admit"] - units["deny"]
        return cls(requests["deny"], len(units["deny"]), requests["admit"], len(passing), requests["unknown"], len(every))

    @property
    def requests(self) -> int:
        """All requests that are taken out."""
        return self.denied_requests + self.passing_requests + self.unknown_requests

    def __str__(self) -> str:
        text = (
            f"also exempts {_count(self.passing_requests, 'request')} of {_count(self.passing_units, 'workload')} that would pass"
        )
        unknown = f", and {_count(self.unknown_requests, 'request')} that {'is' if self.unknown_requests == 1 else 'are'} unknown"
        return text + (unknown if self.unknown_requests else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """One proposed exclusion and the requests it takes out, over all bindings that it concerns."""

    exclusion: Exclusion
    width: Width


@dataclass(frozen=True)
class Choice:
    """The exclusions for one policy. `left` are would-be denials that no exclusion reaches, `width` is the width of all together.

    `later` says how the exclusions found in the earlier half of the time did in the later half; None if this was not tried.
    """

    policy: str
    chosen: tuple[Chosen, ...] = ()
    left: tuple[Exposed, ...] = ()
    width: Width = Width()
    exposed: Width = Width()
    later: LaterTrial | None = None

    def minus(self, item: Chosen, rows: Sequence[Exposed]) -> Choice:
        """Without one of the exclusions."""
        kept = tuple(each for each in self.chosen if each != item)
        return replace(self, chosen=kept, width=_taken(rows, (each.exclusion for each in kept)))


def choose_validated(rows: Sequence[Exposed], without: Barred = NOTHING, confidence: float = 0.95) -> Choice:
    """The exclusions of the earlier half of the time if they leave no denial in the later half, else those of the whole time."""
    earlier = choose_exclusions([row for row in rows if not row.is_later], without)
    exclusions = {item.exclusion for item in earlier.chosen}
    later = try_later(rows, exclusions, confidence)
    if later.workloads_denied or earlier.left:
        return replace(choose_exclusions(rows, without), later=later)
    hidden: dict[Exclusion, list[Exposed]] = {exclusion: [] for exclusion in exclusions}
    for row in rows:
        for exclusion in exclusions.intersection(hiding(row)):
            hidden[exclusion].append(row)
    return Choice(
        policy=rows[0].policy if rows else "",
        chosen=tuple(Chosen(item.exclusion, Width.of(hidden[item.exclusion])) for item in earlier.chosen),
        width=_taken(rows, exclusions),
        exposed=Width.of(rows),
        later=later,
    )


def try_later(rows: Sequence[Exposed], exclusions: Collection[Exclusion], confidence: float) -> LaterTrial:
    """Try exclusions on the later half of the time. A workload is new there if the policy did not match it before."""
    chosen = set(exclusions)
    before = {row.workload for row in rows if not row.is_later}
    judged = {row.workload for row in rows if row.is_later and row.outcome != "unknown"}
    denied = {row.workload for row in rows if row.is_later and row.outcome == "deny" and chosen.isdisjoint(hiding(row))}
    return LaterTrial(
        exemptions=len(chosen),
        workloads=len(judged),
        workloads_denied=len(denied),
        new_workloads=len(judged - before),
        new_workloads_denied=len(denied - before),
        new_rate_upper=upper_bound(len(denied - before), len(judged - before), confidence),
    )


def choose_exclusions(rows: Sequence[Exposed], without: Barred = NOTHING) -> Choice:
    """The cheapest irredundant exclusions that hide every would-be denial among the rows of one policy.

    The search leaves out exclusions that `without` bars. The same rows in any order give the same choice.
    """
    denied = [row for row in rows if row.outcome == "deny"]
    masks, hidden = _candidates(rows, denied, without)
    candidates = sorted(masks, key=lambda exclusion: exclusion.order)
    if len(candidates) > _CANDIDATES_MAX:
        single = (Kind.OBJECT, Kind.WORKLOAD)
        candidates = [exclusion for exclusion in candidates if exclusion.kind not in single]
    reachable = 0
    for exclusion in candidates:
        reachable |= masks[exclusion]
    costs = [_cost(exclusion, hidden[exclusion]) for exclusion in candidates]
    picked = [candidates[index] for index in cheapest_cover(costs, [masks[exclusion] for exclusion in candidates], reachable)]
    return Choice(
        policy=rows[0].policy if rows else "",
        chosen=tuple(Chosen(exclusion, Width.of(hidden[exclusion])) for exclusion in picked),
        left=tuple(row for index, row in enumerate(denied) if not reachable >> index & 1),
        width=_taken(rows, picked),
        exposed=Width.of(rows),
    )


def _taken(rows: Sequence[Exposed], exclusions: Iterable[Exclusion]) -> Width:
    """The width of some exclusions together."""
    chosen = set(exclusions)
    return Width.of(row for row in rows if any(exclusion in chosen for exclusion in hiding(row)))


def _candidates(
    rows: Sequence[Exposed], denied: Sequence[Exposed], without: Barred
) -> tuple[dict[Exclusion, int], dict[Exclusion, list[Exposed]]]:
    """The candidates, each with a mask of the denied rows and the list of all rows that it takes out."""
    proposed = {exclusion for row in denied for exclusion in hiding(row) if worth_proposing(row, exclusion)}
    proposed = {exclusion for exclusion in proposed if not without.bars(exclusion)}
    hidden: dict[Exclusion, list[Exposed]] = defaultdict(list)
    masks: dict[Exclusion, int] = defaultdict(int)
    for row in rows:
        for exclusion in hiding(row):
            if exclusion in proposed:
                hidden[exclusion].append(row)
    for index, row in enumerate(denied):
        for exclusion in hiding(row):
            if exclusion in proposed and separates(exclusion, hidden[exclusion]):
                masks[exclusion] |= 1 << index
    return masks, hidden


def _cost(exclusion: Exclusion, hidden: Sequence[Exposed]) -> int:
    denied = {row.workload for row in hidden if row.outcome == "deny"}
    passing = {row.workload for row in hidden if row.outcome == "admit"} - denied
    unknown = {row.workload for row in hidden if row.outcome == "unknown"} - denied - passing
    return cost(exclusion, len(passing), len(unknown))


def exposed_rows(reader: LakeReader, verdicts: Path) -> dict[str, list[Exposed]]:
    """The matched requests of policies with would-be denials, by policy: the rows from which exemptions are chosen."""
    reader.connection.execute(statement("exposed_run"), {"verdicts": str(verdicts)})
    return _exposed(reader)


def exposed_of_verdicts(reader: LakeReader) -> dict[str, list[Exposed]]:
    """The same for any stage, from the table `verdicts` in the connection of a reader, as assess.judge_units makes it."""
    reader.connection.execute(statement("exposed_stage"))
    return _exposed(reader)


def _exposed(reader: LakeReader) -> dict[str, list[Exposed]]:
    find_units_unless_found(reader.connection)
    found: dict[str, list[Exposed]] = defaultdict(list)
    for row in reader.rows(statement("exposed")):
        found[row["policy"]].append(Exposed.from_row(row))
    return dict(found)
