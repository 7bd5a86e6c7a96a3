"""Which exemptions are needed: without a needless one, no more requests are denied.

Where a stage has probes (stages/exempting.py), one replay says of each would-be denial which exclusions take it out. An exclusion
is needed if it alone takes one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from ...stages.exempting import Probed
from ..sql import rows_of
from .exemptions import Choice, Chosen

_COLUMNS = {
    "probe": pa.string(),
    "probe_binding": pa.string(),
    "policy": pa.string(),
    "binding": pa.string(),
    "expression_index": pa.int32(),
    "item": pa.int32(),
}


def needless_of(
    connection: duckdb.DuckDBPyConnection, choices: Mapping[str, Choice], rows: Sequence[Probed], probed: Path
) -> Iterator[tuple[str, list[Chosen]]]:
    """For each policy its needless exclusions, in the order in which they go; each goes only if those before it went.

    The items of `rows` number the exclusions of all choices in their order. `probed` are the verdicts of the probes. The table
    `verdicts` has those of the run, and `still_denied` the denials that all exclusions leave.
    """
    values = zip(*rows, strict=True)
    table = pa.table({name: pa.array(each, kind) for (name, kind), each in zip(_COLUMNS.items(), values, strict=True)})
    connection.register("probes", table)
    try:
        found = list(rows_of(connection, "taken_by_probes", {"probed": str(probed)}))
    finally:
        connection.unregister("probes")
    taken: dict[str, list[set[int]]] = {name: [] for name in choices}
    for row in found:
        taken[row["policy"]].append(set(row["items"]))
    first = 0
    for name, choice in choices.items():
        sets = [{item - first for item in each} for each in taken[name]]
        yield name, [choice.chosen[index] for index in _needless([item.width.passing_units for item in choice.chosen], sets)]
        first += len(choice.chosen)


def _needless(passing: Sequence[int], taken: Sequence[set[int]]) -> Iterator[int]:
    """The items that no set needs, one after the other: of those that could go, the one with the most passing workloads goes.

    One item stays in any case.
    """
    left = list(range(len(passing)))
    for _ in passing[1:]:
        needed = {item for each in taken if len(each) == 1 for item in each}
        left = [item for item in left if item not in needed]
        if not left:
            return
        dearest = max(reversed(left), key=lambda item: passing[item])
        yield dearest
        left.remove(dearest)
        for each in taken:
            each.discard(dearest)
