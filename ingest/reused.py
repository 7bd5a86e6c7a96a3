"""Audit IDs that several requests have: clients choose them (kubernetes#101597), and stores of whole seconds tell no difference.

A row's identity is (cluster, audit_id, stage, stage_ts). Copies of one event name the same verb, object and time of arrival. A row
with the identity of another one that differs in these is another request. It is kept under an audit ID of its own, which follows
from its content: so the same event read again has the same one. The note `reused` has the ID that the client chose.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import xxhash

from .aggregated import AGGREGATED
from .reviewed import REVIEWED

REUSED = "reused"
# What copies of one event agree in, as far as both have it.
_SAME = ("verb", "api_group", "resource", "subresource", "namespace", "name")
_HIDDEN = "REDACTED|blake2b:"
_differing = " OR ".join(
    (
        *(f"differ(a.{name}, b.{name})" for name in _SAME),
        "differ(split_part(a.request_uri, '?', 1), split_part(b.request_uri, '?', 1))",
        # A store may have rounded one of both, and a copy without this time has that of its stage.
        "(a.ts <> b.ts AND is_exact(a.ts, a.stage_ts) AND is_exact(b.ts, b.stage_ts))",
    )
)
MACROS = (
    f"CREATE OR REPLACE TEMP MACRO differ(a, b) AS a <> b AND NOT regexp_matches(concat_ws(' ', a, b), '{_HIDDEN}')",
    "CREATE OR REPLACE TEMP MACRO is_exact(ts, stage_ts) AS ts <> stage_ts AND date_trunc('second', ts) <> ts",
)
# Whether row `a` is another request than row `b`, whose identity it has.
IS_OTHER = (
    f"NOT list_has_any(b.flags, ['{AGGREGATED}', '{REVIEWED}']) AND NOT list_has_any(a.flags, ['{AGGREGATED}', '{REVIEWED}'])"
    f" AND coalesce({_differing}, false)"
)
# The columns that it needs of both, in addition to those of the identity.
COMPARED = (*_SAME, "ts", "request_uri", "flags")


def told_apart(rows: pa.Table) -> pa.Table:
    """Rows of schema.EVENTS under audit IDs of their own."""
    ids: list[str] = []
    notes: list[list[tuple[str, str]]] = []
    wanted = rows.select(["audit_id", "notes", *_SAME, "request_uri"]).to_pylist()
    for row, ts in zip(wanted, rows["ts"].cast(pa.int64()).to_pylist(), strict=True):
        told = [*(row[name] for name in _SAME), (row["request_uri"] or "").partition("?")[0], ts]
        ids.append(f"{row['audit_id']}~{xxhash.xxh3_64_hexdigest(msgspec.json.encode(told))}")
        notes.append([*row["notes"], (REUSED, row["audit_id"])])
    changed: dict[str, list[str] | list[list[tuple[str, str]]]] = {"audit_id": ids, "notes": notes}
    for name, values in changed.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), pa.array(values, rows.schema.field(index).type))
    return rows
