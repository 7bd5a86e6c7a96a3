"""The one place that names the columns of the lake's `events` table and their types.

One row per (cluster, audit_id, stage, stage_ts). `audit_id` alone identifies nothing: a client may choose it (kubernetes/apiserver
pkg/endpoints/filters/audit_init.go). Lists and maps are never null, so that queries need not distinguish null from empty. The two
object columns hold the raw JSON as received, byte for byte; null means that the event had none.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

# Arrow's own allocator gives memory back to the system within milliseconds, and asks for it again. That doubled the time that
# ingest spends in the kernel.
pa.set_memory_pool(pa.system_memory_pool())

SCHEMA_VERSION = 2

_TS = pa.timestamp("us", tz="UTC")

VAP_FAILURE = pa.struct(
    [
        pa.field("policy", pa.string()),
        pa.field("binding", pa.string()),
        pa.field("message", pa.string()),
        pa.field("expression_index", pa.int32()),
        pa.field("actions", pa.list_(pa.string())),
    ]
)

_COLUMNS: list[pa.Field[Any]] = [
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("audit_id", pa.string(), nullable=False),
    pa.field("stage", pa.string(), nullable=False),
    pa.field("stage_ts", _TS, nullable=False),
    # requestReceivedTimestamp, or stageTimestamp where the log lacks it; null there in lakes of earlier versions
    pa.field("ts", _TS),
    pa.field("level", pa.string(), nullable=False),
    pa.field("verb", pa.string()),
    pa.field("request_uri", pa.string()),
    pa.field("user_name", pa.string()),
    pa.field("user_uid", pa.string()),
    pa.field("user_groups", pa.list_(pa.string()), nullable=False),
    pa.field("user_extra", pa.string()),  # JSON: map of string to list of string
    pa.field("impersonated_user", pa.string()),  # JSON: UserInfo
    pa.field("source_ips", pa.list_(pa.string()), nullable=False),
    pa.field("user_agent", pa.string()),
    pa.field("api_group", pa.string()),  # objectRef; null where the request names no resource
    pa.field("api_version", pa.string()),
    pa.field("resource", pa.string()),
    pa.field("subresource", pa.string()),
    pa.field("namespace", pa.string()),
    pa.field("name", pa.string()),
    pa.field("obj_uid", pa.string()),
    pa.field("obj_rv", pa.string()),
    pa.field("code", pa.int32()),
    pa.field("status_reason", pa.string()),
    pa.field("status_message", pa.string()),
    pa.field("annotations", pa.map_(pa.string(), pa.string()), nullable=False),
    pa.field("notes", pa.map_(pa.string(), pa.string()), nullable=False),  # Hindcast's own, by name: ingest/notes.py
    pa.field("vap_failures", pa.list_(VAP_FAILURE), nullable=False),
    pa.field("request_object", pa.string()),
    pa.field("response_object", pa.string()),
    pa.field("extra", pa.string()),  # JSON: top-level fields that have no column
    pa.field("review", pa.string()),  # JSON: what AdmissionReviews said of the request: ingest/reviewed.py
    pa.field("ingest_ts", _TS, nullable=False),
    pa.field("ingest_source", pa.string(), nullable=False),
    pa.field("flags", pa.list_(pa.string()), nullable=False),  # truncated, redacted, objects_expired, ...
]

EVENTS = pa.schema(
    _COLUMNS,
    metadata={b"hindcast.schema_version": str(SCHEMA_VERSION).encode()},
)

EVENT_KEY = ("cluster", "audit_id", "stage", "stage_ts")

# The order in which a compacted file is sorted: the order makes files 2.3 times smaller and speeds up reading one resource.
SORT_ORDER = ("api_group", "resource", "subresource", "namespace", "name", "ts")

_OBJECT_COLUMNS: list[pa.Field[Any]] = [
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("observed_ts", _TS, nullable=False),  # when the list was taken
    pa.field("list_rv", pa.string()),  # resourceVersion of the list, if known
    pa.field("api_version", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("namespace", pa.string()),
    pa.field("name", pa.string(), nullable=False),
    pa.field("uid", pa.string()),
    pa.field("resource_version", pa.string()),
    pa.field("object", pa.string(), nullable=False),  # raw JSON
    pa.field("source", pa.string(), nullable=False),
]

# One row per object of a snapshot (`kubectl get -A -o json`). The lists of one snapshot are from different moments.
OBJECTS = pa.schema(_OBJECT_COLUMNS, metadata={b"hindcast.schema_version": str(SCHEMA_VERSION).encode()})

_REPEAT_COLUMNS: list[pa.Field[Any]] = [
    *(EVENTS.field(name) for name in (*EVENT_KEY, "ingest_ts", "ingest_source")),
    pa.field("conflicting", pa.bool_(), nullable=False),  # its content differs from the stored event
]

# One row per event that arrived again from another kind of source, or with other content. The events themselves name only their
# first source; these rows show which events came from both sources.
REPEATS = pa.schema(_REPEAT_COLUMNS, metadata={b"hindcast.schema_version": str(SCHEMA_VERSION).encode()})


def time_column(kind: str) -> str:
    """The column by which a table's files are placed in days."""
    return {"events": "stage_ts", "objects": "observed_ts", "repeats": "stage_ts"}[kind]
