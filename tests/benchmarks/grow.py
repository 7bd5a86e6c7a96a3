"""A larger lake from a recorded one: copies of its events with other audit IDs, times and names of objects.

Every file of the source becomes one file per copy, so that the new lake is cut into files as ingest left the old one. Objects that
policies look up in addition to the request (namespaces, roles, policies) are not copied, and a copy is a few microseconds later
than the one before: so all copies meet the same state of the cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import Lake

_NAME = '"metadata":{"name":"'
_NAME_WITHIN = 120  # characters from the start of a body: names of nested objects stand later
_COPY_US = 37
_LOOKED_UP = [
    "namespaces", "customresourcedefinitions", "roles", "rolebindings", "clusterroles", "clusterrolebindings",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings",
]  # fmt: skip


def grow(source: Path, target: Path, copies: int) -> int:
    """Write a new lake with so many copies of the events of another; returns the number of its events."""
    old, new = Lake.open(source), Lake.create(target)
    events = 0
    for file in old.manifest.files("events"):
        table = pq.read_table(source / file.path, partitioning=None)
        for copy in range(copies):
            made = _renamed(table.filter(_is_copied(table)), copy) if copy else table
            events += made.num_rows
            with new.writer() as writer:
                writer.commit(writer.write("events", file.cluster, made))
    old.close()
    new.close()
    return events


def _is_copied(table: pa.Table) -> Any:
    has_namespace, is_looked_up = pc.is_valid(table["namespace"]), pc.is_in(table["resource"], pa.array(_LOOKED_UP))
    return pc.fill_null(pc.and_(has_namespace, pc.invert(is_looked_up)), False)


def _renamed(table: pa.Table, copy: int) -> pa.Table:
    suffix, shift = f"-c{copy}", pa.scalar(copy * _COPY_US, pa.duration("us"))
    names: list[str | None] = table["name"].to_pylist()
    uris: list[str | None] = table["request_uri"].to_pylist()
    made: dict[str, Any] = {
        "audit_id": pc.binary_join_element_wise(table["audit_id"], suffix, ""),
        "name": pa.array([f"{name}{suffix}" if name else name for name in names], pa.string()),
        "request_uri": pa.array(
            [uri.replace(f"/{name}", f"/{name}{suffix}") if uri and name else uri for uri, name in zip(uris, names, strict=True)],
            pa.string(),
        ),
        "ts": pc.add(table["ts"], shift),
        "stage_ts": pc.add(table["stage_ts"], shift),
    }
    for column in ("request_object", "response_object"):
        made[column] = pa.array([_renamed_body(text, suffix) for text in table[column].to_pylist()], pa.string())
    for column, values in made.items():
        index = table.schema.get_field_index(column)
        table = table.set_column(index, table.schema.field(index), values)
    return table


def _renamed_body(text: str | None, suffix: str) -> str | None:
    start = text.find(_NAME, 0, _NAME_WITHIN) if text else -1
    if text is None or start < 0:
        return text
    end = text.index('"', start + len(_NAME))
    return f"{text[:end]}{suffix}{text[end:]}"


if __name__ == "__main__":
    print(f"{grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])):,} events")
