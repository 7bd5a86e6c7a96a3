"""The part of `hindcast calibrate` about Pod Security: recorded notes against the labels of that time."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from api.context import Context

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.runs.window import Window
    from pipeline.stages.pod_security.agreement import Agreement
    from queries.catalog import LakeFiles


def level_tables(
    own: Context, window: Window, version: tuple[int, int], shown: int | None, files: LakeFiles | None = None
) -> list[Table]:
    """The notes that disagree, and the agreement; empty for a log without notes of Pod Security."""
    from pipeline.stages.pod_security.agreement import recorded_agreement
    from queries import open_lake

    with closing(open_lake(own.lake, files=files)) as reader:
        found = recorded_agreement(reader, window, version[1])
    return [_disagreement_table(found, shown), _agreement_table(found)] if found else []


def _agreement_table(found: Agreement) -> Table:
    from api.printing.output import Column, Table

    columns = [Column("note"), *(Column(name, number=True) for name in ("compared", "agreed", "unknown"))]
    names = sorted({*found.compared, *found.unknown})
    rows = [[name, found.compared[name], found.agreed[name], found.unknown[name]] for name in names]
    agreed, compared = sum(found.agreed.values()), sum(found.compared.values())
    title = f"Recorded notes of Pod Security, compared with the labels of that time: {agreed:,} of {compared:,} agree word for word"
    return Table("pod_security", columns, rows, title)


def _disagreement_table(found: Agreement, shown: int | None) -> Table:
    from api.printing.output import Column, Table

    columns = [
        Column("cluster", wide=True),
        Column("audit_id", wide=True),
        Column("namespace", may_shorten=True),
        Column("note"),
        Column("recorded", prose=True),
        Column("replayed", prose=True),
    ]
    title = "Notes of Pod Security that disagree"
    rest = len(found.disagreements) - shown if shown is not None else 0
    notes = (f"{rest:,} more: -o json has all",) if rest > 0 else ()
    return Table("pod_security_disagreements", columns, [list(each) for each in found.disagreements[:shown]], title, notes)
