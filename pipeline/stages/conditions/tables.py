"""The tables about chains of conditional authorizers."""

from __future__ import annotations

from collections.abc import Sequence

from ...tables import Column, Table, listed
from .chain import SIMULATED
from .difference import Change, Side
from .figures import Decided, Read, by_finding
from .matrix import Compared

_READ_NOTES = (
    SIMULATED,
    "proved: every selected object is allowed; refuted: the object in the same row is selected and not allowed",
)
_FINDINGS = ("refuted with a known object", "refuted with a hypothetical object", "unknown", "unconditional", "proved")


def chain_tables(found: Sequence[Read], others: Sequence[Decided]) -> list[Table]:
    """The proofs about lists and watches, and the decisions of the conditions on other requests."""
    counts = by_finding(found)
    totals = [(name, counts[name]) for name in _FINDINGS if counts[name]]
    tables = [
        Table("reads", [Column("finding"), Column("requests", number=True)], totals, "Lists and watches by proof", _READ_NOTES)
    ]
    asked = [each for each in found if each.finding not in ("proved", "unconditional")]
    if asked:
        columns = [
            Column("finding", wide=True),
            Column("requests", number=True),
            Column("user_name", "USER", may_shorten=True),
            Column("verb"),
            Column("resource", may_shorten=True),
            Column("selection", "SELECTS", may_shorten=True),
            Column("counterexample", "NOT ALLOWED", prose=True),
            Column("known", "KNOWN OBJECTS", number=True),
            Column("suggestions", "ASK INSTEAD", prose=True),
            Column("why", wide=True, prose=True),
            Column("example", "AUDIT ID", wide=True),
        ]
        tables.append(listed("refuted", columns, asked, "Lists and watches that are not proved"))
    columns = [
        Column("decision"),
        Column("code", number=True),
        Column("requests", number=True),
        Column("reason", prose=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    refused = [each for each in others if each.decision != "admit"]
    notes = (SIMULATED, "500: an error travels with the refusal, which the server answers as an internal error")
    if refused:
        tables.append(
            listed("conditional", columns, refused, "Other requests that the chain refuses, or whose outcome is unknown", notes)
        )
    return tables


def change_table(found: Sequence[Change]) -> Table:
    """What a change of a chain means for each subject."""
    columns = [
        Column("user", may_shorten=True),
        Column("verb"),
        Column("resource", may_shorten=True),
        Column("place", wide=True),
        Column("requests", number=True),
        Column("newly", "CAN NEWLY SEE", prose=True),
        Column("lost", "CAN NO LONGER SEE", prose=True),
        Column("open_watches", "OPEN WATCHES", number=True),
        Column("resumed", "LOST BETWEEN TWO WATCHES", prose=True, wide=True),
        Column("why", wide=True, prose=True),
    ]
    rows = [
        [
            each.user,
            each.verb,
            each.resource,
            each.place,
            each.requests,
            _side(each.newly),
            _side(each.lost),
            each.open_watches,
            "; ".join(f"{one.name}: {one.option}" for one in each.resumed),
            each.why,
        ]
        for each in found
    ]
    note = "nothing: proved for every object; known: objects that exist at the end of the window"
    return Table("changes", columns, rows, "What the change adds and takes away, by subject", (SIMULATED, note))


def _side(side: Side) -> str:
    """One side of a change in words."""
    if side.is_nothing:
        return "nothing"
    if side.is_unknown:
        return "unknown"
    known = f"{side.known} known" + (f": {', '.join(side.examples)}" if side.examples else "")
    return f"{' | '.join(side.selectors) or 'not expressible as selectors'} ({known})"


def matrix_table(found: Sequence[Compared]) -> Table:
    """Writes by what conditions and policies make of them."""
    columns = [
        Column("cell", "CONDITIONS AND POLICIES"),
        Column("requests", number=True),
        Column("operation"),
        Column("resource", may_shorten=True),
        Column("conditions_said", "CONDITIONS SAY", prose=True),
        Column("policies_said", "POLICIES SAY", prose=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    note = "conditions come first: of a write that both refuse, the client sees the refusal of the conditions"
    return listed("matrix", columns, found, "Writes under conditions, and under roles with policies", (SIMULATED, note))
