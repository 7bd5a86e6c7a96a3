"""The tables of a replay of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Sequence

from ...tables import Column, Table, listed
from .replay.figures import Figures

_OPEN_LOOP = (
    "each request meets the objects as recorded; `diverged_by` and `cascade_of` in the details name earlier verdicts that would "
    "have left others"
)
_RATCHETED = "ratcheted: invalid under the new definition, and admitted because the invalid part did not change"
_STILL = "still refused: the record refuses the request, here or at another stage, and the definition does not help it"
_DROPPED = "admitted, refused otherwise: if clients sent nothing that the definition of that time drops"


def schema_tables(title: str, found: Figures) -> list[Table]:
    """What becomes of the requests; then refused fields, their writers, changed fields, and why some are unknown."""
    return [_results(title, found), *filter(None, (_fields(found), _writers(found), _changed(found), _unknown(found)))]


def _results(title: str, found: Figures) -> Table:
    headings = {
        "warned": "WITH WARNING",
        "newly_refused": "NEWLY REFUSED",
        "still_refused": "STILL REFUSED",
        "newly_admitted": "NEWLY ADMITTED",
        "unreached": "NOT REACHED",
    }
    wide = ("newly_admitted", "unreached", "follow", "refused", "warned")
    names = (
        "requests", "newly_refused", "still_refused", "newly_admitted", "refused", "changed", "ratcheted", "warned", "admitted",
        "unknown", "unreached", "follow",
    )  # fmt: skip
    columns = [
        Column("definition", may_shorten=True),
        *(Column(name, headings.get(name, ""), number=True, wide=name in wide) for name in names),
    ]
    return listed("definitions", columns, found.results, title, (_RATCHETED, _STILL, _OPEN_LOOP))


def _fields(found: Figures) -> Table | None:
    columns = [
        Column("requests", number=True),
        Column("definition", may_shorten=True),
        Column("field"),
        Column("error", prose=True),
        Column("users", number=True, wide=True),
        Column("objects", number=True, wide=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    return _listed("refused_fields", columns, found.fields, "Newly refused, by field")


def _writers(found: Figures) -> Table | None:
    columns = [
        Column("requests", number=True),
        Column("of_requests", "OF ALL", number=True),
        Column("user_name", "USER", may_shorten=True),
        Column("definition", may_shorten=True),
        Column("verbs"),
        Column("objects", number=True),
        Column("rule_ref", "MOST FREQUENT", wide=True),
        Column("last_ts", "LAST", wide=True),
    ]
    return _listed("writers", columns, found.writers, "Newly refused: whose writes")


def _changed(found: Figures) -> Table | None:
    columns = [
        Column("requests", number=True),
        Column("definition", may_shorten=True),
        Column("change"),
        Column("path"),
        Column("before"),
        Column("after"),
        Column("example", "AUDIT ID", wide=True),
    ]
    return _listed("changed_fields", columns, found.changed, "Stored otherwise than recorded, by field")


def _unknown(found: Figures) -> Table | None:
    columns = [
        Column("requests", number=True),
        Column("why", "WHY UNKNOWN", prose=True),
        Column("admitted_otherwise", "ADMITTED OTHERWISE", number=True),
        Column("refused_otherwise", "REFUSED OTHERWISE", number=True),
        Column("example", "AUDIT ID", wide=True),
    ]
    return _listed("unknown", columns, found.unknown, "Requests whose outcome is unknown", (_DROPPED,))


def _listed(key: str, columns: list[Column], records: Sequence[object], title: str, notes: tuple[str, ...] = ()) -> Table | None:
    return listed(key, columns, records, title, notes) if records else None
