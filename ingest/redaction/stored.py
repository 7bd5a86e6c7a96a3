"""Tokens of Hindcast's own recorder in lakes of earlier versions, which kept the whole address of a webhook.

Only records about webhooks, and messages about failed calls of one, can show the address. So few rows of few files are read whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ..engine import engine_cursor
from ..notes import REDACTED
from ..schema import EVENTS, OBJECTS
from .forms import clean_text
from .urls import clean_urls

# A path below /admission/ that is not the placeholder, wherever it is quoted.
_ADDRESS = r"//[^\s\"]*/admission\\*/(?:[^R\s\"\\]|R[^E\s\"\\])"
_BODIES = ("request_object", "response_object", "extra")  # lakes of format 1 have these, too
_OF_WEBHOOKS = "api_group = 'admissionregistration.k8s.io'"
_IN_BODIES = " OR ".join(f"regexp_matches({name}, '{_ADDRESS}')" for name in _BODIES)
_IN_TEXTS = (
    f"regexp_matches(status_message, '{_ADDRESS}')"
    f" OR list_bool_or(list_transform(map_values(annotations), lambda text: regexp_matches(text, '{_ADDRESS}')))"
)
_EVENTS = f"(contains(status_message, '/admission') AND ({_IN_TEXTS})) OR ({_OF_WEBHOOKS} AND ({_IN_BODIES}))"
_OBJECTS = f"kind IN ('ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration') AND regexp_matches(object, '{_ADDRESS}')"
_COUNT = (
    "SELECT filename, count(*) FROM read_parquet($files, hive_partitioning = false, filename = true) WHERE {} GROUP BY filename"
)


def files_with_tokens(paths: Iterable[Path], kind: str) -> dict[str, int]:
    """The files of events or objects whose rows show such an address, with how many rows do. Damaged files are left out."""
    count = _COUNT.format(_EVENTS if kind == "events" else _OBJECTS)
    cursor = engine_cursor()

    def counted(files: list[str]) -> dict[str, int]:
        if not files:
            return {}
        try:
            return dict(cursor.execute(count, {"files": files}).fetchall())
        except duckdb.Error:
            half = len(files) // 2
            return {} if not half else {**counted(files[:half]), **counted(files[half:])}

    try:
        return counted(list(map(str, paths)))
    finally:
        cursor.close()


def without_tokens(table: pa.Table) -> pa.Table:
    """Rows of events or objects without such addresses; the same table without any. A changed event has a note of it."""
    is_events = "audit_id" in table.column_names
    names = (*_BODIES, "status_message") if is_events else ("object",)
    schema = EVENTS if is_events else OBJECTS
    marks = [pc.match_substring_regex(table[name], _ADDRESS) for name in names]
    if is_events:
        marks.append(_in_annotations(table["annotations"]))
    rows = [row for row, each in enumerate(zip(*(mark.to_pylist() for mark in marks), strict=True)) if any(each)]
    if not rows:
        return table
    cleaned = [_row(row, is_events) for row in table.take(pa.array(rows)).to_pylist()]
    kept = table.filter(pc.invert(pc.is_in(pa.array(range(table.num_rows)), value_set=pa.array(rows))))
    return pa.concat_tables([kept.cast(schema), pa.Table.from_pylist(cleaned, schema=schema)])


def _in_annotations(column: Any) -> Any:
    # A message about a failed call is the only annotation of the server with an address; few events have one.
    texts = [any("/admission" in text for _, text in each or ()) for each in column.to_pylist()]
    return pa.array(texts)


def _row(row: dict[str, Any], is_event: bool) -> dict[str, Any]:
    notes = dict(row.get("notes") or ())
    told: Sequence[str] = ()
    for name in (*_BODIES, "object") if is_event else ("object",):
        if (body := row.get(name)) is not None and (cleaned := clean_urls(body.encode()).decode()) != body:
            row[name] = cleaned
            told = (*told, f"{_FIELDS.get(name, name)}:url")
    if not is_event:
        return row
    if row["status_message"]:
        row["status_message"] = clean_text(row["status_message"])
    row["annotations"] = [(key, clean_text(text)) for key, text in row["annotations"]]
    if told:
        before = [each for each in notes.get(REDACTED, "").split(",") if each]
        row["notes"] = list((notes | {REDACTED: ",".join(dict.fromkeys((*before, *told)))}).items())
    return row


_FIELDS = {"request_object": "requestObject", "response_object": "responseObject"}
