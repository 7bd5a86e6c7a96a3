"""The part of `hindcast calibrate` about authorization: recorded decisions against the roles and bindings of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from api.context import Context
from pipeline.stages.authorization.calibration import Decided

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.authorization import OtherAuthorizers
    from pipeline.runs.window import Window
    from pipeline.stages.authorization.calibration import Agreement
    from queries.catalog import LakeFiles


_REASONS_SHOWN = 5
_PAIRS = tuple((recorded, replayed) for recorded in (Decided.ALLOW, Decided.FORBID) for replayed in Decided)
_UNKNOWN = tuple(pair for pair in _PAIRS if pair[1] is Decided.UNKNOWN)
_DIFFERENT = tuple(pair for pair in _PAIRS if pair[0] is not pair[1] and pair not in _UNKNOWN)


def authorization_tables(
    own: Context,
    window: Window,
    version: tuple[int, int],
    others: OtherAuthorizers | None,
    shown: int | None,
    by_resource: bool,
    files: LakeFiles | None = None,
) -> list[Table]:
    """The requests that disagree, and the agreement; empty for a log without decisions of authorizers."""
    from pipeline.requests.authorizers import other_authorizers
    from pipeline.stages.authorization.calibration import recorded_agreement
    from queries import open_lake

    with closing(open_lake(own.lake, files=files)) as reader:
        found = recorded_agreement(reader, window, dict(other_authorizers(reader, window, others)), version)
    return [disagreement_table(found, shown), agreement_table(found, by_resource)] if found.compared else []


def agreement_table(found: Agreement, by_resource: bool = True) -> Table:
    """One row per permission and resource, or per permission, with a column for each recorded and replayed decision."""
    from api.printing.output import Column, Table

    columns = [Column("asked"), *([Column("resource", may_shorten=True)] if by_resource else [])]
    columns += [Column(f"{recorded}_as_{replayed}", number=True) for recorded, replayed in _PAIRS]
    figures: dict[tuple[str, ...], Counter[tuple[Decided, Decided]]] = {}
    for (need, resource), counts in found.confusion().items():
        figures.setdefault((need, resource) if by_resource else (need,), Counter()).update(counts)
    # Rows with a disagreement come first, then those with unknown decisions.
    order = sorted(figures.items(), key=lambda entry: (-_total(entry[1], _DIFFERENT), -_total(entry[1], _UNKNOWN), entry[0]))
    rows = [[*key, *(counts[pair] for pair in _PAIRS)] for key, counts in order]
    counted = found.count()
    compared = counted["agreed"] + counted["disagreed"]
    title = f"Recorded decisions of authorizers, compared with the roles of that time: {counted['agreed']:,} of {compared:,} agree"
    unknown = [f"{count:,} unknown: {why}" for why, count in found.unknown_reasons().most_common(_REASONS_SHOWN)]
    kinds = "asked: the request itself, a further permission of it, or a recorded access review"
    return Table("authorization", columns, rows, title, (kinds, *unknown))


def _total(counts: Counter[tuple[Decided, Decided]], pairs: Iterable[tuple[Decided, Decided]]) -> int:
    return sum(counts[pair] for pair in pairs)


def disagreement_table(found: Agreement, shown: int | None) -> Table:
    """The requests whose decision or reason disagrees; only the first `shown`, unless that is None."""
    from api.printing.output import Column, Table

    rows = found.disagreements()
    names = ("first_ts", "user", "asked", "recorded", "replayed")
    columns = [
        *(Column(name, may_go={"first_ts": 2, "asked": 1}.get(name, 0), may_shorten=name == "user") for name in names),
        Column("recorded_reason", prose=True),
        Column("replayed_reason", prose=True),
        Column("requests", number=True),
        Column("audit_id", wide=True),
    ]
    cells: list[list[Any]] = [
        [
            *(each.first_ts, each.user, each.asked, str(each.recorded), str(each.replayed)),
            *(each.recorded_reason, each.why, each.requests, each.audit_id),
        ]
        for each in rows[:shown]
    ]
    more = len(rows) - len(cells)
    notes = (f"{more} more: -o json has all",) if more > 0 else ()
    return Table("authorization_disagreements", columns, cells, "Decisions of authorizers that disagree", notes)
